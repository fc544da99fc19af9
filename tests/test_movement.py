"""What moved weights: trainings of every kind in plain NumPy, and what is found out about them from checkpoints."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.movement import estimate_pace, find_direction
from oracle import descend, gradient

INPUTS = np.random.default_rng(0).normal(size=(60, 5))
CLASSES = (INPUTS @ [1.0, -0.5, 0.3, 0.0, 0.2] > 0).astype(int)
TARGETS = np.eye(2)[CLASSES]
NETWORK = nr.ReLUNetwork(nr.Task({"x": INPUTS}, {"y": TARGETS}), 12)
STEPS = list(range(0, 401, 20))


def trained(rate=0.1, loss="squared", kind="ReLU", batch=60, momentum=0.0, decay=0.0, signs=False):
    """Train by hand, and keep the weights at STEPS."""
    random = np.random.default_rng(1)
    into, out = 0.4 * random.normal(size=(12, 5)), 0.4 * random.normal(size=(2, 12))
    speed, kept = [np.zeros_like(into), np.zeros_like(out)], []
    for step in range(STEPS[-1] + 1):
        if step in STEPS:
            kept.append({("x", "h1"): into.copy(), ("h1", "y"): out.copy()})
        some = random.choice(60, batch, replace=False)
        received = INPUTS[some] @ into.T
        hidden = np.maximum(received, 0) if kind == "ReLU" else np.tanh(received)
        slope = (received > 0) * 1.0 if kind == "ReLU" else 1 - hidden**2
        answers = hidden @ out.T
        if loss == "cross-entropy":
            answers = np.exp(answers) / np.exp(answers).sum(axis=1, keepdims=True)
        error = (answers - TARGETS[some]) / batch
        slopes = [((error @ out) * slope).T @ INPUTS[some] + decay * into, error.T @ hidden + decay * out]
        speed = [momentum * v + (np.sign(g) if signs else g) for v, g in zip(speed, slopes, strict=True)]
        into, out = into - rate * speed[0], out - rate * speed[1]
    return [kept]


def test_the_learning_rate_is_measured_where_the_weights_moved():
    """The weights of the last checkpoints differ by rounding alone, if at all."""
    network = nr.ReLUNetwork(nr.tasks.xor().task, hidden=(16,))
    history = descend(lambda at: gradient(network, at), nr.initial.gaussian(0.1)(network, 0), 0.2, 600)
    found = estimate_pace(network, list(range(0, 601, 20)), [history[::20]])
    assert found.learning_rate == pytest.approx(0.2, rel=1e-3)
    assert found.cosine > 0.999
    assert found.small_steps == 1


@pytest.mark.parametrize(
    ("how", "rate"),
    [
        ({"batch": 10}, 0.1),
        ({"batch": 20, "rate": 0.02, "momentum": 0.8}, 0.1),  # as a learning rate five times as large
    ],
)
def test_batches_and_momentum_have_a_pace(how, rate):
    found = estimate_pace(NETWORK, STEPS, trained(**how))
    assert found.learning_rate == pytest.approx(rate, rel=0.05)
    assert found.cosine > 0.9


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"loss": "cross-entropy"}, "is the gradient of the cross-entropy (cosine"),
        ({"kind": "tanh"}, "is the gradient of the squared error of tanh neurons"),
        ({"decay": 0.1}, "and to smaller weights (cosine 0.98), as with weight decay of about 0.1"),
        ({"rate": 0.002, "signs": True, "loss": "cross-entropy"}, "is the sign of the gradient of the cross-entropy"),
    ],
)
def test_what_was_descended_is_found_out(how, words):
    sets = trained(**how)
    pace = estimate_pace(NETWORK, STEPS, sets)
    found = find_direction(NETWORK, STEPS, sets, pace)
    assert pace.cosine < 0.9
    assert words in found.sentence
    assert found.loss == how.get("loss", "squared")
    assert found.activation == how.get("kind", "ReLU")
    strange = [[{e: np.random.default_rng(i).normal(size=w.shape) for e, w in sets[0][0].items()} for i in STEPS]]
    assert "no direction that was tried comes near" in find_direction(NETWORK, STEPS, strange, pace).sentence
