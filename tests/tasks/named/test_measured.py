"""Measured data as tasks: their sizes, scales and names."""

import numpy as np
import pytest

from neuralrace import tasks


@pytest.mark.parametrize(
    ("name", "shape", "outputs"),
    [("iris", (150, 5), 3), ("wine", (178, 14), 3), ("digits", (1797, 62), 10), ("diabetes", (442, 11), 1)],
)
def test_standardized_with_a_constant_input(name, shape, outputs):
    made = tasks.get(name)
    rows, wanted = made.task.inputs["x"], made.task.targets["y"]
    assert rows.shape == shape
    assert (rows[:, -1] == 1).all()
    np.testing.assert_allclose(rows[:, :-1].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(rows[:, :-1].std(axis=0), 1, rtol=1e-12)
    assert wanted.shape[1] == outputs
    assert [len(made.labels[node]) for node in "xy"] == [shape[1], outputs]
    if outputs > 1:
        assert (wanted.sum(axis=1) == 1).all()
        assert made.groups["class"][0] == made.labels["y"][wanted[0].argmax()]
    assert tasks.cautions(made.task, made.labels) == ()


def test_raw_data_are_as_they_came():
    raw = tasks.wine(standardize=False, bias=False).task
    assert raw.inputs["x"].shape == (178, 13)
    (told,) = tasks.cautions(raw)
    assert "differ in scale" in told


def test_noisy_xor_is_xor_without_noise():
    clean, exact = tasks.noisy_xor(points=1, noise=0.0, bias=False).task, tasks.xor().task
    np.testing.assert_array_equal(clean.inputs["x"], exact.inputs["x"])
    np.testing.assert_array_equal(clean.targets["y"], exact.targets["y"])
    assert tasks.noisy_xor().task.inputs["x"].shape == (200, 3)
