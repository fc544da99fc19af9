"""Views that occur together in part: between the shared race and views that learn alone."""

import numpy as np
import pytest

from neuralrace import views
from neuralrace.errors import AssumptionError, RangeError

START = np.array([0.05, 0.06, 0.04])


def test_views_that_are_always_together_run_the_exact_race():
    drive = np.array([0.3, 0.2, 0.4])
    coupled = views.coupled_race(START, drive, np.outer(drive, drive), 3)
    # the bracket is S_m (1 - sum_n S_n a_n^3): with b = S^(1/3) a the race of rates S^(2/3)
    scale = drive ** (1 / 3)
    exact = views.race(START * scale, drive * scale**-1, 3)
    times = np.linspace(0, 300, 64)
    # the integrator's 1e-10 per step, where amplitudes blow up like 1/(T - t)
    np.testing.assert_allclose(coupled.amplitudes(times) * scale, exact.amplitudes(times), rtol=1e-6)


def test_views_that_are_never_together_learn_alone():
    rates = np.array([0.3, 0.2, 0.4])
    coupled = views.coupled_race(START, rates, np.diag(rates))
    times = np.linspace(0, 60, 13)
    start, grown = START[None] ** 2, np.exp(2 * rates * times[:, None])
    logistic = start * grown / (1 + start * (grown - 1))
    np.testing.assert_allclose(coupled.amplitudes(times) ** 2, logistic, rtol=1e-7)  # 1e-10 per step, added up
    np.testing.assert_allclose(coupled.final, 1.0, rtol=1e-12)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("together", [0.0, 0.5, 0.9])
def test_the_end_does_not_depend_on_the_start_below_full_co_occurrence(depth, together):
    coupling = views.co_occurrence(3, together, 0.5)
    race = views.coupled_race(START, [0.5, 0.45, 0.55], coupling, depth)
    # at depth three a view that is excluded (the slowest, at 0.9) fades only like 1/t
    np.testing.assert_allclose(
        race.amplitudes([0.0, 1e4])[-1], race.final, rtol=1e-6, atol=1e-4 if depth == 2 else 5e-3
    )
    if together == 0.5:
        other = views.coupled_race(START[::-1] * 2, [0.5, 0.45, 0.55], coupling, depth)
        np.testing.assert_array_equal(race.final, other.final)
    assert race.winner == 2
    np.testing.assert_allclose(race.shares.sum(), 1)


def test_a_view_that_another_explains_away_does_decay():
    """Competitive exclusion, the one way in which a loser falls to zero: S_2 < D_21 S_1 / D_11."""
    race = views.coupled_race([0.05, 0.05], [1.0, 0.5], [[1.0, 0.8], [0.8, 1.0]])
    np.testing.assert_allclose(race.final, [1.0, 0.0], atol=1e-12)
    late = race.amplitudes([0.0, 5.0, 20.0, 100.0])[:, 1]
    assert late[1] > late[2] > late[3]
    assert late[3] < 1e-12


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0.1], [1.0], [[1.0]]), "at least two views"),
        (([0.1, 0.1], [1.0], np.eye(2)), "drive must have shape"),
        (([0.1, 0.0], [1.0, 1.0], np.eye(2)), "strengths must be finite and above 0"),
        (([0.1, 0.1], [1.0, -1.0], np.eye(2)), "drive must be finite and above 0"),
        (([0.1, 0.1], [1.0, 1.0], [[1.0, 0.2], [0.3, 1.0]]), "coupling must be finite and symmetric"),
        (([0.1, 0.1], [1.0, 1.0], [[1.0, 2.0], [2.0, 1.0]]), "coupling must have no negative eigenvalue"),
        (([0.1, 0.1], [1.0, 1.0], np.eye(2), 1), "depth must be .* at least 2"),
    ],
)
def test_what_is_no_race_is_refused(arguments, words):
    with pytest.raises(RangeError, match=words):
        views.coupled_race(*arguments)


def test_limits_are_named():
    with pytest.raises(RangeError, match=r"together must be .* at most 1"):
        views.co_occurrence(3, 1.1)
    always = views.coupled_race(START, [1.0] * 3, views.co_occurrence(3, 1.0))
    np.testing.assert_allclose(always.amplitudes([0.0]), [START], rtol=1e-15)  # an end at once
    with pytest.raises(AssumptionError, match=r"positive definite.*use race"):
        _ = always.final
    with pytest.raises(RangeError, match="times must be one axis of increasing numbers"):
        always.amplitudes([1.0, 0.5])
