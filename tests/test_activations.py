"""Every activation of the registry keeps what it says of itself."""

import jax
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.activations import as_activation, names
from neuralrace.arrays import float64
from neuralrace.errors import GateError, UnknownNameError

RECEIVED = np.array([-2.0, -0.3, 0.0, 0.7, 3.0])
NAMES = names()


@pytest.mark.parametrize("name", NAMES)
@float64
def test_an_activation_is_zero_at_zero_and_comes_back_from_its_data(name):
    activation = as_activation(name)
    assert as_activation(activation.as_data()) == activation
    assert float(activation(jax.numpy.zeros(()))) == 0.0
    scaled = np.array([activation(g * RECEIVED) - g * activation(RECEIVED) for g in (0.5, 3.0)])
    assert (np.abs(scaled) < 1e-12).all() == activation.homogeneous


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_of_a_network_with_it_is_that_of_finite_differences(name):
    graph = nr.Architecture({"x": 3, "h": 4, "y": 2}, [("x", "h"), ("h", "y"), ("x", "y")])
    random = np.random.default_rng(0)
    task = nr.Task({"x": random.standard_normal((6, 3))}, {"y": random.standard_normal((6, 2))})
    problem = nr.Problem(graph, task, activations={"h": name, "y": name}, biases=True)
    weights = {edge: random.standard_normal(graph.shape(edge)) for edge in graph.edges}
    weights |= {("bias", node): random.standard_normal((graph.nodes[node], 1)) for node in ("h", "y")}
    slope, step = problem.gradient(weights), 1e-6
    for edge, matrix in weights.items():
        for place in np.ndindex(matrix.shape):
            up, down = (matrix.copy() for _ in range(2))
            up[place] += step
            down[place] -= step
            found = (problem.loss(weights | {edge: up}) - problem.loss(weights | {edge: down})) / (2 * step)
            assert slope[edge][place] == pytest.approx(found, abs=1e-7)  # rounding over the step, no kink is that near


def test_what_no_registry_has_is_refused_and_gates_keep_to_what_an_activation_allows():
    with pytest.raises(UnknownNameError, match="no activation 'rleu'; did you mean 'relu'"):
        as_activation("rleu")
    graph = nr.Architecture({"x": 1, "h": 1, "y": 1}, [("x", "h"), ("h", "y")])
    task = nr.Task({"x": np.ones((2, 1))}, {"y": np.ones((2, 1))})
    with pytest.raises(GateError, match="must not be negative"):
        nr.Problem(graph, task, nr.Gates({"h": [1.0, -1.0]}), activations={"h": "relu"})
