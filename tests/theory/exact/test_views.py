import jax
import numpy as np
import pytest

from neuralrace.errors import RangeError
from neuralrace.precision import float64
from neuralrace.theory import exact

# strengths, rates, depth, saturation; three views each so that one compiled solver serves all
RACES = [
    ([1e-12, 1e-10, 1e-8], [3.0, 2.0, 1.2], 2.0, 2.0),
    ([1e-6, 2e-6, 3e-6], [1.0, 1.0, 1.0], 2.0, 1.0),
    ([1e-4, 0.9, 1e-3], [5.0, 0.1, 1.0], 2.0, 1.0),
    ([0.01, 0.02, 0.015], [1.0, 0.7, 1.0], 3.0, 1.0),
    ([1e-3, 1.05e-3, 1.1e-3], [1.0, 1.0, 1.0], 4.0, 1.0),
    ([0.05, 0.05, 0.05], [1.0, 1.0, 1.0], 3.0, 1.0),
    ([0.2, 0.21, 0.19], [1.0, 1.0, 1.3], 10.0, 1.0),
    ([0.5, 0.6, 0.1], [1.0, 2.0, 3.0], 2.5, 0.3),
]


def field(rates, depth, saturation):
    def logs(_, y):
        left = 1 - np.sum(np.exp(depth * y)) / saturation**depth
        return rates * np.exp((depth - 2) * y) * left

    return logs


@pytest.mark.parametrize("race", RACES)
def test_amplitudes_solve_the_race(race, integrate):
    strengths, rates, depth, saturation = (np.asarray(x) for x in race)
    unit = 1 / np.max(rates * strengths ** (depth - 2))
    times = unit * np.array([0.0, 0.01, 0.2, 0.33, 0.5, 0.9, 1.0, 2.0, 9.0, 15.0, 25.0, 60.0])
    velocity = field(rates, depth, saturation)
    states = integrate(velocity, np.log(strengths), times, "DOP853" if depth < 3 else "Radau")
    found = np.log(exact.race_amplitudes(times, strengths, rates, depth, saturation))
    speed = np.array([np.abs(velocity(0, y)) for y in states])
    # scipy's 1e-12 per step adds up to 1e-10 in amplitude and in time
    assert np.max(np.abs(found - states) / (1 + speed * times[:, None])) < 1e-10
    end = exact.race_end(strengths, rates, depth, saturation)
    np.testing.assert_allclose(end.amplitudes, np.exp(states[-1]), rtol=1e-9)
    assert end.winner == np.argmax(states[-1])


def test_end_is_exact():
    for strengths, rates, depth, saturation in RACES:
        end = exact.race_end(strengths, rates, depth, saturation)
        assert np.sum(end.amplitudes**depth) == pytest.approx(saturation**depth, rel=1e-13)
        np.testing.assert_allclose(end.shares, end.amplitudes**depth / saturation**depth, rtol=1e-12)
        late = exact.race_amplitudes(1e9, strengths, rates, depth, saturation)
        np.testing.assert_allclose(late, end.amplitudes, rtol=1e-12)


def test_differences_of_the_clocks_are_conserved():
    for strengths, rates, depth, saturation in RACES[:5]:
        end = exact.race_end(strengths, rates, depth, saturation).amplitudes
        start = exact.race_invariants(strengths, rates, depth)
        # the readings are as large as a^(2-L)/r, and differences carry a rounding of that
        size = np.max(np.abs(np.asarray(strengths) ** (2.0 - depth))) + 50
        np.testing.assert_allclose(exact.race_invariants(end, rates, depth), start, atol=1e-14 * size)


def test_equal_rates_at_depth_two_are_one_logistic_curve():
    strengths = np.array([1e-6, 2e-6, 3e-6])
    times = np.array([0.0, 1.0, 10.0, 12.0, 13.0, 14.0, 20.0, 100.0])
    total = np.sum(strengths**2)
    # z = sum a^2 obeys dz/dt = 2 r z (1 - z)
    z = 1 / (1 + (1 / total - 1) * np.exp(-2 * times))
    expected = strengths * np.sqrt(z / total)[:, None]
    # the oracle's own e^(-2t) loses 1e-14 where the logistic turns
    np.testing.assert_allclose(exact.race_amplitudes(times, strengths, 1.0), expected, rtol=1e-12)


