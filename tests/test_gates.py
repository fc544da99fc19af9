import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import GateError


@pytest.fixture
def parts():
    architecture = nr.Architecture({"x": 2, "hidden": 3, "y": 1}, [("x", "hidden"), ("hidden", "y")])
    return architecture, nr.Task({"x": np.ones((4, 2))}, {"y": np.ones((4, 1))})


def test_gates_are_copied_float64_and_read_only():
    gate = np.array([True, False])
    gates = nr.Gates(nodes={"h": gate}, edges={("x", "h"): [0.5, -2]})
    gate[0] = False
    np.testing.assert_array_equal(gates.nodes["h"], [1.0, 0.0])
    for array in (gates.nodes["h"], gates.edges["x", "h"]):
        assert array.dtype == np.float64
        assert not array.flags.writeable
    np.testing.assert_array_equal(gates.take(np.array([1])).edges["x", "h"], [-2.0])


def test_a_gate_for_a_node_that_is_not_there_suggests_the_nearest(parts):
    with pytest.raises(GateError, match=r"gate for node 'hiden', which is not there; did you mean 'hidden'\?"):
        nr.Problem(*parts, nr.Gates(nodes={"hiden": np.ones(4)}))


def test_a_gate_of_the_wrong_length_is_named(parts):
    with pytest.raises(GateError, match="the gate of node 'hidden' must have one value per example, 4; it has 3"):
        nr.Problem(*parts, nr.Gates(nodes={"hidden": np.ones(3)}))
    with pytest.raises(GateError, match=r"edge \('x', 'hidden'\) must have one value per example, 4; it has 5"):
        nr.Problem(*parts, nr.Gates(edges={("x", "hidden"): np.ones(5)}))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gate_that_is_not_finite_says_where(bad):
    with pytest.raises(GateError, match=f"the gate of node 'h' must be finite; it has {bad} at example 2"):
        nr.Gates(nodes={"h": [0, 1, bad, 1]})
    with pytest.raises(GateError, match=f"the gate of edge 'e' must be finite; it has {bad} at example 0"):
        nr.Gates(edges={"e": [bad]})


def test_a_gate_must_be_a_list_of_numbers():
    with pytest.raises(GateError, match=r"the gate of node 'h' must have 1 or 2 axis.*shape \(2, 1, 1\)"):
        nr.Gates(nodes={"h": [[[1]], [[0]]]})
    with pytest.raises(GateError, match="nodes must map names to gate values; it was list"):
        nr.Gates([1.0, 0.0])
    with pytest.raises(GateError, match="edges must map names to gate values; it was ndarray"):
        nr.Gates(edges=np.ones(3))
    with pytest.raises(GateError, match="the gate of node 'h' must be an array of numbers; it was str"):
        nr.Gates(nodes={"h": "open"})


def test_a_short_description():
    assert repr(nr.Gates()) == "Gates(all open)"
    assert repr(nr.Gates({"h": [1, 0, 1]}, {("x", "h"): [1, 1, 0]})) == "Gates(h, x->h; 3 examples)"
