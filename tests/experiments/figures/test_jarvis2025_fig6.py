"""What Fig 6 of P2 is measured with: the shared first layer, gates that let through."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.experiments.figures import _two_layers


def test_gates_of_the_network_with_a_shared_first_layer() -> None:
    named = nr.tasks.contextual(3, "hierarchy")
    problem = _two_layers.shared_first_layer(named, hidden=16)
    assert problem.architecture.nodes == {
        "x": 11,
        "h1": 16,
        "common": 4,
        "without0": 4,
        "without1": 4,
        "without2": 4,
        "y": 60,
    }
    weights = nr.initial.gaussian(0.1)(problem, 0)
    activity = problem.activity(weights)
    context = named.groups["context"]
    assert np.all(activity["h1"] != 0)
    assert np.all(activity["common"] != 0)
    for c in range(3):
        np.testing.assert_array_equal(np.all(activity[f"without{c}"] != 0, axis=1), context != c)


def test_a_layer_that_is_always_on_lets_everything_through() -> None:
    named = nr.tasks.contextual(3, "hierarchy")
    network = nr.ReLUNetwork(named.task, hidden=(6, 5))
    weights = dict(nr.initial.gaussian(1.0)(network, 0))
    assert 0.2 < _two_layers.passed(network, weights) < 0.8
    weights["x", "h1"] = np.abs(weights["x", "h1"])
    assert _two_layers.passed(network, weights) == pytest.approx(1.0)
