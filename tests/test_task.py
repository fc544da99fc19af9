"""Tasks and gates: copied once, read-only, refused where they do not form a data set."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import GateError, TaskError


def test_rows_weights_and_gates_are_copied_float64_and_read_only():
    rows, gate = np.array([[1, 2], [3, 4]]), np.array([True, False])
    task = nr.Task({"x": rows}, {"y": [[1], [0]]}, weights=[1, 3])
    gates = nr.Gates(nodes={"h": gate}, edges={("x", "h"): [0.5, -2]})
    rows[0, 0], gate[0] = 9, False
    assert task.inputs["x"][0, 0] == 1
    np.testing.assert_array_equal(task.weights, [0.25, 0.75])
    np.testing.assert_array_equal(gates.nodes["h"], [1.0, 0.0])
    for array in (task.inputs["x"], task.targets["y"], task.weights, gates.nodes["h"], gates.edges["x", "h"]):
        assert array.dtype == np.float64
        assert not array.flags.writeable
    assert len(task) == 2
    np.testing.assert_array_equal(gates.take(np.array([1])).edges["x", "h"], [-2.0])


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
        ({"x": ONE}, {"y": ONE}, [1, 2], "weights must have one number per example, 3; it has 2"),
        ({"x": ONE}, {"y": ONE}, [1, -2, 0], "weights must not be negative; example 1 has -2"),
        ({"x": ONE}, {"y": ONE}, [0, 0, 0], "weights must have a positive sum; every example has weight zero"),
        ({"x": ONE}, {"y": ONE}, [1, np.nan, 1], "weights must be finite; it has nan at example 1"),
        ({"x": [[1, 2], [3, np.inf]]}, {"y": ONE[:2]}, None, r"inputs\['x'\] .* inf at example 1, entry 1"),
        ({"x": np.zeros((0, 2))}, {"y": np.zeros((0, 1))}, None, r"inputs\['x'\] needs at least one example"),
        ({"x": [1.0, 2.0]}, {"y": ONE}, None, r"inputs\['x'\] must have 2 axis.*shape \(2,\)"),
        ({"x": [["a"]]}, {"y": ONE}, None, r"inputs\['x'\] must be an array of numbers; it was list"),
        ({"x": [[1, 2], [3]]}, {"y": ONE}, None, r"inputs\['x'\] must .* its rows are of different lengths"),
        ({}, {"y": ONE}, None, "inputs must map at least one node to its rows, or be one array.*it was dict"),
    ],
)
def test_examples_that_form_no_data_set(inputs, targets, weights, words):
    with pytest.raises(TaskError, match=words):
        nr.Task(inputs, targets, weights)


@pytest.mark.parametrize(
    ("gates", "words"),
    [
        ({"nodes": {"hiden": np.ones(4)}}, r"gates name unknown node 'hiden'; did you mean 'hidden'\?"),
        ({"nodes": {"hidden": np.ones(3)}}, "gate of node 'hidden' must have one value per example, 4; it has 3"),
        ({"nodes": {"hidden": np.ones((4, 2))}}, r"'hidden' have shape \(4, 2\), and it has 3 neurons"),
        ({"edges": {"e": [np.inf]}}, "the gate of edge 'e' must be finite; it has inf at example 0"),
        ({"nodes": {"h": [[[1]], [[0]]]}}, r"the gate of node 'h' must have 1 or 2 axis.*shape \(2, 1, 1\)"),
        ({"nodes": [1.0, 0.0]}, "nodes must map names to gate values; it was list"),
        ({"nodes": {"h": "open"}}, "the gate of node 'h' must be an array of numbers; it was str"),
    ],
)
def test_gates_that_do_not_fit(gates, words):
    architecture = nr.Architecture({"x": 2, "hidden": 3, "y": 1}, [("x", "hidden"), ("hidden", "y")])
    task = nr.Task({"x": np.ones((4, 2))}, {"y": np.ones((4, 1))})
    with pytest.raises(GateError, match=words):
        nr.Problem(architecture, task, nr.Gates(**gates))
