"""Learning curves, activities and kernels against direct computation."""

from types import SimpleNamespace
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy.stats import bootstrap

import neuralrace as nr
from neuralrace.analysis import (
    Line,
    agreement,
    aligned_mds,
    alignment,
    cosine_similarity,
    groups_active,
    interval,
    plateaus,
    proportion,
    share_by_groups,
    similarity,
    tangent_kernel,
    time_to,
    typical,
)
from neuralrace.errors import RangeError
from oracle import activities
from random_problems import random_problem

TIME = np.array([0.0, 1.0, 1.5, 4.0, 9.0])
CURVES = arrays.arrays(float, (3, 5), elements=st.integers(-4, 4).map(float))
EPOCH = np.arange(0, 10001, 100.0)
RULE = {"slope": 5e-5, "lasts": 1000.0}
ROUNDING = 1e-10
LABELS = np.array([0, 0, 1, 1, 2, 2])
PATTERNS = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 0, 0], [0, 0, 1, 1, 1, 1], [0] * 6], dtype=bool)


def test_agreement_by_hand() -> None:
    time = np.array([0.0, 1.0, 3.0])
    run = Line(time, np.array([[2.0, 1.0, 1.0], [4.0, 1.0, 1.0]]))  # mean 3, 1, 1: area 2 + 2
    found = agreement(Line(time, np.array([3.0, 2.0, 0.1])), run)
    # gaps 0, 1, .9: area .5 + 1.9; exact arithmetic, so only rounding is allowed
    assert found.normalized_l1 == pytest.approx(2.4 / 4, rel=1e-12)
    assert found.log10_gap == pytest.approx((np.log10(2) + 1) / 3, rel=1e-12)
    assert found.max_gap == pytest.approx(1 / 3, rel=1e-12)


