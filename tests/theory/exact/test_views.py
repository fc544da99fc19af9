import jax
import numpy as np
import pytest

from neuralrace.arrays import float64
from neuralrace.errors import RangeError
from neuralrace.theory import exact

# strengths, rates, depth, saturation; the last starts at its end
RACES = [
    ([1e-12, 1e-10, 1e-8], [3.0, 2.0, 1.2], 2.0, 2.0),
    ([1e-6, 2e-6, 3e-6], [1.0, 1.0, 1.0], 2.0, 1.0),
    ([1e-4, 0.9, 1e-3], [5.0, 0.1, 1.0], 2.0, 1.0),
    ([0.01, 0.02, 0.015], [1.0, 0.7, 1.0], 3.0, 1.0),
    ([1e-3, 1.05e-3, 1.1e-3], [1.0, 1.0, 1.0], 4.0, 1.0),
    ([0.05, 0.05, 0.05], [1.0, 1.0, 1.0], 3.0, 1.0),
    ([0.2, 0.21, 0.19], [1.0, 1.0, 1.3], 10.0, 1.0),
    ([0.5, 0.6, 0.1], [1.0, 2.0, 3.0], 2.5, 0.3),
    ([0.48, 0.6, 0.64], [1.0, 2.0, 3.0], 2.0, 1.0),
]
STRENGTHS, RATES, DEPTHS, SATURATIONS = (np.array([race[i] for race in RACES]) for i in range(4))
UNITS = 1 / np.max(RATES * STRENGTHS ** (DEPTHS - 2)[:, None], axis=1)
TIMES = UNITS * np.array([0.0, 0.01, 0.2, 0.33, 0.5, 0.9, 1.0, 2.0, 9.0, 15.0, 25.0, 60.0, 1e9])[:, None]


@pytest.fixture(scope="module")
def amplitudes():
    """All races at all times in one call, (times, races, views); the last time is 1e9."""
    return exact.race_amplitudes(TIMES, STRENGTHS, RATES, DEPTHS, SATURATIONS)


def races(strengths, rates, depths):
    """The ends of a few races, in a call of the size that is compiled already."""
    strengths, rates, depths = np.atleast_2d(strengths), np.atleast_2d(rates), np.atleast_1d(depths)
    count = max(len(strengths), len(rates), len(depths))
    shape = np.broadcast_to(strengths, (count, 3)), np.broadcast_to(rates, (count, 3))
    rows = [np.pad(x, ((0, len(RACES) - count), (0, 0)), mode="edge") for x in shape]
    depths = np.pad(np.broadcast_to(depths, count).astype(float), (0, len(RACES) - count), mode="edge")
    end = exact.race_end(*rows, depths, np.ones(len(RACES)))
    return exact.RaceEnd(*(x[:count] for x in end))


@pytest.fixture(scope="module")
def ends():
    return exact.race_end(STRENGTHS, RATES, DEPTHS, SATURATIONS)


@pytest.mark.parametrize("i", range(len(RACES)))
def test_amplitudes_solve_the_race(i, amplitudes, integrate):
    rates, depth, saturation, times = RATES[i], DEPTHS[i], SATURATIONS[i], TIMES[:-1, i]

    def velocity(_, y):
        left = 1 - np.sum(np.exp(depth * y)) / saturation**depth
        return rates * np.exp((depth - 2) * y) * left

    states = integrate(velocity, np.log(STRENGTHS[i]), times)
    speed = np.array([np.abs(velocity(0, y)) for y in states])
    error = np.abs(np.log(amplitudes[:-1, i]) - states)
    # scipy's 1e-12 per step adds up to 1e-10 in amplitude and in time
    assert np.max(error / (1 + speed * times[:, None])) < 1e-10


def test_end_is_exact_and_reached(amplitudes, ends):
    total = np.sum(ends.amplitudes ** DEPTHS[:, None], axis=1)
    np.testing.assert_allclose(total, SATURATIONS**DEPTHS, rtol=1e-12)
    np.testing.assert_allclose(ends.shares, ends.amplitudes ** DEPTHS[:, None] / total[:, None], rtol=1e-12)
    np.testing.assert_array_equal(ends.winner, np.argmax(ends.amplitudes, axis=1))
    np.testing.assert_allclose(amplitudes[-1], ends.amplitudes, rtol=1e-12)


def test_differences_of_the_clocks_are_conserved(ends):
    start = exact.race_invariants(STRENGTHS, RATES, DEPTHS)
    # the readings are as large as a^(2-L)/r, and differences carry a rounding of that
    size = np.max(STRENGTHS ** (2 - DEPTHS)[:, None], axis=1, keepdims=True) + 50
    after = exact.race_invariants(ends.amplitudes, RATES, DEPTHS)
    assert np.max(np.abs(after - start) / size) < 2e-14


def test_equal_rates_at_depth_two_are_one_logistic_curve(amplitudes):
    strengths, times = STRENGTHS[1], TIMES[:, 1]
    total = np.sum(strengths**2)
    # z = sum a^2 obeys dz/dt = 2 r z (1 - z)
    z = 1 / (1 + (1 / total - 1) * np.exp(-2 * times))
    # the oracle's own e^(-2t) loses 1e-14 where the logistic turns
    np.testing.assert_allclose(amplitudes[:, 1], strengths * np.sqrt(z / total)[:, None], rtol=1e-12)


