"""Warnings about data: where there is cause, and only there."""

import numpy as np

import neuralrace as nr

CENTRED = np.linspace(-1, 1, 12)[:, None] * [1.0, -2.0]
LABELS = np.eye(3)[np.arange(12) % 3]


def told(inputs, targets, **names):
    return " ".join(nr.tasks.cautions(nr.Task({"x": inputs}, {"y": targets}), names))


def test_targets_with_a_mean_that_the_inputs_cannot_make():
    mean = np.linspace(100, 200, 12)[:, None]
    assert "take the mean off the targets (standardize)" in told(CENTRED, mean)
    assert told(np.hstack([CENTRED, np.ones((12, 1))]), mean) == ""
    assert told(CENTRED, mean - mean.mean()) == ""
    assert told(np.eye(12), mean) == ""  # these make a constant together
    assert told(CENTRED, np.zeros((12, 1))) == ""


def test_the_advice_for_labels_is_what_helps_them():
    words = told(CENTRED, LABELS)
    assert "33% of their second moment is their mean" in words
    assert "Add a constant input (bias)" in words
    assert "standardize" not in words


def test_inputs_of_unlike_scale():
    words = told(CENTRED * [1.0, 1e3], CENTRED, x=("small", "large"))
    assert "'large' is of size" in words
    assert "'small' of" in words
    assert told(CENTRED * [1.0, 5.0], CENTRED) == ""
    rare = np.hstack([CENTRED, np.eye(12)[:, :1]])  # seldom on, and not small when it is
    assert told(rare, CENTRED) == ""
    assert told(np.hstack([CENTRED, np.zeros((12, 1))]), CENTRED) == ""
    assert "nothing to learn from" in told(np.zeros((12, 1)), CENTRED)
    assert "x 2" in told(CENTRED * [1e-200, 1e98], CENTRED)
