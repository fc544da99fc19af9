"""A ReLU network and its gated network agree: output and gradient, at every recorded step, from every source."""

import sys
import types

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import reln
from neuralrace.errors import ProblemError, RangeError, WeightError

ROUNDING = 1e-12  # sums of a few dozen products of order one, in another order


def test_output_is_the_same_at_every_recorded_step():
    named = nr.tasks.contextual(contexts=2, items=4)
    network = nr.ReLUNetwork(named.task, hidden=(6, 5), slope=0.1)
    run = nr.train(network, nr.initial.gaussian(0.2), 0.1, 120, record="weights", every=60)
    for record in range(len(run.time)):
        weights = run.weights(0, record)
        gated = reln.equivalent(network, weights)
        ours, theirs = gated.problem.forward(gated.weights)["y"], network.forward(weights)["y"]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=ROUNDING)
        assert gated.problem.loss(gated.weights) == pytest.approx(float(run.loss[0, record]), abs=ROUNDING)


def test_one_step_of_descent_is_the_same():
    network = nr.ReLUNetwork(nr.tasks.xor().task, hidden=(7,))
    start = nr.initial.gaussian(0.5)(network, 3)
    gated = reln.equivalent(network, start)
    gradient = gated.problem.gradient(gated.weights)
    after = nr.train(network, start, 0.25, 1).weights()
    for node, neurons in gated.members.items():
        moved = gated.weights["x", node] - 0.25 * gradient["x", node]
        np.testing.assert_allclose(moved, after["x", "h1"][neurons], rtol=0, atol=ROUNDING)


def test_nodes_are_the_distinct_patterns():
    network = nr.ReLUNetwork(nr.tasks.xor().task, hidden=(40,))
    weights = nr.initial.gaussian(1.0)(network, 0)
    gated = reln.equivalent(network, weights)
    on = network.preactivations(weights)["h1"] > 0
    assert len(gated.members) == len(np.unique(on, axis=1).T)
    assert sorted(np.concatenate(list(gated.members.values()))) == list(range(40))
    for node, neurons in gated.members.items():
        assert (on[:, neurons] == (gated.problem.gates.nodes[node][:, None] == 1)).all()


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
    np.testing.assert_allclose(
        gated.problem.forward(gated.weights)["y"], network.forward(weights)["y"], rtol=0, atol=ROUNDING
    )


def biased(seed=0):
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(9, 3))
    matrices = [random.normal(size=shape) for shape in ((5, 3), (4, 5), (2, 4))]
    biases = [random.normal(size=size) for size in (5, 4, 2)]
    return inputs, matrices, biases


def directly(inputs, matrices, biases, slopes):
    rows = inputs
    for matrix, bias, slope in zip(matrices, biases, slopes, strict=True):
        rows = rows @ matrix.T + bias
        rows = np.where(rows > 0, rows, slope * rows)
    return rows


def test_plain_arrays_with_biases():
    inputs, matrices, biases = biased()
    gated = reln.equivalent_arrays(inputs, matrices, biases=biases, slope=0.2)
    expected = directly(inputs, matrices, biases, (0.2, 0.2, 1.0))
    np.testing.assert_allclose(gated.problem.forward(gated.weights)["y"], expected, rtol=0, atol=ROUNDING)
    assert gated.problem.loss(gated.weights) == pytest.approx(0, abs=ROUNDING)  # its own outputs are the targets


@pytest.fixture
def torch(monkeypatch):
    """The few classes of PyTorch that are read, so that the test needs no PyTorch."""

    class Tensor:
        def __init__(self, values):
            self.values = values

        def detach(self):
            return self

        cpu = detach

        def numpy(self):
            return self.values

    class Linear:
        def __init__(self, weight, bias):
            self.weight, self.bias = Tensor(weight), None if bias is None else Tensor(bias)

    class ReLU:
        pass

    class LeakyReLU:
        negative_slope = 0.25

    module = types.ModuleType("torch")
    module.nn = types.SimpleNamespace(Linear=Linear, ReLU=ReLU, LeakyReLU=LeakyReLU)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module.nn


def test_a_torch_module(torch):
    inputs, matrices, biases = biased()
    first, second, last = (torch.Linear(m, b) for m, b in zip(matrices, biases, strict=True))
    gated = reln.equivalent_torch([first, torch.ReLU(), second, torch.LeakyReLU(), last], inputs)
    expected = directly(inputs, matrices, biases, (0.0, 0.25, 1.0))
    np.testing.assert_allclose(gated.problem.forward(gated.weights)["y"], expected, rtol=0, atol=ROUNDING)
    with pytest.raises(ProblemError, match="in turn"):
        reln.equivalent_torch([first, first], inputs)
    with pytest.raises(ProblemError, match="between two Linear"):
        reln.equivalent_torch([first], inputs)


def test_torch_that_is_not_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ProblemError, match="pip install torch"):
        reln.equivalent_torch([], np.eye(2))


def test_what_does_not_fit_is_named():
    inputs, matrices, biases = biased()
    with pytest.raises(ProblemError, match="a ReLUNetwork, or a Problem with activations, is required"):
        reln.equivalent(matrices, {})
    with pytest.raises(RangeError, match="at least two"):
        reln.equivalent_arrays(inputs, matrices[:1])
    with pytest.raises(WeightError, match=r"edge \('h1', 'y'\) must have shape \(target, source\) = \(2, 5\)"):
        reln.equivalent_arrays(inputs, [matrices[0], matrices[2]])
    with pytest.raises(WeightError, match=r"edge \('bias', 'h1'\) must have shape \(target, source\) = \(5, 1\)"):
        reln.equivalent_arrays(inputs, matrices, biases=[biases[1], None, None])
    with pytest.raises(WeightError, match="biases must hold"):
        reln.equivalent_arrays(inputs, matrices, biases=biases[:1])
