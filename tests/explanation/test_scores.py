"""Accuracy, R^2 and the worth of modules, against sums written out."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.explanation.scores import measure_of, outputs_of, score_networks

RANDOM = np.random.default_rng(1)


@pytest.mark.parametrize(("hidden", "biases"), [((5,), False), ((4, 3), True)])
def test_outputs_are_those_of_the_network(hidden, biases):
    task = nr.Task({"x": RANDOM.normal(size=(6, 3))}, {"y": RANDOM.normal(size=(6, 2))})
    network = nr.ReLUNetwork(task, hidden, slope=0.2, biases=biases)
    weights = nr.initial.gaussian(dict.fromkeys(network.architecture.edges, 1.0))(network, 0)
    np.testing.assert_allclose(outputs_of(network, weights), network.forward(weights)["y"], rtol=1e-12)
    silenced = dict(weights)
    silenced["h1", network.architecture.hidden[1] if len(hidden) > 1 else "y"] = weights[
        "h1", network.architecture.hidden[1] if len(hidden) > 1 else "y"
    ] * np.arange(hidden[0])[None].clip(0, 1)
    muted = outputs_of(network, weights, "h1", np.arange(hidden[0]) == 0)
    np.testing.assert_allclose(muted, network.forward(silenced)["y"], rtol=1e-12)


def test_a_module_is_worth_what_is_lost_without_it():
    """Two neurons, each sees one class: without one of them the outputs of its class are zero."""
    task = nr.Task({"x": [[1.0, 0], [0, 1], [0, 1]]}, {"y": [[1.0, 0], [0, 1], [0, 1]]})
    network = nr.ReLUNetwork(task, 2)
    weights = {("x", "h1"): np.eye(2), ("h1", "y"): np.eye(2)}
    measure = measure_of(network.targets, ("cat", "dog"), None)
    whole, without = score_networks(measure, network, [weights], [("m0", "h1", np.array([[False, True]]))])
    assert (whole.loss, whole.score, whole.by_class) == (0, 1, (1, 1))
    assert without.loss == pytest.approx(0.5 * 2 / 3)
    assert without.loss_by_class == pytest.approx((0, 0.5))
    assert without.by_class == (1, 0)
    assert without.score == pytest.approx(1 / 3)


def test_what_is_counted():
    assert measure_of(np.eye(3)[[0, 0, 1, 2]], (), None).constant == 0.5
    assert measure_of(np.eye(3)[[0, 0, 1, 2]], (), None, np.array([0.1, 0.1, 0.6, 0.2])).constant == pytest.approx(0.6)
    assert measure_of(np.array([[1.0], [-1.0]]), ("up",), None).names == ("up -1", "up 1")
    plain = measure_of(np.array([[0.5], [1.5], [2.0]]), (), np.array(["a", "b", "b"]))
    assert (plain.kind, plain.names, plain.constant) == ("R^2", ("a", "b"), 0)
    targets = np.array([[1.0], [2.0], [4.0]])
    shares = np.full(3, 1 / 3)
    assert plain.score(targets, targets, shares) == 1
    assert plain.score(np.full((3, 1), 7 / 3), targets, shares) == pytest.approx(0)


def test_a_silent_network_has_no_accuracy():
    """With zeros for outputs every example would count as the first class, which 3 of 4 are."""
    targets = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]])
    measure = measure_of(targets, (), None)
    assert np.isnan(measure.score(np.full((4, 2), 1e-9), targets, np.full(4, 0.25)))
    assert measure.score(0.2 * targets, targets, np.full(4, 0.25)) == 1.0
