"""A ReLU network and its gated network agree: output, loss and gradient."""

import numpy as np
import pytest

import neuralrace as nr
import oracle
from neuralrace import reln
from neuralrace.errors import ProblemError

ROUNDING = {"rtol": 0, "atol": 1e-12}  # sums of a few dozen products of order one, in another order


def test_output_is_the_same_at_every_recorded_step():
    """With biases, against the network written out in NumPy."""
    random = np.random.default_rng(0)
    task = nr.Task({"x": random.normal(size=(9, 3))}, {"y": random.normal(size=(9, 2))})
    network = nr.ReLUNetwork(task, hidden=(6, 5), slope=0.1, biases=True)
    run = nr.train(network, nr.initial.gaussian(0.5), 0.1, 20, record="weights", every=20)
    for record in range(len(run.time)):
        weights = run.weights(0, record)
        gated = reln.equivalent(network, weights)
        outputs = oracle.activities(network, weights)["y"]
        np.testing.assert_allclose(gated.problem.forward(gated.weights)["y"], outputs, **ROUNDING)
        assert gated.problem.loss(gated.weights) == pytest.approx(float(run.loss[0, record]), abs=1e-12)


def test_nodes_are_the_distinct_patterns_and_descend_like_their_neurons():
    network = nr.ReLUNetwork(nr.tasks.xor().task, hidden=(20,))
    start = nr.initial.gaussian(0.5)(network, 3)
    gated, after = reln.equivalent(network, start), nr.train(network, start, 0.25, 1).weights()
    gradient, on = gated.problem.gradient(gated.weights), network.preactivations(start)["h1"] > 0
    assert len(gated.members) == len(np.unique(on, axis=1).T)
    assert sorted(np.concatenate(list(gated.members.values()))) == list(range(20))
    for node, neurons in gated.members.items():
        assert (on[:, neurons] == (gated.problem.gates.nodes[node][:, None] == 1)).all()
        moved = gated.weights["x", node] - 0.25 * gradient["x", node]
        np.testing.assert_allclose(moved, after["x", "h1"][neurons], **ROUNDING)


@pytest.mark.parametrize("named", [False, True])
def test_rectifiers_anywhere_in_a_graph_with_gates(named):
    """A skip, a linear node, two slopes, a gate on a rectified node and one on an edge."""
    random = np.random.default_rng(4)
    pairs = [("x", "a"), ("x", "b"), ("a", "c"), ("b", "c"), ("x", "y"), ("c", "y")]
    edges = {f"e{i}": pair for i, pair in enumerate(pairs)} if named else pairs
    architecture = nr.Architecture({"x": 3, "a": 4, "b": 5, "c": 3, "y": 2}, edges)
    task = nr.Task({"x": random.normal(size=(7, 3))}, {"y": random.normal(size=(7, 2))})
    half = np.array([1.0, 1, 1, 0, 0, 1, 0.5])
    gates = nr.Gates({"a": half}, {("e5" if named else ("c", "y")): half[::-1]})
    network = nr.Problem(architecture, task, gates, activations={"a": "relu", "c": nr.leaky_relu(0.3)})
    weights = nr.initial.gaussian(1.0)(network, 0)
    gated = reln.equivalent(network, weights)
    assert not gated.problem.activations
    output = gated.problem.forward(gated.weights)["y"]
    np.testing.assert_allclose(output, network.forward(weights)["y"], **ROUNDING)


def test_other_networks_are_refused():
    network = nr.ReLUNetwork(nr.tasks.xor().task, 3)
    task = nr.Problem(network.architecture, network.task, activations={"h1": "relu", "y": "relu"})
    with pytest.raises(ProblemError, match="node 'y' has another activation, or is an output"):
        reln.equivalent(task, nr.initial.gaussian(1.0)(task, 0))
