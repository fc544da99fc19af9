"""Representatives: exact for linear networks, near the layer for rectified ones, refused where they cannot stand."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import AssumptionError
from neuralrace.theory import NetworkFlow, Representatives, predict
from neuralrace.theory.flow import simulation

RANDOM = np.random.default_rng(1)
TASK = nr.Task({"x": RANDOM.normal(size=(8, 3))}, {"y": RANDOM.normal(size=(8, 2))})
TIMES = np.linspace(0.0, 30.0, 61)
LAW = nr.initial.gaussian(1e-3)
FEW = Representatives(most=60)
WIDE = 240


def test_exact_for_a_linear_network():
    """Any number of neurons with the moments of the law moves like the layer of infinitely many."""
    network = nr.ReLUNetwork(TASK, hidden=(WIDE,), slope=1.0)
    one, other = (predict(network, LAW, TIMES, FEW, rtol=1e-6, draws=1, key=key) for key in (0, 1))
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-4)  # of the integrator
    layers = predict(network, LAW, TIMES, Representatives(), rtol=1e-6)
    assert layers.certificate["draws agree"].residual > 3e-4  # single layers differ by chance


LEAKY = nr.ReLUNetwork(TASK, hidden=(WIDE,), slope=0.2, biases=True)


@pytest.fixture(scope="module")
def leaky():
    """Of a slope that is neither none nor one, so that a power of it that is wrong shows."""
    return predict(LEAKY, LAW, TIMES, FEW, draws=2)


def test_near_the_layer_that_they_stand_for(leaky):
    layer = predict(LEAKY, LAW, TIMES, NetworkFlow(), draws=4)
    spread = max(nr.agreement(one, layer).normalized_l1 for one in singles(layer))
    # the mean of four differs from the law by half of what each does, and that of two by 60 neurons by as much
    assert nr.agreement(leaky, layer).normalized_l1 < 2 * spread


def singles(forecast):
    return [nr.analysis.Line(forecast.time, losses) for losses in forecast.losses]


def test_weights_and_outputs_are_those_of_the_network_that_was_simulated(leaky):
    forecast = leaky
    assert forecast.simulated is not None
    width = forecast.simulated.architecture.nodes["h1"]
    assert width == 60 < WIDE
    for time in (0.0, 30.0):
        weights = forecast.weights(time)
        assert weights[("x", "h1")].shape == (width, 3)
        at = {0.0: 0, 30.0: -1}[time]
        assert forecast.simulated.loss(weights) == pytest.approx(forecast.losses[0, at], rel=2e-2)
    assert forecast.outputs()["y"].shape == (8, 2)


def test_descent_goes_by_steps_or_strides(monkeypatch):
    network = nr.ReLUNetwork(TASK, hidden=(50,))
    times, steps = 0.1 * np.arange(0, 401, 5), {"learning_rate": 0.1, "dynamics": "descent", "draws": 2}
    cheap = predict(network, LAW, times, **steps)
    monkeypatch.setattr(simulation, "CHEAP", 0)
    one, six = (predict(network, LAW, times, Representatives(at_once=most), **steps) for most in (1, 6))
    weights = one.weights(0.0)  # in the coordinates that were asked about; the oracle takes every step in double
    trained = nr.train(network, weights, 0.1, 400, every=5, progress=False)
    np.testing.assert_allclose(cheap.losses[0], trained.loss[0], rtol=1e-9)
    np.testing.assert_allclose(one.losses[0], trained.loss[0], rtol=1e-4)  # single precision
    assert nr.agreement(six, one).normalized_l1 < 0.003  # less than two draws are apart
    assert nr.agreement(six, one).normalized_l1 < 0.3 * one.certificate["draws agree"].residual
    again = network.loss(six.weights(40.0))
    assert again == pytest.approx(six.losses[0, -1], rel=0.02)
    assert six.certificate["flow regime"].residual == pytest.approx(one.certificate["flow regime"].residual, rel=0.03)
    assert "up to 6 at once where the loss has halved" in str(six.certificate)
    assert "at once" not in str(cheap.certificate)


@pytest.mark.parametrize(
    ("hidden", "law", "words"),
    [
        ((6, 4), LAW, "one rectified hidden layer required; there are 2 hidden nodes"),
        ((6,), nr.initial.orthogonal(0.1), "independent normal neurons required; Orthogonal"),
        ((6,), nr.initial.gaussian(1.0), "small initial weights is required to 0.01; the initial output"),
    ],
)
def test_what_cannot_be_represented_is_refused_and_the_flow_is_offered(hidden, law, words):
    network = nr.ReLUNetwork(TASK, hidden=hidden)
    with pytest.raises(AssumptionError, match=f"{words}.*use method='auto'"):
        predict(network, law, TIMES, "representatives")
    assert predict(network, law, [0.0]).method == "flow"


def test_given_weights_cannot_be_represented():
    network = nr.ReLUNetwork(TASK, hidden=(6,))
    with pytest.raises(AssumptionError, match="weights were given: use method='auto'"):
        predict(network, LAW(network, 0), TIMES, "representatives")
