"""The figures of P2: modules and pathways that they share, decisions, patterns of gates, and plateaus of losses."""

import itertools

import jax
import numpy as np
import pytest

import neuralrace as nr
from neuralrace import reln, tasks
from neuralrace.papers.jarvis2025 import _contextual as common
from neuralrace.papers.jarvis2025 import fig6
from neuralrace.papers.jarvis2025.fig2 import xor_share
from neuralrace.papers.jarvis2025.race import by_context, checkerboards, staircases

SHALLOW = common.ContextualSettings(seeds=1, hidden=12, width=5, paper_rate=0.01, std=0.05, steps=200, every=50)


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
    problem, run = SHALLOW.protocol(named, "common + all-but-one", record="path_singular_values")
    values = common.trained_values(problem, run)
    assert set(values) == {"common", "without0", "without1", "without2"}
    nodes = {"x": 11, "common": SHALLOW.width, "y": named.task.targets["y"].shape[1]}
    alone = nr.Problem(nr.Architecture(nodes, [("x", "common"), ("common", "y")]), named.task)
    first = nr.initial.gaussian(SHALLOW.std)(problem, jax.random.fold_in(jax.random.key(0), 0))  # the draw of seed 0
    weights = {edge: first[edge] for edge in alone.architecture.edges}
    single = SHALLOW.train(alone, weights, record="path_singular_values")
    wanted = common.trained_values(alone, single)["common"]
    np.testing.assert_allclose(values["common"], wanted, rtol=1e-9, atol=1e-12)  # the same steps, to rounding


def test_kinds_of_pathways() -> None:
    values = {"common": np.ones((2, 1)), "a": np.zeros((2, 3)), "b": np.full((2, 3), 4.0), "only0": np.ones((2, 3))}
    found = common.by_pathway("x", values, 4)
    assert found["x_common"].tolist() == [[1, 0, 0, 0]] * 2
    assert found["x_contextual"].tolist() == [[2, 2, 2, 0]] * 2


@pytest.mark.parametrize("margin", [0.3, 1.0, 1.4])
def test_share_of_the_two_gatings(margin: float) -> None:
    task = tasks.xor(margin).task
    inputs, targets = task.inputs["x"], task.targets["y"]
    xor = {("x", "h1"): inputs, ("h1", "y"): targets.T / np.sum(inputs**2, axis=1)}
    linear = {("x", "h1"): np.array([[0.0, 0, 1], [0, 0, -1]]), ("h1", "y"): np.array([[1.0, -1]]) / margin}
    # below sqrt(2) no two examples point the same way, so both solve the task, with the shares they are named for
    for weights, share in ((xor, 1.0), (linear, 0.0)):
        assert xor_share(weights, inputs, targets) == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize(("items", "contexts"), [(2, 2), (2, 3), (4, 2)])
def test_staircases_are_the_implementable_patterns(items: int, contexts: int) -> None:
    named = tasks.contextual(contexts, items=items)
    listed = reln.implementable_patterns(named.task.inputs["x"], strict=True)
    found = staircases(items, contexts)
    assert len(found) == len(listed)
    assert {tuple(row) for row in found} == {tuple(row) for row in listed}


def test_what_the_lemma_allows_and_what_its_proof_excludes() -> None:
    """All patterns of two items in two contexts, the first two examples being those of one context."""
    patterns = np.array(list(itertools.product((False, True), repeat=4)))
    words = np.array(["".join(str(int(bit)) for bit in row) for row in patterns])
    assert set(words[checkerboards(patterns, 2)]) == {"1001", "0110"}
    assert set(words[by_context(patterns, 2)]) == {"0000", "1100", "0011", "1111"}


DEEP = fig6.Settings(
    seeds=1, gated_seeds=1, hidden=14, paper_rate=0.01, steps=6, every=1, switched=(1, 3), stds=(0.3, 0.2, 0.3, 0.4)
)


def test_the_published_network_descends_as_its_code_does() -> None:
    """Six steps by gradients written out by hand: none, common alone twice, then both, the first layer by both."""
    named = tasks.contextual(3, "hierarchy")
    inputs, targets, context = named.task.inputs["x"].T, named.task.targets["y"].T, named.groups["context"]
    data = fig6.published(DEEP, named)
    random = np.random.default_rng([2, 0])
    shapes = [(14, 11), (14, 14), (60, 8), (60, 6)]
    first, second, *read = [std * random.standard_normal(shape) for std, shape in zip(DEEP.stds, shapes, strict=True)]
    read_all = np.hstack(read)
    gates = np.vstack([np.ones((8, 24)), *([context != c] * 2 for c in range(3))])
    common = np.arange(14)[:, None] < 8
    losses = []
    for epoch in range(7):
        hidden = first @ inputs
        active = gates * (second @ hidden)
        alone = read_all @ (active * common)
        losses.append(0.5 * np.sum((read_all @ active - targets) ** 2) / 24)
        on = ~common * (epoch >= 3) * 1.0
        errors = np.where(common.T, 1, 0), np.where(common.T, 0, 1)
        back = [
            (read_all * mask).T @ error
            for mask, error in zip(errors, (alone - targets, read_all @ active - targets), strict=True)
        ]
        received = gates * (back[0] * common + back[1] * on)
        to_read = (alone - targets) @ (active * common).T + (read_all @ active - targets) @ (active * on).T
        rate = DEEP.paper_rate * (epoch >= 1)
        first, second, read_all = (
            first - rate * (second.T @ received @ inputs.T),
            second - rate * received @ hidden.T,
            read_all - rate * to_read,
        )
    np.testing.assert_allclose(data["published"].values[0], losses, rtol=1e-12)  # the same steps, to rounding
    assert data["pathways"].shape == (4, 1, 7)


def test_levels_of_plateaus_are_compared_with_the_nearest() -> None:
    found = fig6.level_gaps(np.array([2.75, 2.0]), np.array([2.1]))
    assert {name: round(gap, 1) for name, gap in found.items()} == {"ReLU 2.75": 31.0, "ReLU 2": 4.8, "gated 2.1": 5.0}
    assert fig6.level_gaps(np.array([]), np.array([])) == {}
