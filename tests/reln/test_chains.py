"""A chain of rectified layers by other names is read as the ReLU network that it is."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import reln
from neuralrace.errors import ProblemError

TASK = nr.tasks.contextual(contexts=2, items=2).task
WIDTH, RATE = 6, 0.1
NAMES = {"x": "in", "h1": "hid", "y": "out"}
SIZES = {("x", "h1"): 0.2, ("h1", "y"): 0.1, ("bias", "h1"): 0.1, ("bias", "y"): 0.05}


def renamed(edge):
    return tuple(NAMES.get(node, node) for node in edge)


@pytest.fixture(scope="module")
def both():
    """The same network twice, and a law with a size of its own for every edge."""
    relu = nr.ReLUNetwork(TASK, WIDTH, slope=0.1, biases=True)
    nodes = {NAMES[node]: size for node, size in relu.architecture.nodes.items() if node in NAMES}
    task = nr.Task({"in": TASK.inputs["x"]}, {"out": TASK.targets["y"]})
    chain = nr.Architecture(nodes, [("in", "hid"), ("hid", "out")])
    problem = nr.Problem(chain, task, activations={"hid": nr.leaky_relu(0.1)}, biases=True)
    laws = nr.initial.gaussian(SIZES), nr.initial.gaussian({renamed(edge): size for edge, size in SIZES.items()})
    return (relu, laws[0]), (problem, laws[1])


@pytest.fixture(scope="module")
def runs(both):
    wanted = {"seeds": 2, "record": ("gate_patterns", "weights"), "every": 10}
    return [nr.train(network, law, RATE, 100, **wanted) for network, law in both]


def test_modules_found_and_foreseen_are_the_same(both, runs):
    here, there = (reln.discover(run, 2) for run in runs)
    np.testing.assert_array_equal(there.patterns, here.patterns)
    assert there.agreement == here.agreement
    for one, two in zip(reln.course(runs[0], here), reln.course(runs[1], there), strict=True):
        np.testing.assert_array_equal(two.strength, one.strength)
    first, second = (reln.foresee(network, law, [0.0, 5.0, 10.0], 2, draws=1) for network, law in both)
    np.testing.assert_array_equal(second.patterns, first.patterns)
    np.testing.assert_array_equal(second.forecast.loss, first.forecast.loss)


def test_a_law_by_the_names_of_the_run_serves(both, runs):
    here, there = (
        reln.discover(run, 2, bare=True, draws=1, initial=law) for run, (_, law) in zip(runs, both, strict=True)
    )
    assert there.agreement == here.agreement


def test_stretches_and_explanations_are_the_same(runs):
    here, there = (reln.staged_reconstruction(run, reln.discover(run, 2), progress=False) for run in runs)
    np.testing.assert_array_equal(there.loss, here.loss)
    one, two = (nr.explain(run, modules=2, quick=True, progress=False) for run in runs)
    assert (two.verdict, two.agreements) == (one.verdict, one.agreements)


def test_rebuilt_networks_are_the_same(runs):
    here, there = (reln.trade_off(run, (2,), (2,), progress=False)[0] for run in runs)
    np.testing.assert_array_equal(there.loss, here.loss)


@pytest.mark.parametrize(
    ("edges", "options", "why"),
    [
        ([("h", "y"), ("x", "h")], {"activations": {"h": "relu"}}, "as they are listed, are no chain"),
        ([("x", "h"), ("h", "y"), ("x", "y")], {"activations": {"h": "relu"}}, "are no chain"),
        ([("x", "h"), ("h", "y")], {}, "not every hidden node"),
        ([("x", "h"), ("h", "y")], {"activations": {"h": "relu", "y": "relu"}}, "and no other, is rectified"),
        ([("x", "h"), ("h", "y")], {"activations": {"h": "relu"}, "gates": nr.Gates({"h": np.ones(4)})}, "has gates"),
    ],
)
def test_other_networks_are_told_what_they_are_not(edges, options, why):
    nodes = {"x": TASK.inputs["x"].shape[1], "h": 3, "y": TASK.targets["y"].shape[1]}
    problem = nr.Problem(nr.Architecture(nodes, edges), TASK, **options)
    with pytest.raises(ProblemError, match=rf"a chain of rectified layers is required; .*{why}.*: make one with"):
        reln.foresee(problem, nr.initial.gaussian(0.1), [0.0, 1.0])
