"""P3's equation, derived from networks and solved: always together, in part together, never together."""

import numpy as np
import pytest

from neuralrace import tasks, views
from neuralrace.errors import AssumptionError, RangeError

START = np.array([0.05, 0.06, 0.04])


def test_the_contract_of_a_race():
    race = views.race([0.01, 0.02], 1.0)
    np.testing.assert_allclose(race.shares, [0.2, 0.8], rtol=1e-12)
    np.testing.assert_allclose(np.sum(race.final**2), 1.0, rtol=1e-12)
    assert race.winner == 1
    assert views.race([0.1, 0.1], 1.0).winner == 0  # of equal views the first
    assert race.strength(np.zeros((2, 5))).shape == (2, 5, 2)


def test_views_that_are_always_together_run_the_exact_race():
    drive = np.array([0.3, 0.2, 0.4])
    coupled = views.CoupledRace(START, drive, np.outer(drive, drive), 3)
    # the bracket is S_m (1 - sum_n S_n a_n^3): with b = S^(1/3) a the race of rates S^(2/3)
    scale = drive ** (1 / 3)
    exact = views.race(START * scale, drive * scale**-1, 3)
    times = np.linspace(0, 300, 64)
    # the integrator's 1e-10 per step, where amplitudes blow up like 1/(T - t)
    np.testing.assert_allclose(coupled.strength(times) * scale, exact.strength(times), rtol=1e-6)
    with pytest.raises(AssumptionError, match=r"positive definite.*use race"):
        _ = coupled.final


def test_views_that_are_never_together_learn_alone():
    rates = np.array([0.3, 0.2, 0.4])
    coupled = views.CoupledRace(START, rates, np.diag(rates))
    times = np.linspace(0, 60, 13)
    start, grown = START[None] ** 2, np.exp(2 * rates * times[:, None])
    logistic = start * grown / (1 + start * (grown - 1))
    np.testing.assert_allclose(coupled.strength(times) ** 2, logistic, rtol=1e-7)  # 1e-10 per step, added up
    np.testing.assert_allclose(coupled.final, 1.0, rtol=1e-12)


@pytest.mark.parametrize(("depth", "together"), [(2, 0.0), (2, 0.9), (3, 0.5), (3, 0.9)])
def test_the_end_does_not_depend_on_the_start_below_full_co_occurrence(depth, together):
    coupling = 0.5 * ((1 - together) * np.eye(3) + together)
    race = views.CoupledRace(START, [0.5, 0.45, 0.55], coupling, depth)
    # at depth three a view that is excluded (the slowest, at 0.9) fades only like 1/t
    late = race.strength([0.0, 1e4])[-1]
    np.testing.assert_allclose(late, race.final, rtol=1e-6, atol=1e-4 if depth == 2 else 5e-3)
    assert race.shares.argmax() == 2
    np.testing.assert_allclose(race.shares.sum(), 1)


def test_a_view_that_another_explains_away_does_decay():
    """Competitive exclusion, the one way in which a loser falls to zero: S_2 < D_21 S_1 / D_11."""
    race = views.CoupledRace([0.05, 0.05], [1.0, 0.5], [[1.0, 0.8], [0.8, 1.0]])
    np.testing.assert_allclose(race.final, [1.0, 0.0], atol=1e-12)
    late = race.strength([0.0, 5.0, 20.0, 100.0])[:, 1]
    assert late[1] > late[2] > late[3]
    assert late[3] < 1e-12


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0.1, 0.1], [1.0], np.eye(2)), r"drive of at least two views.*\(2,\), \(1,\) and \(2, 2\)"),
        (([0.1, 0.0], [1.0, 1.0], np.eye(2)), "strengths must be finite and above 0"),
        (([0.1, 0.1], [1.0, 1.0], [[1.0, 0.2], [0.3, 1.0]]), "coupling must be symmetric"),
        (([0.1, 0.1], [1.0, 1.0], [[1.0, 2.0], [2.0, 1.0]]), "coupling must be symmetric with no negative eigenvalue"),
        (([0.1, 0.1], [1.0, 1.0], np.eye(2), 1), "depth must be .* at least 2"),
    ],
)
def test_what_is_no_race_is_refused(arguments, words):
    with pytest.raises(RangeError, match=words):
        views.CoupledRace(*arguments)


def test_times_that_go_back_are_refused():
    with pytest.raises(RangeError, match="times must be one axis of increasing numbers"):
        views.CoupledRace(START, [1.0] * 3, np.eye(3)).strength([1.0, 0.5])


CHANCES, SIZES = np.array([0.9, 0.6, 0.8]), np.array([1.0, 0.7, 1.3])
BY_CHANCE = {"presence": "chance", "probability": tuple(CHANCES), "sizes": tuple(SIZES), "depth": 3}
TOGETHER = np.outer(CHANCES, CHANCES) + np.diag(CHANCES * (1 - CHANCES))  # the chance that both views are there
# with cosine c between any two features a filter of view m sees c from each of the M views of any class, and 1 - c more
# from its own: the views of a class still share one bracket, mode by mode
OVERLAP = {0: 0.8 + 3 * 3 * 0.2, 1: 0.8}


@pytest.mark.parametrize(
    ("settings", "mode", "drive", "coupling"),
    [
        ({}, 0, 1 / 3, 1 / 3),  # P3: sigma_m s_m (1 - sum_n s_n^2 / s_max^2), sigma_m = p_m |phi_m| / K, s_max = 1
        (BY_CHANCE, 0, CHANCES * SIZES / 3, TOGETHER * np.outer(SIZES, SIZES) / 3),
        ({"noise": 0.3}, 0, 1 / 3, 1 / 3 + 0.09 * np.eye(3)),  # noise of their own sets views apart
        *(({"overlap": 0.2}, mode, seen / 3, seen**2 / 3) for mode, seen in OVERLAP.items()),
    ],
)
def test_p3_equation_comes_out_of_the_reduction(settings, mode, drive, coupling):
    equation = views.derive(tasks.get("views", **settings).problem("views", hidden=3), mode)
    np.testing.assert_allclose(equation.drive, np.broadcast_to(drive, 3), rtol=1e-12)
    np.testing.assert_allclose(equation.coupling, np.broadcast_to(coupling, (3, 3)), rtol=1e-12)
    assert equation.depth == settings.get("depth", 2)
    if not settings:
        written = "d B1[0]/dt = B1[0] [0.333333 - 0.333333 B1[0]^2 - 0.333333 B2[0]^2 - 0.333333 B3[0]^2]"
        assert equation.text.splitlines()[0] == written


def test_other_networks_are_refused():
    made = tasks.get("views")
    with pytest.raises(AssumptionError, match="at least two pathways of equal depth"):
        views.derive(made.problem("linear", hidden=3))
    with pytest.raises(AssumptionError, match="every pathway must learn mode 7"):
        views.derive(made.problem("views", hidden=3), mode=7)