def test_a_race_that_starts_at_its_end_stays(amplitudes):
    np.testing.assert_allclose(amplitudes[:, -1], np.tile(STRENGTHS[-1], (len(TIMES), 1)), rtol=1e-13)


def test_losers_do_not_decay_at_depth_two():
    """P3 claims that losers decay to zero; at depth two with equal rates the shares never change."""
    strengths = np.array([1e-3, 2e-3, 3e-3])
    end = races(strengths, 1.0, [2, 3, 5])
    np.testing.assert_allclose(end.shares[0], strengths**2 / np.sum(strengths**2), rtol=1e-13)
    # nor does any amplitude fall at greater depth: the losers are left behind
    assert np.all(end.amplitudes > strengths)


def test_deeper_races_are_won_more_clearly():
    shares = races([0.010, 0.011, 0.009], 1.0, [2, 3, 4, 6]).shares[:, 1]
    assert np.all(np.diff(shares) > 0)
    assert shares[0] == pytest.approx(1.21 / 3.02)
    assert shares[-1] > 1 - 1e-7


def test_rate_times_strength_does_not_name_the_winner_at_depth_two():
    """P3's rule argmax r_m a_m(0): a faster view with a smaller product still wins from small strengths."""
    strengths, rates = np.array([1e-6, 3e-6, 1e-6]), np.array([1.5, 1.0, 0.5])
    assert np.argmax(rates * strengths) == 1
    # at depth three the rule is right
    np.testing.assert_array_equal(races(strengths, rates, [2, 3]).winner, [0, 1])


def test_gradients():
    strengths, rates = np.array([0.02, 0.03, 0.01]), np.array([1.0, 0.8, 1.2])
    arguments = np.concatenate([strengths, rates, [1.3]])

    def probe(a, r, s, t, depth):
        return exact.race_amplitudes(t, a, r, depth, s)[..., 1] ** 2 + exact.race_end(a, r, depth, s).shares[..., 1]

    def probes(rows, t, depth):
        """Of some rows of arguments, in calls of the size that is compiled already."""
        count, found = len(RACES), []
        for some in np.split(np.pad(rows, ((0, -len(rows) % count), (0, 0)), mode="edge"), -(-len(rows) // count)):
            times = np.full((len(TIMES), count), t)
            found.append(probe(some[:, :3], some[:, 3:6], some[:, 6], times, np.full(count, depth))[0])
        return np.concatenate(found)[: len(rows)]

    slope = float64(jax.jit(jax.grad(probe, (0, 1, 2))))
    for depth in (2.0, 3.0):
        t = 0.4 / np.max(rates * strengths ** (depth - 2)) * (8 if depth == 2 else 2)
        found = np.concatenate([np.atleast_1d(part) for part in slope(strengths, rates, 1.3, t, depth)])
        steps = 1e-5 * arguments
        ahead, behind = (probes(arguments + sign * np.diag(steps), t, depth) for sign in (1, -1))
        assert list(found) == pytest.approx(list((ahead - behind) / (2 * steps)), rel=1e-6, abs=1e-9)


def test_bad_numbers_are_named():
    with pytest.raises(RangeError, match=r"strengths .* it was 0 at position \(1,\).*never learns"):
        exact.race_end([0.1, 0.0], 1.0)
    with pytest.raises(RangeError, match=r"rates must be finite and above 0; it was -1"):
        exact.race_end([0.1, 0.1], [1.0, -1.0])
    with pytest.raises(RangeError, match=r"depth must be finite and at least 2; it was 1"):
        exact.race_end([0.1, 0.1], 1.0, depth=1)
    with pytest.raises(RangeError, match=r"saturation"):
        exact.race_end([0.1, 0.1], 1.0, saturation=0.0)
    with pytest.raises(RangeError, match=r"times .* it was -1"):
        exact.race_amplitudes(-1.0, [0.1, 0.1], 1.0)


def test_race_is_eq_10_for_parallel_paths(integrate):
    """Two-layer linear paths with weights of their own, views shown together, one output (P1 eq. 10)."""
    views, target = np.array([1.0, 0.7, 1.3]), 0.8  # each view is a scalar input of this size
    start = np.array([0.01, 0.02, 0.015])

    def field(_, state):
        inner, outer = state[:3], state[3:]
        error = target - np.sum(outer * inner * views)
        return np.concatenate([outer * error * views, inner * error * views])

    times = np.array([0.0, 1.0, 3.0, 4.0, 8.0])
    layers = integrate(field, np.concatenate([start, start]), times)[:, :3]
    # with b_m = sqrt(view_m) a_m the sum of b^2 is the output: rates target * view_m, saturation sqrt(target)
    count = len(RACES)
    found = exact.race_amplitudes(
        np.tile(np.pad(times, (0, len(TIMES) - len(times)))[:, None], count),
        np.tile(start * np.sqrt(views), (count, 1)),
        np.tile(target * views, (count, 1)),
        np.full(count, 2.0),
        np.full(count, np.sqrt(target)),
    )[: len(times), 0]
    np.testing.assert_allclose(found / np.sqrt(views), layers, rtol=1e-9)  # scipy's 1e-12, added up
