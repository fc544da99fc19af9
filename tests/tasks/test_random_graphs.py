from collections import Counter

import numpy as np
import pytest

from neuralrace.errors import RangeError, UnknownNameError
from neuralrace.tasks import random_problem

SEEDS = range(200)


def gate_values(problem):
    gates = [*problem.gates.nodes.values(), *problem.gates.edges.values()]
    return np.concatenate(gates) if gates else np.zeros(0)


def arrays(problem):
    yield problem.task.weights
    for mapping in (problem.task.inputs, problem.task.targets, problem.gates.nodes, problem.gates.edges):
        yield from mapping.values()


def test_the_same_seed_gives_the_same_problem():
    for seed in range(40):
        first, again = random_problem(seed), random_problem(seed)
        assert first.architecture == again.architecture
        assert list(first.gates.edges) == list(again.gates.edges)
        for one, two in zip(arrays(first), arrays(again), strict=True):
            np.testing.assert_array_equal(one, two)


def test_different_seeds_give_different_problems():
    assert len({random_problem(seed).architecture for seed in SEEDS}) > 0.9 * len(SEEDS)


@pytest.mark.parametrize("gates", ["mixed", "binary", "open"])
def test_every_problem_is_valid_and_has_something_to_learn(gates):
    for seed in SEEDS:
        problem = random_problem(seed, gates=gates)
        architecture = problem.architecture
        assert all(node[0] == "x" for node in architecture.inputs)
        assert all(node[0] == "y" for node in architecture.outputs)
        assert architecture.count_paths() < 2000
        stats = problem.statistics()
        assert any(stats.input_output(path).any() for path in stats.open_paths), seed


def test_problems_are_of_every_kind():
    seen = Counter()
    for seed in SEEDS:
        problem = random_problem(seed)
        architecture, values = problem.architecture, gate_values(problem)
        ends = list(architecture.edges.values())
        levels = architecture.level
        configurations = problem.statistics().configuration_count
        seen["several inputs"] += len(architecture.inputs) > 1
        seen["several outputs"] += len(architecture.outputs) > 1
        seen["no hidden node"] += not architecture.hidden
        seen["deep"] += max(levels.values()) > 2
        seen["skip edge"] += any(levels[target] - levels[source] > 1 for source, target in ends)
        seen["parallel edges"] += len(set(ends)) < len(ends)
        seen["named edges"] += all(isinstance(edge, str) for edge in architecture.edges)
        seen["edges by their ends"] += not any(isinstance(edge, str) for edge in architecture.edges)
        seen["node gates"] += bool(problem.gates.nodes)
        seen["edge gates"] += bool(problem.gates.edges)
        seen["closed gate"] += bool((values == 0).any())
        seen["real gate"] += bool(((values != 0) & (values != 1)).any())
        seen["one configuration"] += configurations == 1
        seen["several configurations"] += configurations > 1
        seen["one example"] += len(problem.task) == 1
        seen["example without weight"] += bool((problem.task.weights == 0).any())
        seen["equal weights"] += np.ptp(problem.task.weights) == 0
        seen["silent input"] += any((rows == 0).all(axis=1).any() for rows in problem.task.inputs.values())
        seen["repeated input"] += any(len(np.unique(rows, axis=0)) < len(rows) for rows in problem.task.inputs.values())
    assert min(seen.values()) >= 3, seen


def test_options_are_kept():
    for seed in range(30):
        problem = random_problem(
            seed, inputs=2, hidden=4, outputs=3, sizes=(2, 3), examples=11, configurations=4, parallel=True
        )
        architecture = problem.architecture
        assert [len(nodes) for nodes in (architecture.inputs, architecture.hidden, architecture.outputs)] == [
            2,
            4,
            3,
        ]
        assert set(architecture.nodes.values()) <= {2, 3}
        assert len(problem.task) == 11
        ends = list(architecture.edges.values())
        assert len(set(ends)) < len(ends)
        binary = random_problem(seed, gates="binary", parallel=False)
        assert set(gate_values(binary)) <= {0.0, 1.0}
        ends = list(binary.architecture.edges.values())
        assert len(set(ends)) == len(ends)
        assert not len(gate_values(random_problem(seed, gates="open")))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"seed": -1}, RangeError, "seed must be a whole number, at least 0; it was -1"),
        ({"inputs": 0}, RangeError, "inputs must be a whole number, at least 1; it was 0"),
        ({"hidden": -1}, RangeError, "hidden must be a whole number, at least 0; it was -1"),
        ({"examples": 0}, RangeError, "examples must be a whole number, at least 1; it was 0"),
        ({"sizes": (3, 2)}, RangeError, r"sizes must be \(least, most\).*\(3, 2\)"),
        ({"gates": "binry"}, UnknownNameError, r"no kind of gates 'binry'; did you mean 'binary'\?"),
    ],
)
def test_bad_options(options, error, words):
    with pytest.raises(error, match=words):
        random_problem(**{"seed": 0, **options})
