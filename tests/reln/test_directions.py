"""The race of directions: exact for linear networks, and the first falls of ReLU networks."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import reln
from neuralrace.errors import ProblemError, WeightError
from neuralrace.reln.growth import OneLayer

LAW = nr.initial.gaussian(1e-4)
VALUES = np.array([4.0, 2.5, 1.5, 0.8])


@pytest.fixture(scope="module")
def linear():
    """White inputs and known singular values: modes that do not see each other (Saxe et al. 2014)."""
    random = np.random.default_rng(0)
    left, right = (np.linalg.qr(random.standard_normal((size, size)))[0] for size in (4, 6))
    inputs = np.sqrt(6) * np.eye(6)
    task = nr.Task({"x": inputs}, {"y": inputs @ right[:, :4] @ np.diag(VALUES) @ left.T})
    return nr.ReLUNetwork(task, hidden=(400,), slope=1.0), left


def test_in_a_linear_network_the_drops_are_the_modes(linear):
    network, left = linear
    found = reln.directions(network, LAW)
    levels = [0.5 * (VALUES[place:] ** 2).sum() for place in range(5)]
    assert found.first == pytest.approx(levels[0])
    np.testing.assert_allclose([drop.rate for drop in found.drops], VALUES, rtol=0.01)
    # active neurons are at rest when the loss falls by less than 1e-4 of the first per growth time
    np.testing.assert_allclose([drop.level for drop in found.drops], levels[1:], atol=1e-3 * levels[0])
    # half of s is reached at log(s / a) / 2 s from a first strength a = neurons * std^2 / 2, which one draw has to
    # a part sqrt(2 / 400) and its logarithm, about 15, to 0.5 %; other modes in the direction of the first add to it
    times = np.log(VALUES / (0.5 * 400 * 1e-8)) / (2 * VALUES)
    np.testing.assert_allclose([drop.time for drop in found.drops], times, rtol=0.02)
    for mode, drop in enumerate(found.drops):
        assert abs(drop.writes @ left[:, mode]) > 0.99
    assert len(found.falls) == 4
    assert found.loss([0, times[0] * 1.1])[1] == found.drops[0].level


def test_xor_falls_once_into_four_directions():
    """Each example has its own; a module of XOR grows at 1 / sqrt(8) (P2 appendix: the xor gating without a margin)."""
    found = reln.directions(nr.ReLUNetwork(nr.tasks.xor().task, hidden=(128,)), LAW)
    np.testing.assert_allclose(
        [drop.rate for drop in found.drops], float(nr.theory.exact.xor_gating(0.0).singular_value), rtol=0.05
    )
    np.testing.assert_allclose([drop.level for drop in found.drops], [0.375, 0.25, 0.125, 0], atol=1e-3)
    assert len(found.falls) == 1
    assert "examples" in str(found)


def test_neurons_that_bring_too_little_to_arrive_do_not_overflow():
    """Two directions count; of the others some grow to the end of the race."""
    random = np.random.default_rng(0)
    inputs = np.round(random.normal(size=(7, 3)))
    inputs[1], inputs[2] = inputs[0], 0.0
    targets, weights = random.normal(size=(7, 2)), random.random(7)
    weights[3] = 0.0
    task = nr.Task({"x": inputs}, {"y": targets}, weights)
    found = reln.directions(nr.ReLUNetwork(task, hidden=(12,)), nr.initial.gaussian(1e-3))
    assert np.isfinite([(drop.time, drop.level, drop.rate) for drop in found.drops]).all()
    assert np.all(np.diff([found.first, *(drop.level for drop in found.drops)]) < 0)


def test_the_velocity_is_that_of_the_network():
    """The oracle is the gradient of the problem, by automatic differentiation."""
    network = nr.ReLUNetwork(nr.tasks.xor(0.5).task, hidden=(5,), slope=0.2)
    weights = nr.initial.gaussian(0.7)(network, 3)
    layer = OneLayer(network.inputs, network.targets, network.task.weights, 0.2)
    neurons = np.hstack([weights["x", "h1"], weights["h1", "y"].T])
    assert layer.loss(neurons) == pytest.approx(network.loss(weights), rel=1e-12)
    gradient = network.gradient(weights)
    wanted = -np.hstack([gradient["x", "h1"], gradient["h1", "y"].T])
    np.testing.assert_allclose(layer.velocity(neurons, layer.residual(neurons)), wanted, atol=1e-12)


def test_what_cannot_be_raced_is_refused():
    task = nr.tasks.xor().task
    with pytest.raises(ProblemError, match="constant input"):
        reln.directions(nr.ReLUNetwork(task, hidden=(4,), biases=True), LAW)
    with pytest.raises(ProblemError, match="2 hidden nodes"):
        reln.directions(nr.ReLUNetwork(task, hidden=(4, 4)), LAW)
    with pytest.raises(WeightError, match="Gaussian law"):
        reln.directions(nr.ReLUNetwork(task, hidden=(4,)), nr.initial.orthogonal(0.1))
    with pytest.raises(ProblemError, match="network must be a Problem; it was None"):
        reln.directions(None, LAW)
