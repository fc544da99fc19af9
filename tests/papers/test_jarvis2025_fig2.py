"""How much of a decision is XOR: one for neurons along the examples, none for neurons along the third feature."""

import numpy as np
import pytest

from neuralrace import tasks
from neuralrace.papers.jarvis2025.fig2 import xor_share


@pytest.mark.parametrize("margin", [0.3, 1.0, 1.4])
def test_share_of_the_two_gatings(margin: float) -> None:
    task = tasks.xor(margin).task
    inputs, targets = task.inputs["x"], task.targets["y"]
    xor = {("x", "h1"): inputs, ("h1", "y"): targets.T / np.sum(inputs**2, axis=1)}
    linear = {("x", "h1"): np.array([[0.0, 0, 1], [0, 0, -1]]), ("h1", "y"): np.array([[1.0, -1]]) / margin}
    # below sqrt(2) no two examples point the same way, so both solve the task, with the shares they are named for
    for weights, share in ((xor, 1.0), (linear, 0.0)):
        assert xor_share(weights, inputs, targets) == pytest.approx(share, abs=1e-12)