def test_equal_curves_agree() -> None:
    line = Line(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    assert agreement(line, line) == nr.analysis.Agreement(0.0, 0.0, 0.0)
    nothing = Line(line.time, np.zeros(2))
    assert agreement(nothing, nothing) == nr.analysis.Agreement(0.0, 0.0, 0.0)
    assert agreement(nothing, line).log10_gap == np.inf  # the logarithm of zero


def test_what_diverged_is_infinitely_far_and_other_times_are_refused() -> None:
    time = np.array([0.0, 1.0])
    wild = Line(time, np.array([[1.0, 0.5], [1.0, np.nan]]))
    far = nr.analysis.Agreement(np.inf, np.inf, np.inf)
    assert agreement(Line(time, np.array([1.0, 0.5])), wild) == agreement(wild, Line(time, np.ones(2))) == far
    with pytest.raises(RangeError, match="share their times"):
        agreement(wild, Line(np.arange(4.0), np.ones(4)))


def curve(**settings: Any) -> Any:
    problem = SimpleNamespace(activations={"h": nr.leaky_relu(0.0)})
    return SimpleNamespace(time=np.arange(2.0), loss=np.ones(2), settings=settings, problem=problem)


def test_curves_of_two_losses_are_refused_and_an_ignored_learning_rate_is_warned_about() -> None:
    with pytest.raises(RangeError, match="forecast is of the squared and the run of the cross-entropy loss"):
        agreement(curve(), curve(loss="cross-entropy"))
    with pytest.warns(UserWarning, match=r"predict with learning_rate=0\.05"):
        agreement(curve(learning_rate=None), curve(learning_rate=0.05))
    assert agreement(curve(learning_rate=0.05), curve(learning_rate=0.05)).max_gap == 0


def test_similarity() -> None:
    activity = np.array([[3.0, 4.0], [0.0, 0.0], [-3.0, -4.0]])
    assert np.array_equal(similarity(activity), activity @ activity.T)
    assert np.allclose(cosine_similarity(activity), [[1, 0, -1], [0, 0, 0], [-1, 0, 1]], atol=1e-15)


@pytest.mark.parametrize("seed", [0, 1])
def test_tangent_kernel_equals_that_of_the_jacobian(seed: int) -> None:
    problem = random_problem(seed, examples=6)
    weights = nr.initial.gaussian(0.7)(problem, seed)

    def outputs(given: Any) -> np.ndarray:
        activity = activities(problem, given)
        return np.hstack([activity[node] for node in problem.architecture.outputs])

    kernel = np.zeros((6, 6))
    for edge, matrix in weights.items():
        for unit in np.eye(matrix.size):  # a path has an edge once, so a difference is the derivative
            slope = outputs({**weights, edge: matrix + unit.reshape(matrix.shape)}) - outputs(weights)
            kernel += slope @ slope.T
    assert np.allclose(tangent_kernel(problem, weights), kernel, rtol=1e-10, atol=1e-12)  # of a few dozen products


def first_crossing(curve: np.ndarray, level: float) -> float:
    """Segment by segment, in words: the first place at or below the level."""
    if curve[0] <= level:
        return TIME[0]
    for i in range(1, len(curve)):
        if curve[i] <= level:
            line = np.polynomial.Polynomial.fit(TIME[i - 1 : i + 1], curve[i - 1 : i + 1], 1)
            return float((line - level).roots()[0])
    return np.inf


@given(CURVES, st.floats(-5, 5))
def test_time_to_is_the_first_crossing_of_each_curve(curves: np.ndarray, level: float) -> None:
    wanted = [first_crossing(curve, level) for curve in curves]
    np.testing.assert_allclose(time_to(TIME, curves, level), wanted, rtol=1e-9, atol=1e-9)  # a line fitted, not ours


def test_levels_that_are_met_at_once_exactly_or_never() -> None:
    falling = np.array([4.0, 3.0, 2.0, 1.0, 1.0])
    assert float(time_to(TIME, falling, 5.0)) == 0.0
    assert float(time_to(TIME, falling, 3.0)) == 1.0
    assert float(time_to(TIME, falling, 0.5)) == np.inf
    assert float(time_to(TIME, -falling, -1.5)) == 0.0  # rising: the sign of both is changed
    assert float(time_to(TIME, [np.nan, np.nan, 2.0, 1.0, 0.0], 1.5)) == 2.75


def steps(levels: tuple[float, ...], drops: tuple[float, ...]) -> np.ndarray:
    """A loss that falls from level to level within some hundred epochs."""
    loss = np.full(len(EPOCH), levels[0])
    for before, after, drop in zip(levels[:-1], levels[1:], drops, strict=True):
        loss += (after - before) / (1 + np.exp(-(EPOCH - drop) / 50))
    return loss


def test_plateaus_are_found_and_the_first_is_left_out() -> None:
    found = plateaus(EPOCH, steps((4.0, 2.0, 0.5), (2500, 6000)), **RULE)
    assert [round(plateau.loss, 3) for plateau in found] == [2.0, 0.5]
    assert 2500 < found[0].time < 6000 < found[1].time
    assert EPOCH[found[0].place] == found[0].time
    assert plateaus(EPOCH, 4 * np.exp(-EPOCH / 5000), **RULE) == []


@given(arrays.arrays(float, (4, 3), elements=st.integers(-9, 9).map(float)))
def test_the_typical_run_is_nearest_to_the_mean(losses: np.ndarray) -> None:
    distances = [sum((loss - mean) ** 2 for loss, mean in zip(run, losses.mean(0), strict=True)) for run in losses]
    assert distances[typical(losses)] == pytest.approx(min(distances))


def test_interval_is_that_of_the_bootstrap():
    values = np.random.default_rng(0).normal(2.0, 1.0, 200)
    found = interval(values)
    other = bootstrap((values,), np.mean, rng=np.random.default_rng(1), method="percentile").confidence_interval
    # two ways to one interval of width 0.28; the bootstrap's own noise is a few per cent of it
    assert found.low == pytest.approx(other.low, abs=0.03)
    assert found.high == pytest.approx(other.high, abs=0.03)
    assert interval([1.5]) == (1.5, 1.5, 1.5)
    assert str(interval([1.5])) == "1.5 [1.5, 1.5]"
    with pytest.raises(RangeError, match="at least one value"):
        interval([])
    with pytest.raises(RangeError, match="at least one outcome"):
        proportion([])


@pytest.mark.parametrize("hits", [0, 1, 4, 7])
def test_proportion_is_between_the_roots_of_wilson(hits):
    found, z = proportion(np.arange(7) < hits), 1.959963984540054
    assert found.mean == hits / 7
    for end in (found.low, found.high):  # where the mean is z standard deviations away
        assert (end - hits / 7) ** 2 == pytest.approx(z**2 * end * (1 - end) / 7, rel=1e-9, abs=1e-12)


def distances(points):
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def test_scaling_keeps_every_distance_and_forgets_rotations():
    random = np.random.default_rng(0)
    activity = random.normal(size=(6, 9))
    found = aligned_mds(activity[None], dimensions=5)[0]
    np.testing.assert_allclose(distances(found), distances(activity), atol=ROUNDING)
    turned = activity @ np.linalg.qr(random.normal(size=(9, 9)))[0] + 3
    np.testing.assert_allclose(aligned_mds(turned[None], dimensions=5)[0], found, atol=ROUNDING)


def test_moments_are_turned_onto_the_next():
    random = np.random.default_rng(2)
    flat = random.normal(size=(8, 2)) * [3, 1]
    quarter = np.array([[0.0, -1], [1, 0]])
    found = aligned_mds(np.array([flat @ quarter, -flat, flat]))
    for moment in found:
        np.testing.assert_allclose(moment, aligned_mds(flat[None])[0], atol=ROUNDING)


def test_counts():
    assert groups_active(PATTERNS, LABELS).tolist() == [3, 1, 2, 0]
    assert groups_active(PATTERNS, LABELS, more_than=0).tolist() == [3, 2, 2, 0]
    assert share_by_groups(PATTERNS, LABELS).tolist() == [0.25] * 4
    assert share_by_groups(PATTERNS, LABELS, np.array([1, 0, 3, 0])).tolist() == [0, 0, 0.75, 0.25]
    with pytest.raises(RangeError, match="one entry per example, 6"):
        groups_active(PATTERNS, LABELS[1:])


def test_of_modes_that_differ() -> None:
    generator = np.random.default_rng(0)
    wanted, outputs = generator.normal(size=(4, 3)), generator.normal(size=(2, 5, 4, 3))
    left, _, right = np.linalg.svd(wanted, full_matrices=False)
    along = sum(np.einsum("i,...ij,j->...", left[:, m], outputs, right[m]) ** 2 for m in range(3))
    np.testing.assert_allclose(alignment(outputs, wanted), along / np.sum(outputs**2, axis=(-2, -1)), rtol=1e-12)


def test_what_is_wanted_is_aligned_with_itself_whatever_the_strengths_and_turns_of_equal_modes() -> None:
    generator = np.random.default_rng(1)
    left, right = (np.linalg.qr(generator.normal(size=(5, 3)))[0] for _ in range(2))
    wanted = left @ np.diag([3.0, 2.0, 1.0]) @ right.T
    assert alignment(left @ np.diag([1.0, -7.0, 0.5]) @ right.T, wanted) == pytest.approx(1.0)
    assert alignment(left[:, [1, 2, 0]] @ right.T, wanted) == pytest.approx(0.0, abs=1e-25)  # modes that are mixed up
    assert alignment(np.zeros((2, 5, 5)), wanted).tolist() == [0.0, 0.0]
    outputs = np.zeros((3, 3))
    outputs[:2, :2] = np.linalg.qr(generator.normal(size=(2, 2)))[0]
    assert alignment(outputs, np.diag([2.0, 2.0, 1.0])) == pytest.approx(1.0)
    assert alignment(outputs, np.diag([2.0, 1.0, 1.0])) < 0.99
