"""The flow of networks with activations, beside a network written out by hand and scipy's integrator."""

import itertools

import jax
import numpy as np
import pytest

import neuralrace as nr
import oracle
from neuralrace import initial
from neuralrace.architecture import Architecture
from neuralrace.arrays import float64
from neuralrace.errors import AssumptionError, ProblemError
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.theory import NetworkFlow, predict
from neuralrace.theory.flow.system import smoothed_relu
from theory_problems import descent, flatten, scipy_flow

RANDOM = np.random.default_rng(0)
INPUTS, TARGETS = RANDOM.normal(size=(6, 3)), RANDOM.normal(size=(6, 2))
TIMES = np.linspace(0.0, 6.0, 25)
STEP = 0.05  # with it the wide network below is one program


def network(slope=0.0, hidden=(5,), biases=False):
    names = [f"h{i + 1}" for i in range(len(hidden))]
    nodes = {"x": 3, **dict(zip(names, hidden, strict=True)), "y": 2}
    chain = Architecture(nodes, list(itertools.pairwise(nodes)))
    activations = dict.fromkeys(names, nr.leaky_relu(slope))
    return Problem(chain, Task({"x": INPUTS}, {"y": TARGETS}), activations=activations, biases=biases)


def test_the_flow_is_that_of_the_network_written_out():
    problem = network(slope=0.1)
    forecast = predict(problem, initial.gaussian(0.4), TIMES, rtol=1e-5, key=3, draws=2)
    assert forecast.method == "flow"
    for draw in (0, 1):  # both are followed in one program
        exact = scipy_flow(problem, forecast.weights(0.0, draw), TIMES, "RK45", rtol=1e-6, atol=1e-8)
        losses = [oracle.loss(problem, weights) for weights in exact]
        # the width of a gate is 5e-5 of what a neuron receives, and that is what the flow differs by
        np.testing.assert_allclose(forecast.losses[draw], losses, rtol=1e-3)
    for found, wanted in ((forecast.weights(draw=1), exact[-1]), (forecast.weights_at(TIMES, 1)[7], exact[7])):
        np.testing.assert_allclose(flatten(problem, found), flatten(problem, wanted), atol=1e-3)


def test_descent_is_descent():
    problem = network()
    weights = initial.gaussian(0.4)(problem, 1)
    losses, _ = descent(problem, weights, 0.1, 30)
    forecast = predict(problem, weights, 0.1 * np.arange(31), learning_rate=0.1, dynamics="descent")
    np.testing.assert_allclose(forecast.loss, losses, rtol=1e-10)  # the same steps, up to rounding
    assert "steps of gradient descent" in str(forecast.certificate)


def test_the_correction_keeps_the_gates_of_neurons_that_a_step_turns_around():
    """Weights that enter are small beside those that leave: half a step uphill a neuron would be its opposite."""
    problem = network(hidden=(40,))
    weights = initial.gaussian({("x", "h1"): 1e-3, ("h1", "y"): 0.4})(problem, 1)
    times = STEP * np.arange(0, 121, 4)
    descent = predict(problem, weights, times, learning_rate=STEP, dynamics="descent")
    corrected = predict(problem, weights, times, learning_rate=STEP, dynamics="flow")
    # .03 apart, as is the flow itself; .36 with the gates of the weights uphill
    assert nr.agreement(corrected, descent).normalized_l1 < 0.1


def test_a_first_step_that_is_longer_than_the_weights_is_told():
    wide, times = network(hidden=(40,)), STEP * np.arange(31)
    random = np.random.default_rng(0)
    into, out = random.normal(size=(40, 3)), random.normal(size=(2, 40))
    for small, large, holds in ((1e-3, 0.5, False), (0.1, 0.1, True)):
        weights = {("x", "h1"): small * into, ("h1", "y"): large * out}
        slope = oracle.gradient(wide, weights)["x", "h1"]
        row = predict(wide, weights, times, learning_rate=STEP, dynamics="flow").certificate["first step"]
        asked = STEP * np.linalg.norm(slope) / np.linalg.norm(weights["x", "h1"])
        assert row.residual == pytest.approx(asked, rel=1e-12)  # the same sums in another order
        assert row.holds == holds
    descent = predict(wide, weights, times, learning_rate=STEP)
    assert "first step" not in descent.certificate
    assert "step by step" in descent.certificate


