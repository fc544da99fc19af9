"""The race of views against scipy, and what P3 says of it."""

import numpy as np
import pytest

from neuralrace.errors import RangeError
from neuralrace.theory.exact import Race

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
ALL = Race(STRENGTHS, RATES, DEPTHS, SATURATIONS)


@pytest.fixture(scope="module")
def amplitudes():
    """All races at all times, (times, races, views); the last time is 1e9."""
    return ALL.strength(TIMES)


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
    alone = Race(STRENGTHS[i], rates, depth, saturation)
    np.testing.assert_allclose(alone.strength(times), amplitudes[:-1, i], rtol=1e-12)


def test_end_is_exact_and_reached(amplitudes):
    total = np.sum(ALL.final ** DEPTHS[:, None], axis=1)
    np.testing.assert_allclose(total, SATURATIONS**DEPTHS, rtol=1e-12)
    np.testing.assert_allclose(ALL.shares, ALL.final ** DEPTHS[:, None] / total[:, None], rtol=1e-12)
    np.testing.assert_array_equal(ALL.winner, np.argmax(ALL.final, axis=1))
    np.testing.assert_allclose(amplitudes[-1], ALL.final, rtol=1e-12)
    np.testing.assert_allclose(amplitudes[:, -1], np.tile(STRENGTHS[-1], (len(TIMES), 1)), rtol=1e-13)


def test_differences_of_the_clocks_are_conserved():
    """View m reads T_m = log(a_m)/r_m at depth two and a_m^(2-L)/((2-L) r_m) beyond; all advance together."""

    def readings(a):
        q = DEPTHS[:, None] - 2
        clock = np.where(q == 0, np.log(a), a**-q / -np.where(q == 0, 1, q)) / RATES
        return clock - clock[:, :1]

    size = np.max(STRENGTHS ** (2 - DEPTHS)[:, None], axis=1, keepdims=True) + 50
    assert np.max(np.abs(readings(ALL.final) - readings(STRENGTHS)) / size) < 2e-14


def test_losers_do_not_decay_at_depth_two():
    """P3 claims that losers decay to zero; at depth two with equal rates the shares never change."""
    strengths = np.array([1e-3, 2e-3, 3e-3])
    race = Race(strengths, 1.0, [2, 3, 5])
    np.testing.assert_allclose(race.shares[0], strengths**2 / np.sum(strengths**2), rtol=1e-13)
    assert np.all(race.final > strengths)  # nor does any amplitude fall at greater depth: the losers are left behind


def test_deeper_races_are_won_more_clearly():
    shares = Race([0.010, 0.011, 0.009], 1.0, [2, 3, 4, 6]).shares[:, 1]
    assert np.all(np.diff(shares) > 0)
    assert shares[0] == pytest.approx(1.21 / 3.02)
    assert shares[-1] > 1 - 1e-7


def test_rate_times_strength_does_not_name_the_winner_at_depth_two():
    """P3's rule argmax r_m a_m(0): a faster view with a smaller product still wins from small strengths."""
    strengths, rates = np.array([1e-6, 3e-6, 1e-6]), np.array([1.5, 1.0, 0.5])
    assert np.argmax(rates * strengths) == 1
    np.testing.assert_array_equal(Race(strengths, rates, [2, 3]).winner, [0, 1])  # at depth three the rule is right


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
    found = Race(start * np.sqrt(views), target * views, 2, np.sqrt(target)).strength(times)
    np.testing.assert_allclose(found / np.sqrt(views), layers, rtol=1e-9)  # scipy's 1e-12, added up


@pytest.mark.parametrize(("depth", "saturation"), [(2, 1.0), (3, 0.7), (5, 1.0)])
def test_phases_end_where_the_learned_fraction_says(depth, saturation):
    race = Race([0.05, 0.06, 0.04], [1.0, 0.8, 1.1], depth, saturation)
    growth, competition = race.phases()
    assert 0 < growth < competition
    learned = np.sum((race.strength([growth, competition]) / saturation) ** depth, axis=-1)
    np.testing.assert_allclose(learned, [0.1, 0.9], rtol=1e-10)


def test_growth_takes_the_logarithm_of_the_start_or_the_time_to_blow_up():
    """At depth two each tenfold smaller start takes log(10)/sigma longer; beyond, a^(2-L)/((L-2) r) and no longer."""
    times = [Race([a, a], 0.5).time(0.1) for a in (1e-3, 1e-4, 1e-5)]
    np.testing.assert_allclose(np.diff(times), np.log(10) / 0.5, rtol=1e-3)  # but for 2 a^2 against 0.1
    np.testing.assert_allclose(Race([1.0e-9, 0.9e-9], 0.5, 4).phases(), 1e18, rtol=1e-6)
    np.testing.assert_allclose(Race([0.02, 0.01], 1.0, 50).phases(), 0.02**-48 / 48, rtol=1e-6)
    assert Race([2e-8, 1e-8], 1.0, 50).phases() == (np.inf, np.inf)  # a time of 1e367
    assert Race([0.9, 0.8], 1.0).phases() == (0.0, 0.0)  # it starts beyond them
    with pytest.raises(RangeError, match="level must be below 1"):
        Race([0.1, 0.1], 1.0).time(1.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0.1], 1.0), "a race needs at least two views; strengths has 1"),
        (([0.1, 0.0], 1.0), r"strengths .* it was 0 at position \(1,\).*never learns"),
        (([0.1, 0.1], [1.0, -1.0]), "rates must be finite and above 0; it was -1"),
        (([0.1, 0.1], 1.0, 1), "depth must be finite and at least 2; it was 1 *; one layer has no race"),
        (([0.1, 0.1], 1.0, 2, 0.0), "saturation must be finite and above 0"),
        (([0.1, 0.1], [1.0, 1.0, 1.0]), "rates must be one number or one per view, 2"),
        (("fast", 1.0), "strengths must be an array of numbers"),
    ],
)
def test_what_is_no_race_is_refused(arguments, words):
    with pytest.raises(RangeError, match=words):
        Race(*arguments)
