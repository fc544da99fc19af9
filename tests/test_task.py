import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import TaskError


def test_rows_and_weights_are_copied_float64_and_read_only():
    rows = np.array([[1, 2], [3, 4]])
    task = nr.Task({"x": rows}, {"y": [[1], [0]]}, weights=[1, 3])
    rows[0, 0] = 9
    assert task.inputs["x"][0, 0] == 1
    np.testing.assert_array_equal(task.weights, [0.25, 0.75])
    for array in (task.inputs["x"], task.targets["y"], task.weights):
        assert array.dtype == np.float64
        assert not array.flags.writeable
    assert len(task) == 2


def test_take_rescales_the_weights():
    task = nr.Task({"x": [[1.0], [2.0], [3.0]]}, {"y": [[4.0], [5.0], [6.0]]}, weights=[1, 1, 2])
    part = task.take(np.array([2, 0]))
    np.testing.assert_array_equal(part.inputs["x"], [[3.0], [1.0]])
    np.testing.assert_array_equal(part.targets["y"], [[6.0], [4.0]])
    np.testing.assert_allclose(part.weights, [2 / 3, 1 / 3], rtol=1e-15)  # two roundings


ONE = [[1.0], [2.0], [3.0]]


@pytest.mark.parametrize(
    ("inputs", "targets", "weights", "words"),
    [
        ({"x": ONE}, {"y": ONE[:2]}, None, r"targets\['y'\] has 2 rows and the first input has 3"),
        ({"x": ONE, "z": ONE[:1]}, {"y": ONE}, None, r"inputs\['z'\] has 1 rows and the first input has 3"),
        ({"x": ONE}, {"y": ONE}, [1, 2], "weights must have one number per example, 3; it has 2"),
        ({"x": ONE}, {"y": ONE}, [1, -2, 0], "weights must not be negative; example 1 has -2"),
        ({"x": ONE}, {"y": ONE}, [0, 0, 0], "weights must have a positive sum; every example has weight zero"),
        ({"x": ONE}, {"y": ONE}, [1, np.nan, 1], "weights must be finite; it has nan at example 1"),
        ({"x": [[1, 2], [3, np.inf]]}, {"y": ONE[:2]}, None, r"inputs\['x'\] .* inf at example 1, entry 1"),
        ({"x": ONE}, {"y": [[0], [np.nan], [0]]}, None, r"targets\['y'\] .* nan at example 1, entry 0"),
        ({"x": np.zeros((0, 2))}, {"y": np.zeros((0, 1))}, None, "needs at least one example; it has none"),
        ({"x": [1.0, 2.0]}, {"y": ONE}, None, r"inputs\['x'\] must have 2 axis.*shape \(2,\)"),
        ({"x": [["a"]]}, {"y": ONE}, None, r"inputs\['x'\] must be an array of numbers; it was list"),
        ({"x": [[1, 2], [3]]}, {"y": ONE}, None, r"inputs\['x'\] must .* its rows are of different lengths"),
        ({}, {"y": ONE}, None, "inputs must map at least one node to its rows; it was dict"),
        ({"x": ONE}, ONE, None, "targets must map at least one node to its rows; it was list"),
    ],
)
def test_examples_that_form_no_data_set(inputs, targets, weights, words):
    with pytest.raises(TaskError, match=words):
        nr.Task(inputs, targets, weights)


def test_a_short_description():
    task = nr.Task({"x": np.eye(3), "context": np.ones((3, 2))}, {"y": np.ones((3, 1))})
    assert repr(task) == "Task(3 examples, x: 3, context: 2 -> y: 1)"