def test_the_tail_of_the_loss_is_right_at_the_usual_tolerance():
    problem = network(hidden=(40,))
    weights = initial.gaussian(0.1)(problem, 0)
    times = STEP * np.arange(0, 6001, 200)
    forecast = predict(problem, weights, times, learning_rate=STEP, dynamics="flow")
    descent = predict(problem, weights, times, learning_rate=STEP, dynamics="descent")
    assert descent.loss[-1] < 1e-6
    # rates are right to second order in the step, 1e-3, over the eight decades that the loss falls
    assert np.abs(np.log10(forecast.loss / descent.loss)).max() < 0.1


def test_any_depth_biases_and_gates_of_neurons():
    deep = network(hidden=(6, 4), biases=True)
    start = initial.gaussian(0.3)
    forecast = predict(deep, start, TIMES, draws=3, key=5)
    assert forecast.method == "flow"
    assert [entry.failed.name for entry in forecast.certificate.declined] == ["one rectified hidden layer"]
    assert forecast.losses.shape == (3, len(TIMES))
    assert forecast.loss[-1] < forecast.loss[0]
    for draw in range(3):
        wrong = forecast.outputs(time=0.0, draw=draw)["y"] - TARGETS
        assert forecast.losses[draw, 0] == pytest.approx(0.5 * (wrong**2).sum() / 6, rel=1e-3)  # of the gates' width
    masks = (RANDOM.random((6, 5)) > 0.5).astype(float)
    chain = network().architecture
    gated = Problem(chain, network().task, Gates(nodes={"h1": masks}))
    weights = initial.gaussian(0.3)(gated, 0)
    assert predict(gated, weights, [0.0]).loss[0] == pytest.approx(gated.loss(weights), rel=1e-9)


def test_what_only_linear_networks_have_is_refused():
    problem = network()
    weights = initial.gaussian(0.3)(problem, 0)
    forecast = predict(problem, weights, [0.0])
    with pytest.raises(ProblemError, match="require linear nodes"):
        forecast.order()
    with pytest.raises(ProblemError, match="require linear nodes"):
        forecast.modes.path(problem.architecture.paths()[0])
    assert forecast.reduction is None
    assert forecast.modes.edge(("x", "h1")).shape == (3, 1)  # singular values, times
    with pytest.raises(AssumptionError, match=r"linear nodes required; 'h1' has .*: use method='auto'$"):
        predict(problem, weights, TIMES, "reduction")
    with pytest.raises(AssumptionError, match=r"examples .* required; only statistics were given"):
        predict(Problem(problem.architecture, problem.task).statistics(), weights, TIMES, NetworkFlow())


def test_the_correction_makes_the_gap_to_descent_second_order():
    problem = network(slope=1.0)  # without thresholds both orders are plain
    weights = initial.gaussian(0.4)(problem, 1)
    times = np.linspace(0.0, 6.0, 76)  # every second step, and every fourth
    linear = Problem(problem.architecture, problem.task)
    plain = predict(linear, weights, times, NetworkFlow(), rtol=1e-7).loss  # the same network, and one program less
    gaps = {}
    for rate in (0.04, 0.02):
        descent = predict(problem, weights, times, learning_rate=rate, dynamics="descent").loss
        corrected = predict(problem, weights, times, learning_rate=rate, rtol=1e-7, dynamics="flow").loss
        gaps[rate] = np.abs(plain - descent).max(), np.abs(corrected - descent).max()
    assert 1.7 < gaps[0.04][0] / gaps[0.02][0] < 2.5
    assert 3.2 < gaps[0.04][1] / gaps[0.02][1] < 5.5


@float64
@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_a_smoothed_gate_is_that_of_the_rectifier_beyond_its_width_and_rises_between(slope):
    """Neurons of any size are smoothed alike."""
    sizes, line = np.array([1e-9, 1.0, 1e6]), np.linspace(-1, 1, 201)[:, None]
    reach = 0.1 * np.sqrt((line**2).mean())
    activity, back = jax.vjp(jax.jit(lambda rows: smoothed_relu(slope, 0.1, np.ones(201), rows)), line * sizes)
    outside, expected = (np.abs(line) > reach)[:, 0], np.where(line > 0, line, slope * line) * np.ones(3)
    np.testing.assert_allclose((activity / sizes)[outside], expected[outside], rtol=1e-12)
    between = slope + (1 - slope) * np.clip((line + reach) / (2 * reach), 0, 1) * np.ones(3)
    np.testing.assert_allclose(back(np.ones_like(activity))[0], between, atol=1e-12)
