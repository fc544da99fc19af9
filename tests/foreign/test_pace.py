"""The learning rate of a training from its weights."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.foreign import measure_pace

RATE = 0.2


def test_a_training_that_rests_is_measured_where_it_moved():
    """The steps are a plain loop; the weights of the last checkpoints differ by rounding alone, if at all."""
    network = nr.ReLUNetwork(nr.tasks.xor().task, hidden=(16,))
    weights, saved, steps = nr.initial.gaussian(0.1)(network, 0), [], list(range(0, 601, 20))
    for step in range(steps[-1] + 1):
        if step in steps:
            saved.append(weights)
        slope = network.gradient(weights)
        weights = {edge: matrix - RATE * slope[edge] for edge, matrix in weights.items()}
    places = [np.concatenate([matrix.ravel() for matrix in one.values()]) for one in saved]
    assert np.abs(places[-1] - places[-2]).max() < 1e-14
    found = measure_pace(network, steps, saved)
    assert found.learning_rate == pytest.approx(RATE, rel=3e-3)  # the adjustment ends where the way is right to 1e-3
    assert found.cosine > 0.999
