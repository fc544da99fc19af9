"""What P2's figures share: the modules of the text, what no linear map learns, and the two roads to its pathways."""

import jax
import numpy as np
import pytest

import neuralrace as nr
from neuralrace import tasks
from neuralrace.papers.jarvis2025 import _contextual as common

SMALL = common.ContextualSettings(seeds=1, hidden=12, width=5, paper_rate=0.01, std=0.05, steps=200, every=50)


@pytest.mark.parametrize("contexts", [2, 3, 5])
def test_modules_of_the_text(contexts: int) -> None:
    context = np.repeat(np.arange(contexts), 4)
    patterns = common.text_patterns(context)
    assert len(patterns) == contexts + 1
    assert sorted(sum(row) for row in patterns) == [4 * (contexts - 1)] * contexts + [4 * contexts]
    assert common.as_set(0.4 + 0.2 * np.array(sorted(patterns))) == patterns


def test_what_is_left_is_what_no_linear_map_learns() -> None:
    task = tasks.contextual(3, "mixed").task
    left = common.left_over(task)
    assert np.abs(task.inputs["x"].T @ left).max() < 1e-12  # normal equations, to rounding
    assert 0 < np.sum(left**2) < np.sum(task.targets["y"] ** 2)


def test_the_protocol_trains_the_common_pathway_alone() -> None:
    named = tasks.contextual(3, "mixed")
    problem, run = SMALL.protocol(named, "common + all-but-one", record="path_singular_values")
    values = common.trained_values(problem, run)
    assert set(values) == {"common", "without0", "without1", "without2"}
    nodes = {"x": 11, "common": SMALL.width, "y": named.task.targets["y"].shape[1]}
    alone = nr.Problem(nr.Architecture(nodes, [("x", "common"), ("common", "y")]), named.task)
    first = nr.initial.gaussian(SMALL.std)(problem, jax.random.fold_in(jax.random.key(0), 0))  # the draw of seed 0
    weights = {edge: first[edge] for edge in alone.architecture.edges}
    single = SMALL.train(alone, weights, record="path_singular_values")
    wanted = common.trained_values(alone, single)["common"]
    np.testing.assert_allclose(values["common"], wanted, rtol=1e-9, atol=1e-12)  # the same steps, to rounding


def test_scales_of_pathways() -> None:
    named = tasks.contextual(3, "mixed")
    (problem, one), (_, two) = (SMALL.protocol(named, common.EVERY_MODULE, by, record="weights") for by in (1, 2))
    assert len(problem.architecture.edges) == 14  # seven pathways of two layers
    for start, end in problem.architecture.edges:
        first = [run.values(f"weights[{start}->{end}]")[0, 0] for run in (one, two)]
        np.testing.assert_array_equal(first[1], (1 if "common" in (start, end) else 2) * first[0])


def test_kinds_of_pathways() -> None:
    values = {"common": np.ones((2, 1)), "a": np.zeros((2, 3)), "b": np.full((2, 3), 4.0), "only0": np.ones((2, 3))}
    found = common.by_pathway("x", values, 4)
    assert found["x_common"].tolist() == [[1, 0, 0, 0]] * 2
    assert found["x_contextual"].tolist() == [[2, 2, 2, 0]] * 2
