"""Names and transposes of other frameworks, and what cannot be understood."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import WeightError
from neuralrace.foreign import layers_of, weights_by_edge

FIRST, SECOND = np.arange(12.0).reshape(4, 3), np.arange(8.0).reshape(2, 4)  # (outputs, inputs)
BIASES = np.ones(4), np.ones(2)
TASK = nr.Task({"x": np.eye(3)}, {"y": np.ones((3, 2))})


@pytest.mark.parametrize(
    "arrays",
    [
        {"0.weight": FIRST, "2.weight": SECOND},  # PyTorch, Sequential
        {"module.fc1.weight": FIRST, "module.fc2.weight": SECOND},
        {"fc_out.weight": SECOND, "fc_in.weight": FIRST},
        {"z.weight": FIRST, "a.weight": SECOND},  # the order of names is wrong, that of shapes right
        {"Dense_0/kernel": FIRST.T, "Dense_1/kernel": SECOND.T},  # Flax
        {"params.Dense_0.kernel": FIRST.T, "params.Dense_1.kernel": SECOND.T},
        {".layers[0].weight": FIRST, ".layers[1].weight": SECOND},  # Equinox
        {"x->h1": FIRST, "h1->y": SECOND},
        {("x", "h1"): FIRST, ("h1", "y"): SECOND},
    ],
)
def test_names_and_transposes(arrays):
    network = nr.ReLUNetwork(TASK, 4)
    found = weights_by_edge(arrays, network.architecture, False)
    np.testing.assert_array_equal(found["x", "h1"], FIRST)
    np.testing.assert_array_equal(found["h1", "y"], SECOND)


def test_biases_are_edges_from_the_bias_node():
    network = nr.ReLUNetwork(TASK, 4, biases=True)
    arrays = {"0.weight": FIRST, "0.bias": BIASES[0], "2.weight": SECOND, "2.bias": BIASES[1]}
    found = weights_by_edge(arrays, network.architecture, True)
    assert set(found) == set(network.architecture.edges)
    assert found["bias", "h1"].shape == (4, 1)
    assert network.loss(found) > 0


def test_layer_ten_comes_after_layer_nine():
    square = [np.full((3, 3), float(i)) for i in range(11)]
    found = layers_of({f"layers.{i}.weight": square[i] for i in (10, 2, 9, *range(2), *range(3, 9))}, 3, 3)
    assert [layer.matrix[0, 0] for layer in found] == list(range(11))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"norm.weight": np.ones(4)}, "leave it out of the checkpoint"),
        ({"conv.weight": np.ones((4, 3, 3, 3))}, "a chain of linear layers"),
        ({"0.weight": FIRST, "2.weight": np.ones((2, 5))}, r"from 3 inputs to 2 outputs; .* \(5, 2\)"),
        ({"0.weight": FIRST, "0.bias": BIASES[0], "2.weight": SECOND}, "in every layer or in none"),
        ({"0.weight": FIRST, "0.bias": BIASES[1], "2.weight": SECOND, "2.bias": BIASES[1]}, "each output, 4; it has 2"),
        ({"0.weight": np.ones((5, 3)), "2.weight": np.ones((2, 5))}, "layers of 3 -> 4 -> 2; .* 3 -> 5 -> 2"),
        ({"0.weight": FIRST, "0.bias": BIASES[0], "2.weight": SECOND, "2.bias": BIASES[1]}, "make it with biases=True"),
        ({}, "none"),
    ],
)
def test_what_does_not_fit_is_said(arrays, words):
    network = nr.ReLUNetwork(TASK, 4)
    with pytest.raises(WeightError, match=words):
        weights_by_edge(arrays, network.architecture, False) if arrays else layers_of(arrays, 3, 2)
