"""The law derived by the reduction against the statistics worked out by hand, and P3's error term."""

import numpy as np
import pytest

from neuralrace import initial, tasks, views
from neuralrace.errors import AssumptionError


def test_p3_equation_comes_out_of_the_reduction():
    law = views.derive(tasks.get("views").problem("views", hidden=3))
    assert law.equations.text.splitlines()[0] == (
        "d B1[0]/dt = B1[0] [0.333333 - 0.333333 B1[0]^2 - 0.333333 B2[0]^2 - 0.333333 B3[0]^2]"
    )
    # sigma_m s_m (1 - sum_n s_n^2 / s_max^2) with sigma_m = p_m |phi_m| / K = 1/3 and s_max = 1
    np.testing.assert_allclose(law.drive, 1 / 3, rtol=1e-14)
    assert law.separateness < 1e-14
    race = law.race([0.1, 0.2, 0.3])
    np.testing.assert_allclose(race.rates, 1 / 3, rtol=1e-14)
    np.testing.assert_allclose(race.strengths, [0.1, 0.2, 0.3], rtol=1e-14)
    assert (race.depth, race.saturation) == (2, 1.0)


def test_unequal_views_seen_by_chance_at_depth_three():
    chances, sizes = np.array([0.9, 0.6, 0.8]), np.array([1.0, 0.7, 1.3])
    made = tasks.get("views", presence="chance", probability=tuple(chances), sizes=tuple(sizes), depth=3)
    law = views.derive(made.problem("views", hidden=3))
    together = np.outer(chances, chances)
    np.fill_diagonal(together, chances)
    np.testing.assert_allclose(law.drive, chances * sizes / 3, rtol=1e-12)
    np.testing.assert_allclose(law.coupling, together * np.outer(sizes, sizes) / 3, rtol=1e-12)
    assert law.depth == 3
    assert law.separateness > 0.1
    with pytest.raises(AssumptionError, match=r"always together.*use Law.coupled"):
        law.race(np.full(3, 0.1))
    start = np.array([0.2, 0.3, 0.25])
    state = start**2 * (law.drive - law.coupling @ start**3)
    np.testing.assert_allclose(law.velocity(start), state, rtol=1e-12)
    np.testing.assert_allclose(law.coupled(start).velocity(start), state, rtol=1e-12)


def test_the_race_of_unequal_sizes_is_the_coupled_one():
    law = views.derive(tasks.get("views", sizes=(1.0, 0.7, 1.3), depth=3).problem("views", hidden=3))
    start = np.array([0.1, 0.12, 0.09])
    race, c = law.race(start), law.weights_in_sum
    np.testing.assert_allclose(c, [1.0, 0.7, 1.3], rtol=1e-12)
    late = law.coupled(start).amplitudes([0.0, 500.0])[-1]
    np.testing.assert_allclose(race.final, late * c ** (1 / 3), rtol=1e-7)  # the integrator's own error


def test_other_networks_are_refused():
    made = tasks.get("views")
    with pytest.raises(AssumptionError, match="at least two pathways of equal depth"):
        views.derive(made.problem("linear", hidden=3))
    with pytest.raises(AssumptionError, match="every pathway must learn mode 7"):
        views.derive(made.problem("views", hidden=3), mode=7)
    signs = tasks.get("views", targets="scalar", classes=2).problem("views", hidden=3)
    with pytest.raises(AssumptionError, match="3 of 3 do not: their views tell nothing about it"):
        views.derive(signs, mode=1)  # a scalar target has one mode


def test_noise_of_their_own_sets_views_apart():
    """Noise sigma adds sigma^2 to the diagonal of D: the end is even though the views are always together."""
    law = views.derive(tasks.get("views", noise=0.3).problem("views", hidden=3))
    np.testing.assert_allclose(law.drive, 1 / 3, rtol=1e-12)
    np.testing.assert_allclose(law.coupling, 1 / 3 + 0.09 * np.eye(3), rtol=1e-12)
    np.testing.assert_allclose(law.coupled(np.array([0.01, 0.02, 0.03])).shares, 1 / 3, rtol=1e-9)


def test_overlap_changes_the_rates_and_not_the_race():
    """With cosine c between any two features the views of a class still share one bracket, mode by mode."""
    problem = tasks.get("views", overlap=0.2).problem("views", hidden=3)
    # a filter of view m sees c from each of the M views of any class, and 1 - c more from its own
    own, common = 0.8, 0.8 + 3 * 3 * 0.2
    for mode, filtered in ((0, common), (1, own)):
        law = views.derive(problem, mode)
        assert law.separateness < 1e-12
        np.testing.assert_allclose(law.drive, filtered / 3, rtol=1e-12)
        np.testing.assert_allclose(law.coupling, filtered**2 / 3, rtol=1e-12)


@pytest.fixture(scope="module")
def network():
    problem = tasks.get("views", presence="chance", probability=0.8, depth=3).problem("views", hidden=4)
    return problem, views.derive(problem)


def test_decoupled_weights_leave_nothing_over(network):
    problem, law = network
    strengths = {edge: 0.3 + 0.1 * m for m, path in enumerate(law.pathways) for edge in path.edges}
    left, own = views.error_term(problem, law, initial.decoupled(strengths)(problem, 0))
    assert own.shape == (3, 3)
    assert np.abs(left).max() < 1e-14


def test_what_random_weights_leave_over_is_the_rest_of_the_flow(network):
    problem, law = network
    weights = initial.gaussian(0.5)(problem, 11)
    left, own = views.error_term(problem, law, weights)
    slope, step = problem.gradient(weights), 1e-6

    def amplitudes(sign):
        moved = {edge: matrix - sign * step * slope[edge] for edge, matrix in weights.items()}
        strengths = views.path_strengths(law.pathways, moved)
        return np.where(strengths > 0, strengths, np.nan) ** (1 / 3)

    change = (amplitudes(1) - amplitudes(-1)) / (2 * step)
    seen = np.isfinite(left)
    assert seen.any()
    assert not seen.all()  # some products are negative, and have no amplitude
    # central differences: step^2 times third derivatives, and rounding over the step
    np.testing.assert_allclose((left + own)[seen], change[seen], rtol=1e-5, atol=1e-7)
