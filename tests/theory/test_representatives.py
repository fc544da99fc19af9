"""Representatives: the neurons that are drawn, and how near their forecast is to the layer that they stand for."""

import jax
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import AssumptionError
from neuralrace.theory import NetworkFlow, Representatives, predict
from neuralrace.theory.flow import simulation
from neuralrace.theory.representatives import Spans, drawn_neurons, initial_output, whitened

RANDOM = np.random.default_rng(1)
TASK = nr.Task({"x": RANDOM.normal(size=(8, 3))}, {"y": RANDOM.normal(size=(8, 2))})
FLAT = nr.Task({"x": RANDOM.normal(size=(9, 4)) @ np.diag([1, 1, 1, 0])}, {"y": RANDOM.normal(size=(9, 1)) @ [[3, 4]]})
TIMES = np.linspace(0.0, 30.0, 61)
START = nr.initial.gaussian(1e-3)
FEW = Representatives(most=60)
WIDE = 240
# a slope that is neither none nor one, so that a wrong power of it shows
LEAKY = nr.ReLUNetwork(TASK, hidden=(WIDE,), slope=0.2, biases=True)


def test_spans_keep_the_loss_and_the_outputs():
    problem = nr.ReLUNetwork(FLAT, hidden=(6,), biases=True)
    spans = Spans.of(problem)
    assert (spans.bases["x"].shape, spans.bases["bias"].shape, spans.bases["y"].shape) == ((4, 3), (1, 1), (2, 1))
    narrow = spans.network(6)
    inner = nr.initial.gaussian(0.5)(narrow, 0)
    assert narrow.loss(inner) == pytest.approx(problem.loss(spans.lift(inner)), rel=1e-12)
    # a neuron scaled by the root counts that often
    five = np.sqrt(5) * spans.neurons(inner), np.repeat(spans.neurons(inner), 5, axis=0)
    few, many = (spans.network(len(rows)).loss(spans.weights(rows, inner)) for rows in five)
    assert few == pytest.approx(many, rel=1e-12)


def test_drawn_neurons_have_the_second_moments_of_the_layer():
    spans = Spans.of(nr.ReLUNetwork(FLAT, hidden=(1000,)))
    start = nr.initial.gaussian({("x", "h1"): 0.1, ("h1", "y"): 0.3})
    drawn = spans.neurons(drawn_neurons(spans, start, 50, 1000, jax.random.key(0)))
    np.testing.assert_allclose(drawn.T @ drawn, 1000 * np.diag([0.01] * 3 + [0.09]), atol=1e-10)
    np.testing.assert_allclose(drawn[:25], -drawn[25:], atol=1e-12)  # so that every half space has half of them
    # as many as there are: a plain draw, whose moments vary as those of a network do
    whole = spans.neurons(drawn_neurons(spans, start, 1000, 1000, jax.random.key(0)))
    assert 1e-3 < np.abs(whole.T @ whole / 1000 - np.diag([0.01] * 3 + [0.09])).max() < 0.05
    few = RANDOM.normal(size=(5, 4))
    assert whitened(few, np.ones(4)) is few  # five neurons cannot have all moments


def test_the_initial_output_is_foreseen():
    problem, start = nr.ReLUNetwork(FLAT, hidden=(400,), slope=0.3), nr.initial.gaussian(0.1)
    outputs = np.stack([problem.forward(start(problem, key))["y"] for key in range(40)])
    measured = np.sqrt((outputs**2).sum(axis=2).mean() / (FLAT.targets["y"] ** 2).sum(axis=1).mean())
    assert initial_output(problem, start) == pytest.approx(measured, rel=0.3)  # forty draws, few directions


def test_exact_for_a_linear_network():
    """Any number of neurons with the moments of the initializer moves like the layer of infinitely many."""
    network = nr.ReLUNetwork(TASK, hidden=(WIDE,), slope=1.0)
    one, other = (predict(network, START, TIMES, FEW, rtol=1e-6, draws=1, key=key) for key in (0, 1))
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-4)  # of the integrator
    layers = predict(network, START, TIMES, Representatives(), rtol=1e-6)
    assert layers.certificate["draws agree"].residual > 3e-4  # single layers differ by chance


def test_near_the_layer_with_the_weights_and_outputs_of_the_network_that_was_simulated():
    forecast = predict(LEAKY, START, TIMES, FEW, draws=2)
    layer = predict(LEAKY, START, TIMES, NetworkFlow(), draws=4)
    singles = [nr.analysis.Line(layer.time, losses) for losses in layer.losses]
    spread = max(nr.agreement(one, layer).normalized_l1 for one in singles)
    # the mean of four differs from the layer by half of what each does, and that of two by 60 neurons by as much
    assert nr.agreement(forecast, layer).normalized_l1 < 2 * spread
    assert forecast.simulated.architecture.nodes["h1"] == 60 < WIDE
    for time, at in ((0.0, 0), (30.0, -1)):
        weights = forecast.weights(time)
        assert weights[("x", "h1")].shape == (60, 3)
        assert forecast.simulated.loss(weights) == pytest.approx(forecast.losses[0, at], rel=2e-2)
    assert forecast.outputs()["y"].shape == (8, 2)


def test_descent_goes_by_steps_or_strides(monkeypatch):
    network = nr.ReLUNetwork(TASK, hidden=(50,))
    times, steps = 0.1 * np.arange(0, 401, 5), {"learning_rate": 0.1, "dynamics": "descent", "draws": 2}
    cheap = predict(network, START, times, **steps)
    monkeypatch.setattr(simulation, "CHEAP", 0)
    one, six = (predict(network, START, times, Representatives(at_once=most), **steps) for most in (1, 6))
    weights = one.weights(0.0)  # in the coordinates that were asked about; the oracle takes every step in double
    trained = nr.train(network, weights, 0.1, 400, every=5, progress=False)
    np.testing.assert_allclose(cheap.losses[0], trained.loss[0], rtol=1e-9)
    np.testing.assert_allclose(one.losses[0], trained.loss[0], rtol=1e-4)  # single precision
    assert nr.agreement(six, one).normalized_l1 < 0.003  # less than two draws are apart
    assert nr.agreement(six, one).normalized_l1 < 0.3 * one.certificate["draws agree"].residual
    assert network.loss(six.weights(40.0)) == pytest.approx(six.losses[0, -1], rel=0.02)
    assert "up to 6 at once where the loss has halved" in str(six.certificate)
    assert "at once" not in str(cheap.certificate)


@pytest.mark.parametrize(
    ("hidden", "start", "words"),
    [
        ((6, 4), START, "one rectified hidden layer required; there are 2 hidden nodes"),
        ((6,), nr.initial.orthogonal(0.1), "independent normal neurons required; Orthogonal"),
        ((6,), nr.initial.gaussian(1.0), "small initial weights is required to 0.01; the initial output"),
        ((6,), None, "weights were given"),
    ],
)
def test_what_cannot_be_represented_is_refused_and_the_flow_is_offered(hidden, start, words):
    network = nr.ReLUNetwork(TASK, hidden=hidden)
    start = START(network, 0) if start is None else start
    with pytest.raises(AssumptionError, match=f"{words}.*use method='auto'"):
        predict(network, start, TIMES, "representatives")
    assert predict(network, start, [0.0]).method == "flow"
