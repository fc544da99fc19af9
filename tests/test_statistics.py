from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings

import neuralrace as nr
import oracle
from neuralrace.errors import PathLimitError, UnknownNameError
from neuralrace.statistics import PathStatistics

ROUNDING = 1e-12  # averages over a few dozen examples, in another order


def average(problem, gate, left, right):
    """<g a b^T> example by example."""
    return sum(
        weight * g * np.outer(a, b) for weight, g, a, b in zip(problem.task.weights, gate, left, right, strict=True)
    )


@given(oracle.seeds)
@settings(max_examples=40)
def test_every_statistic_is_an_average_over_examples(seed):
    problem = nr.tasks.random_problem(seed)
    statistics = problem.statistics()
    paths = problem.architecture.paths()[:12]
    gates = {path: oracle.path_gate(problem, path) for path in paths}
    inputs, targets = problem.task.inputs, problem.task.targets
    scale = max(1.0, *(np.abs(g).max() for g in gates.values())) ** 2
    for path in paths:
        wanted = average(problem, gates[path], targets[path.target], inputs[path.source])
        np.testing.assert_allclose(statistics.input_output(path), wanted, rtol=0, atol=ROUNDING * scale)
        for other in paths:
            wanted = average(problem, gates[other] * gates[path], inputs[other.source], inputs[path.source])
            np.testing.assert_allclose(statistics.input(other, path), wanted, rtol=0, atol=ROUNDING * scale)


@given(oracle.seeds)
@settings(max_examples=40)
def test_partners_are_the_paths_that_share_an_example(seed):
    problem = nr.tasks.random_problem(seed, gates="binary")
    statistics = problem.statistics()
    paths = problem.architecture.paths()

    def carries(path):
        return (oracle.path_gate(problem, path) != 0) & problem.task.inputs[path.source].any(axis=1)

    reached = {path: carries(path) for path in paths}
    assert set(statistics.open_paths) == {path for path in paths if reached[path].any()}
    for path in paths[:8]:
        shared = {p for p in paths if p.target == path.target and (reached[p] & reached[path]).any()}
        assert set(statistics.partners(path)) == shared


@given(oracle.seeds)
@settings(max_examples=40)
def test_configurations_hold_all_target_energy(seed):
    problem = nr.tasks.random_problem(seed)
    statistics = problem.statistics()
    assert 1 <= statistics.configuration_count <= len(problem.task)
    silent = {edge: np.zeros(problem.architecture.shape(edge)) for edge in problem.architecture.edges}
    assert statistics.target_energy == pytest.approx(2 * oracle.loss(problem, silent), rel=ROUNDING)


def test_pairs_that_never_meet_are_zero_and_not_partners():
    problem = nr.tasks.xor(0.3).problem("xor", hidden=2)
    statistics = problem.statistics()
    first, second, *_ = problem.architecture.paths()
    assert not statistics.input(first, second).any()
    assert statistics.partners(first) == (first,)
    assert statistics.configuration_count == 4


def test_large_routing_stores_no_pairs():
    """2,500 paths have six million pairs; each path has one partner, itself."""
    problem = nr.tasks.routing(50, 1).problem("shared", hidden=2)
    statistics = problem.statistics()
    assert problem.architecture.count_paths() == 2500
    assert len(statistics.open_paths) == 50
    path = next(iter(statistics.open_paths))
    assert statistics.partners(path) == (path,)
    closed = next(p for p in problem.architecture.paths() if p not in statistics.open_paths)
    assert statistics.partners(closed) == ()
    assert not statistics.input_output(closed).any()
    assert not statistics.input(closed, path).any()


def test_too_many_open_paths_and_paths_of_another_network():
    problem = nr.tasks.xor().problem("linear", hidden=2)
    limited = PathStatistics.of_examples(problem.architecture, problem.task, problem.gates, limit=1)
    with pytest.raises(PathLimitError, match=r"at most 1 open paths .*\(2 paths in all\): raise the limit"):
        _ = limited.open_paths
    stranger = nr.Path((("x", "elsewhere"),), "x", "y")
    with pytest.raises(UnknownNameError, match="a path of this architecture is required; x->elsewhere is not one"):
        problem.statistics().input_output(stranger)


def arrays_within(value, seen):
    """Every array that can be reached from a value by attributes, keys and items."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        yield value
        return
    inner = list(vars(value).values()) if hasattr(value, "__dict__") else []
    if isinstance(value, Mapping):
        inner += [*value.keys(), *value.values()]
    elif isinstance(value, (tuple, list)):
        inner += value
    for part in inner:
        yield from arrays_within(part, seen)


def test_statistics_hold_moments_and_no_example():
    """23 examples in three configurations: nothing that is reachable has an axis of 23, however it was used before."""
    random = np.random.default_rng(0)
    architecture = nr.Architecture({"x": 3, "h": 2, "g": 2, "y": 4}, [("x", "h"), ("x", "g"), ("h", "y"), ("g", "y")])
    task = nr.Task({"x": random.normal(size=(23, 3))}, {"y": random.normal(size=(23, 4))})
    gates = nr.Gates(nodes={"h": np.arange(23) % 3 != 0, "g": np.arange(23) % 3 != 1})
    statistics = nr.Problem(architecture, task, gates).statistics()
    weights = {edge: random.normal(size=architecture.shape(edge)) for edge in architecture.edges}
    statistics.gradient(weights), statistics.open_paths, [statistics.partners(p) for p in architecture.paths()]
    found = list(arrays_within(statistics, {}))
    assert any(array.shape == (3, 3) for array in found)  # the search reaches the moments
    assert not any(23 in array.shape for array in found)
    assert not hasattr(statistics, "task")


def test_what_is_derived_is_derived_once():
    statistics = nr.tasks.xor().problem("xor", hidden=2).statistics()
    calls = []

    def count(given):
        calls.append(given)
        return given.configuration_count

    assert [statistics.once(count), statistics.once(count)] == [4, 4]
    assert calls == [statistics]
    assert statistics.statistics() is statistics
