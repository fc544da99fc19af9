"""Modules of trained networks and modules predicted before any training."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import reln
from neuralrace.errors import RangeError, WeightError

SMALL = nr.initial.gaussian(0.001)
RATE = 0.05
RECORD = ("gate_patterns", "weights")
EACH = {tuple(row) for row in np.eye(4, dtype=bool)}


def test_modules_of_trained_networks():
    """The same networks twice: as a ReLUNetwork, and as a chain with names of its own, with biases."""
    task = nr.tasks.contextual(3, items=4).task
    relu = nr.ReLUNetwork(task, 24, slope=0.1, biases=True)
    sizes = task.inputs["x"].shape[1], task.targets["y"].shape[1]
    graph = nr.Architecture({"in": sizes[0], "hid": 24, "out": sizes[1]}, [("in", "hid"), ("hid", "out")])
    named = nr.Task({"in": task.inputs["x"]}, {"out": task.targets["y"]})
    chain = nr.Problem(graph, named, activations={"hid": nr.leaky_relu(0.1)}, biases=True)
    runs = [nr.train(one, SMALL, RATE, 900, seeds=2, record=RECORD, every=30) for one in (relu, chain)]
    found, there = (reln.discover(run, 4) for run in runs)
    np.testing.assert_array_equal(there.patterns, found.patterns)
    assert there.agreement == found.agreement
    assert {module.layer for module in there.modules} == {"hid"}
    assert len(repr(found)) < 900  # no gates, no members
    assert found.patterns.all(axis=1).sum() == 1  # one module is always open
    assert all(reln.implementable(pattern, task.inputs["x"], bias=True) for pattern in found.patterns)
    assert {(row.modules, row.stretches) for row in found.tried} == {(4, 1), (4, 2), (4, 4)}
    assert found.problem.architecture.hidden == tuple(found.gates.nodes) == tuple(one.name for one in found.modules)
    assert ("bias", "m0") in found.problem.architecture.edges
    # what all modules write is what the networks answer, but for the bias of the outputs
    weights, members = [runs[0].weights(seed) for seed in range(2)], [module.members for module in found.modules]
    answers = np.mean([relu.forward(w)["y"] - w["bias", "y"][:, 0] for w in weights], axis=0)
    silent = ~np.any(members, axis=0)
    rest = [(relu.activity(w)["h1"] * out) @ w["h1", "y"].T for w, out in zip(weights, silent, strict=True)]
    np.testing.assert_allclose(sum(m.written for m in found.modules) + np.mean(rest, axis=0), answers, atol=1e-12)
    size = np.linalg.norm(weights[0]["h1", "y"][:, members[0][0]] @ weights[0]["x", "h1"][members[0][0]])
    assert found.modules[0].size[-1] > 0.5 * size  # the mean over both networks, with biases


def test_two_hidden_layers_have_modules_each():
    """From gate patterns alone, and from given weights."""
    network = nr.ReLUNetwork(nr.tasks.contextual(2, items=2).task, hidden=(12, 9))
    weights = nr.initial.gaussian(0.1)(network, 0)
    found = reln.discover(nr.train(network, weights, RATE, 200, record="gate_patterns", every=20), 2)
    assert [module.name for module in found.modules] == ["h1_m0", "h1_m1", "h2_m0", "h2_m1"]
    assert [module.written is None for module in found.modules] == [True, True, False, False]
    assert found.problem.architecture.count_paths() == 4
    assert [row.agreement is None for row in found.tried] == [True, False]  # imposed, and then trained again
    assert found.chosen.loss[0] == pytest.approx(network.loss(weights), rel=0.01)  # the same weights, other gates


def test_runs_that_cannot_be_replayed_have_the_modules_of_their_weights():
    """The fewest modules whose gates, in place of the neurons' own, reproduce what every trained network answers."""
    task = nr.Task({"x": np.vstack([np.eye(3), -np.eye(3)])}, {"y": np.eye(3)[[0, 1, 2, 0, 1, 2]]})
    network = nr.ReLUNetwork(task, 12)
    run = nr.train(network, nr.initial.gaussian(0.3), 0.5, 400, seeds=2, loss="cross-entropy", record=RECORD, every=50)
    found = reln.discover(run)
    assert found.agreement is None
    assert [row.explains for row in found.tried] == [False] * (len(found.tried) - 1) + [True]
    assert found.chosen is found.tried[-1]
    fits = []
    for seed in range(2):
        weights = run.weights(seed)
        gates = sum(np.outer(one.gate, one.members[seed]) for one in found.modules)
        gated = (gates * (task.inputs["x"] @ weights["x", "h1"].T)) @ weights["h1", "y"].T
        np.testing.assert_allclose(found.chosen.outputs[seed], gated, atol=1e-12)
        own = network.forward(weights)["y"]
        fits.append(1 - np.sum((own - gated) ** 2) / np.sum((own - own.mean(axis=0)) ** 2))
    assert found.chosen.fit == pytest.approx(min(fits))


def test_xor_has_a_module_for_each_example():
    """P2 Fig 2: the four pathways of the gated network, found in ReLU networks."""
    network, initial = nr.ReLUNetwork(nr.tasks.xor(0.5).task, hidden=(64,)), nr.initial.gaussian(1e-4)
    run = nr.train(network, initial, RATE, 700, seeds=2, record=RECORD, every=10)
    found = reln.discover(run, 4)
    assert {tuple(row) for row in found.patterns} == EACH
    # strengths of so few neurons differ from draw to draw, and the gated network has draws of its own
    gated = nr.predict(found.problem, initial, run.time, method="flow")
    assert nr.agreement(gated, run).normalized_l1 < 0.05
    predicted = reln.predict_modules(network, initial, run.time, 4, draws=1)
    pairs = [pair for pair in reln.match(predicted, found) if pair.first and pair.second]
    assert [pair.alike for pair in pairs] == [1.0] * 4
    assert all(pair.same for pair in pairs)
    assert min(pair.written for pair in pairs) > 0.99
    assert sum(module.share for module in predicted.modules) == pytest.approx(1)
    # each writes the target of its example and nothing else
    for module in predicted.modules:
        np.testing.assert_allclose(module.written[:, 0], module.pattern * network.task.targets["y"][:, 0], atol=0.05)
    first = predicted.forecast.weights(0.0)["x", "h1"]  # no draw is shared with training
    assert not np.isin(np.round(first, 12), np.round(run.initial_weights(0)["x", "h1"], 12)).any()


def test_what_cannot_be_predicted_is_refused():
    network = nr.ReLUNetwork(nr.tasks.xor().task, 4)
    with pytest.raises(WeightError, match="initial must be an initializer"):
        reln.predict_modules(network, SMALL(network, 0), [0.0, 1.0])
    with pytest.raises(RangeError, match="learning_rate=90: give a smaller one"):
        reln.predict_modules(network, nr.initial.gaussian(1.0), 90.0 * np.arange(9), learning_rate=90.0)