def test_losers_do_not_decay_at_depth_two():
    """P3 claims that losers decay to zero; at depth two with equal rates the shares never change."""
    strengths = np.array([1e-3, 2e-3, 3e-3])
    end = exact.race_end(strengths, 1.0, depth=2)
    np.testing.assert_allclose(end.shares, strengths**2 / np.sum(strengths**2), rtol=1e-13)
    assert np.all(end.amplitudes > strengths)
    for depth in (2, 3, 5):  # nor does any amplitude fall at greater depth: the losers are left behind
        assert np.all(exact.race_end(strengths, 1.0, depth).amplitudes > strengths)


def test_deeper_races_are_won_more_clearly():
    shares = [exact.race_end([0.010, 0.011], 1.0, depth).shares[1] for depth in (2, 3, 4, 6)]
    assert np.all(np.diff(shares) > 0)
    assert shares[0] == pytest.approx(1.21 / 2.21)
    assert shares[-1] > 1 - 1e-7


def test_rate_times_strength_does_not_name_the_winner_at_depth_two():
    """P3's rule argmax r_m a_m(0): a faster view with a smaller product still wins from small strengths."""
    strengths, rates = np.array([1e-6, 3e-6]), np.array([1.5, 1.0])
    assert np.argmax(rates * strengths) == 1
    assert exact.race_end(strengths, rates, depth=2).winner == 0
    assert exact.race_end(strengths, rates, depth=3).winner == 1, "at depth three the rule is right"


def test_a_race_that_starts_at_its_end_stays():
    still = exact.race_amplitudes([0.0, 1.0, 1e6], [0.6, 0.8], [1.0, 2.0])
    np.testing.assert_allclose(still, np.tile([0.6, 0.8], (3, 1)), rtol=1e-14)


def test_races_and_times_broadcast():
    strengths = np.full((4, 3), 0.1) + np.arange(3) * 0.01
    times = np.linspace(0, 5, 6)[:, None]
    assert exact.race_amplitudes(times, strengths, 1.0, depth=np.array([2, 2.5, 3, 4])).shape == (6, 4, 3)
    assert exact.race_end(strengths, np.ones(3), saturation=2.0).winner.shape == (4,)


def test_gradients():
    strengths, rates = np.array([0.02, 0.03, 0.01]), np.array([1.0, 0.8, 1.2])
    for depth in (2.0, 3.0):
        t = 0.4 / np.max(rates * strengths ** (depth - 2)) * (8 if depth == 2 else 2)

        def probe(a, r, s, t=t, depth=depth):
            return exact.race_amplitudes(t, a, r, depth, s)[1] ** 2 + exact.race_end(a, r, depth, s).shares[1]

        found = float64(jax.grad(probe, (0, 1, 2)))(strengths, rates, 1.3)
        for argument, values in enumerate((strengths, rates, np.array(1.3))):
            for index in np.ndindex(values.shape):
                step = np.zeros_like(values)
                step[index] = 1e-5 * values[index]
                points = [[strengths, rates, np.array(1.3)] for _ in (0, 1)]
                points[0][argument], points[1][argument] = values + step, values - step
                difference = (probe(*points[0]) - probe(*points[1])) / (2 * step[index])
                assert float(found[argument][index]) == pytest.approx(float(difference), rel=1e-6, abs=1e-9)


def test_bad_numbers_are_named():
    with pytest.raises(RangeError, match=r"strengths .* it was 0 at position \(1,\).*never learns"):
        exact.race_end([0.1, 0.0], 1.0)
    with pytest.raises(RangeError, match=r"rates must be finite and above 0; it was -1"):
        exact.race_end([0.1, 0.1], [1.0, -1.0])
    with pytest.raises(RangeError, match="depth must be finite and at least 2; it was 1"):
        exact.race_end([0.1, 0.1], 1.0, depth=1)
    with pytest.raises(RangeError, match="saturation"):
        exact.race_end([0.1, 0.1], 1.0, saturation=0.0)
    with pytest.raises(RangeError, match="times .* it was -1"):
        exact.race_amplitudes(-1.0, [0.1, 0.1], 1.0)
