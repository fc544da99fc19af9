"""The exact race through its front door: against scipy, its phases in time, and what is refused."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace import views
from neuralrace.errors import RangeError

START, RATES = np.array([0.05, 0.06, 0.04]), np.array([1.0, 0.8, 1.1])


def integrated(race, times):
    def velocity(_, a):
        return race.rates * a ** (race.depth - 1) * (1 - np.sum(a**race.depth) / race.saturation**race.depth)

    return solve_ivp(velocity, (0, times[-1]), race.strengths, "DOP853", times, rtol=1e-11, atol=1e-14).y.T


@pytest.mark.parametrize(("depth", "until"), [(2, 8.0), (3, 40.0)])
def test_amplitudes_solve_the_equation(depth, until):
    race = views.race(START, RATES, depth, saturation=1.2)
    times = np.linspace(0, until, 70)  # more than one block
    # scipy's 1e-11 per step, carried through a growth of twenty-five times
    np.testing.assert_allclose(race.amplitudes(times), integrated(race, times), rtol=1e-7)
    assert race.amplitudes(times[:10].reshape(2, 5)).shape == (2, 5, 3)
    np.testing.assert_allclose(race.amplitudes(0.0), START, rtol=1e-13)


def test_contract():
    race = views.race(START, RATES)
    assert race.winner == int(np.argmax(race.final))
    np.testing.assert_allclose(race.shares, race.final**2 / np.sum(race.final**2), rtol=1e-12)
    np.testing.assert_allclose(np.sum(race.final**2), 1.0, rtol=1e-12)
    even = views.race([0.01, 0.02], 1.0)
    np.testing.assert_allclose(even.shares, [0.2, 0.8], rtol=1e-12)
    assert views.race([0.1, 0.1], 1.0).winner == 0  # of equal views the first


@pytest.mark.parametrize(("depth", "saturation"), [(2, 1.0), (3, 0.7), (5, 1.0)])
def test_phases_end_where_the_filled_fraction_says(depth, saturation):
    race = views.race(START, RATES, depth, saturation)
    phases = race.phases()
    assert 0 < phases.growth < phases.competition
    # the exact solver and the quadrature are independent: 1e-10 each, times the speed of the filling at that moment
    np.testing.assert_allclose(race.filled(np.array(phases)), [0.1, 0.9], rtol=1e-6)


def test_growth_takes_the_logarithm_of_the_start_at_depth_two():
    """P3's phase 1 at depth two: each tenfold smaller start takes log(10)/sigma longer."""
    times = [views.race([a, a], 0.5).phases().growth for a in (1e-3, 1e-4, 1e-5)]
    np.testing.assert_allclose(np.diff(times), np.log(10) / 0.5, rtol=1e-3)  # but for 2 a^2 against 0.1


def test_growth_takes_the_time_to_blow_up_beyond_depth_two():
    """From tiny strengths da/dt = r a^3 reaches anything at 1/(2 r a(0)^2), which the fastest of the views sets."""
    start = np.array([1.0e-9, 0.9e-9])
    phases = views.race(start, 0.5, 4).phases()
    np.testing.assert_allclose(phases, 1 / (2 * 0.5 * 1e-18), rtol=1e-6)  # the rest takes a time of order one
    deep = views.race([0.02, 0.01], 1.0, 50).phases()
    np.testing.assert_allclose(deep, 0.02**-48 / 48, rtol=1e-6)
    assert views.race([2e-8, 1e-8], 1.0, 50).phases() == (np.inf, np.inf)  # a time of 1e367


def test_a_race_that_starts_filled_has_no_growth():
    assert views.race([0.9, 0.8], 1.0).phases() == (0.0, 0.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0.1], 1.0), "a race needs at least two views; strengths has 1"),
        (([0.1, 0.0], 1.0), r"strengths .* it was 0 at position \(1,\).*never learns"),
        (([0.1, 0.1], [1.0, -1.0]), "rates must be finite and above 0; it was -1"),
        (([0.1, 0.1], 1.0, 1), "depth must be finite and at least 2; it was 1; one layer has no race"),
        (([0.1, 0.1], 1.0, 2, 0.0), "saturation must be finite and above 0"),
        (([0.1, 0.1], [1.0, 1.0, 1.0]), "rates must be one number or one per view, 2; 3 came"),
        (([[0.1, 0.1]], 1.0), "strengths must have one axis"),
        (("fast", 1.0), "strengths must be an array of numbers"),
    ],
)
def test_what_is_no_race_is_refused(arguments, words):
    with pytest.raises(RangeError, match=words):
        views.race(*arguments)


def test_levels_that_are_never_reached_are_refused():
    race = views.race([0.1, 0.1], 1.0)
    with pytest.raises(RangeError, match="level must be below 1"):
        race.time_to(1.0)
    with pytest.raises(RangeError, match="low must be below high"):
        race.phases(0.9, 0.1)
    with pytest.raises(RangeError, match="times must be an array of numbers"):
        race.amplitudes("soon")
