"""XOR, contextual classification, the hierarchy and its semantic example, against the papers' numbers."""

import numpy as np
import pytest

from neuralrace import tasks
from neuralrace.errors import RangeError

EXACT = {"rtol": 0, "atol": 1e-15}  # sums of a few numbers of order one


def paths_of(problem):
    return {path.edges[0][1]: path for path in problem.architecture.paths()}


def test_xor_points_are_those_of_p2():
    task = tasks.xor(delta=0.5).task
    expected = [[-1, 1, -1, 1], [-1, -1, 1, 1], [-0.5, 0.5, 0.5, -0.5]]
    np.testing.assert_array_equal(task.inputs["x"].T, expected)
    np.testing.assert_array_equal(task.targets["y"].T, [[-1, 1, 1, -1]])
    assert tasks.xor().task.inputs["x"].shape == (4, 2)


def test_xor_pathway_moments_are_those_of_p1():
    problem = tasks.xor().problem("xor")
    stats, paths = problem.statistics(), paths_of(problem)
    # P1 eqs 18-20 for x = (1, 1), with the sign of P2
    np.testing.assert_allclose(stats.input_output(paths["h3"]), [[-0.25, -0.25]], **EXACT)
    np.testing.assert_allclose(stats.input(paths["h3"], paths["h3"]), np.full((2, 2), 0.25), **EXACT)
    np.testing.assert_array_equal(stats.input(paths["h3"], paths["h0"]), np.zeros((2, 2)))
    assert stats.target_energy == 1.0


@pytest.mark.parametrize("delta", [0.3, 1.0, 2.5])
def test_xor_linear_gating_moments_are_those_of_p2(delta):
    problem = tasks.xor(delta).problem("linear")
    stats, paths = problem.statistics(), paths_of(problem)
    for side, sign in (("positive", 1), ("negative", -1)):
        np.testing.assert_allclose(stats.input_output(paths[side]), [[0, 0, delta / 2]], **EXACT)  # eq. 14
        expected = 0.5 * np.array([[1, -sign, 0], [-sign, 1, 0], [0, 0, delta**2]])  # eq. 16, sides mirrored
        np.testing.assert_allclose(stats.input(paths[side], paths[side]), expected, **EXACT)
    assert not stats.input(paths["positive"], paths["negative"]).any()


@pytest.mark.parametrize("delta", [0.0, 0.3, 1.0, 2.5])
def test_xor_single_example_strength_and_variance(delta):
    problem = tasks.xor(delta).problem("xor")
    stats = problem.statistics()
    for path in paths_of(problem).values():
        _, (strength,), (direction,) = np.linalg.svd(stats.input_output(path), full_matrices=False)
        assert strength == pytest.approx(np.sqrt(1 / 8 + delta**2 / 16), rel=1e-14)
        # an erratum of P2 appendix C: d is (2 + delta^2)/4
        variance = direction @ stats.input(path, path) @ direction
        assert variance == pytest.approx((2 + delta**2) / 4, rel=1e-14)


def test_xor_gatings_are_equally_strong_at_the_crossing():
    named = tasks.xor(delta=np.sqrt(2 / 3))
    strengths = []
    for gating in ("xor", "linear"):
        problem = named.problem(gating)
        strengths += [np.linalg.norm(problem.statistics().input_output(p)) for p in problem.architecture.paths()]
    assert len(strengths) == 6
    np.testing.assert_allclose(strengths, 1 / np.sqrt(6), rtol=1e-14)


@pytest.mark.parametrize("delta", [-0.1, np.nan, np.inf, "wide"])
def test_xor_margin_out_of_range(delta):
    with pytest.raises(RangeError, match=r"delta must be a finite number, at least 0; it was"):
        tasks.xor(delta)
    with pytest.raises(RangeError, match="levels must be at most 12; it was 13"):
        tasks.hierarchy(13)


def test_contextual_classification_has_the_moments_of_the_population():
    named = tasks.contextual_classification()
    linear, gated = named.problem("linear"), named.problem("context")
    (path,) = linear.architecture.paths()
    stats = linear.statistics()
    np.testing.assert_allclose(stats.input_output(path), [[1 / 6, 1 / 6]], **EXACT)  # eq. 24
    np.testing.assert_allclose(stats.input(path, path), np.eye(2) / 3, **EXACT)  # eq. 25
    stats, paths = gated.statistics(), paths_of(gated)
    first, second = paths["context0"], paths["context1"]
    np.testing.assert_allclose(stats.input_output(first), [[1 / 6, 0]], **EXACT)  # eq. 26
    np.testing.assert_allclose(stats.input_output(second), [[0, 1 / 6]], **EXACT)  # eq. 27
    np.testing.assert_allclose(stats.input(first, first), np.eye(2) / 6, **EXACT)  # eq. 28
    np.testing.assert_allclose(stats.input(second, second), np.eye(2) / 6, **EXACT)
    np.testing.assert_array_equal(stats.input(first, second), np.zeros((2, 2)))  # eq. 29
    assert stats.target_energy == pytest.approx(1 / 3, rel=1e-15)
    np.testing.assert_allclose(named.task.weights @ named.task.inputs["x"], 0, **EXACT)


def test_hierarchy_of_four_levels():
    task = tasks.hierarchy(levels=4).task
    rows = ["11111111", "11110000", "00001111", "11000000", "00110000", "00001100", "00000011"]
    rows += ["0" * item + "1" + "0" * (7 - item) for item in range(8)]
    np.testing.assert_array_equal(task.targets["y"].T, [[int(c) for c in row] for row in rows])
    np.testing.assert_array_equal(task.inputs["x"], np.eye(8))


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_hierarchy_modes_are_those_of_the_tree(levels):
    block = tasks.hierarchy(levels).task.targets["y"].T
    assert block.shape == (2**levels - 1, 2 ** (levels - 1))
    # a split at depth k sees the levels below it, each 2^(height) strong: squares 2^j - 1
    expected = [np.sqrt(2**levels - 1)]
    for depth in range(levels - 1):
        expected += [np.sqrt(2 ** (levels - 1 - depth) - 1)] * 2**depth
    np.testing.assert_allclose(np.linalg.svd(block, compute_uv=False), expected, rtol=1e-13)


def test_noisy_xor_is_xor_without_noise():
    clean, exact = tasks.noisy_xor(points=1, noise=0.0, bias=False).task, tasks.xor().task
    np.testing.assert_array_equal(clean.inputs["x"], exact.inputs["x"])
    np.testing.assert_array_equal(clean.targets["y"], exact.targets["y"])
    assert tasks.noisy_xor().task.inputs["x"].shape == (200, 3)


def test_semantic_items_have_their_properties():
    named = tasks.semantic()
    has = {
        item: {named.task.names["y"][i] for i in np.flatnonzero(row)}
        for item, row in zip(named.groups["item"], named.task.targets["y"], strict=True)
    }
    assert has == {
        "canary": {"grow", "move", "fly"},
        "salmon": {"grow", "move", "swim"},
        "rose": {"grow", "roots", "petals"},
        "oak": {"grow", "roots", "leaves"},
    }
