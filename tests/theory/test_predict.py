"""The front door: bad input, the certificate, and what can be read off a forecast."""

import itertools

import numpy as np
import pytest
from theory_problems import chain, flatten, gated, small_weights, tangled, unflatten

from neuralrace import initial, tasks
from neuralrace.architecture import Architecture
from neuralrace.errors import (
    AssumptionError,
    PathLimitError,
    RangeError,
    TaskError,
    UnknownNameError,
    WeightError,
)
from neuralrace.precision import float64
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.theory import METHODS, predict
from neuralrace.theory.flow.matrix_flow import FlowFactory
from neuralrace.theory.flow.sharpness import sharpness
from neuralrace.trajectory import Trajectory

TIMES = np.linspace(0.0, 10.0, 41)
START = initial.decoupled(0.1)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.0, 2.0, 1.0], "must increase"),
        ([-1.0, 0.0], "not be negative"),
        ([0.0, np.nan], "finite"),
        ([], "at least one"),
        ([[0.0]], "one axis"),
        ("soon", "numbers"),
    ],
)
def test_times_that_are_no_times(times, message):
    with pytest.raises(RangeError, match=message):
        predict(chain(), START, times)


def test_other_bad_input_says_what_to_do():
    problem = chain()
    with pytest.raises(UnknownNameError, match="reduction"):
        predict(problem, START, TIMES, "reducton")
    with pytest.raises(UnknownNameError, match="descent"):
        predict(problem, START, TIMES, dynamics="decent")
    with pytest.raises(RangeError, match="learning_rate"):
        predict(problem, START, TIMES, dynamics="descent")
    with pytest.raises(RangeError, match="whole number of steps"):
        predict(problem, START, TIMES, dynamics="descent", learning_rate=0.3)
    with pytest.raises(RangeError, match="rtol"):
        predict(problem, START, TIMES, rtol=0.0)
    with pytest.raises(WeightError, match="initialiser"):
        predict(problem, 0.1, TIMES)
    with pytest.raises(WeightError, match="missing"):
        predict(problem, {("x", "h0"): np.zeros((4, 3))}, TIMES)
    with pytest.raises(AssumptionError, match="gradient flow"):
        predict(problem, START, TIMES, "closed_form", dynamics="descent", learning_rate=0.25)


def test_too_many_paths_are_refused_and_the_flow_is_offered():
    layers = [[f"n{level}_{i}" for i in range(10)] for level in range(6)]
    edges = [(a, b) for one, two in itertools.pairwise(layers) for a in one for b in two]
    nodes = dict.fromkeys([name for layer in layers for name in layer], 1)
    ends = [("x", name) for name in layers[0]] + [(name, "y") for name in layers[-1]]
    architecture = Architecture({"x": 1, **nodes, "y": 1}, ends + edges)
    problem = Problem(architecture, Task({"x": [[1.0]]}, {"y": [[1.0]]}))
    weights = {edge: np.full((1, 1), 0.1) for edge in architecture.edges}
    with pytest.raises(PathLimitError, match="flow"):
        predict(problem, weights, [0.0], "reduction")


def test_nothing_to_learn_and_nothing_to_see():
    problem = chain()
    weights = small_weights(problem, scale=0.1)
    silent = Problem(problem.architecture, Task(problem.task.inputs, {"y": np.zeros((3, 3))}))
    forecast = predict(silent, weights, TIMES)
    assert forecast.method == "flow"  # nothing grows, so nothing aligns
    assert forecast.loss[0] == pytest.approx(silent.loss(weights), rel=1e-12)
    assert forecast.loss[-1] < forecast.loss[0]
    dark = Problem(problem.architecture, Task({"x": np.zeros((3, 3))}, problem.task.targets))
    forecast = predict(dark, weights, TIMES)
    np.testing.assert_allclose(forecast.loss, dark.loss(weights), rtol=1e-12)
    assert "at least one path must be open" in str(forecast.certificate)


def test_auto_takes_the_strongest_and_says_why():
    assert METHODS == ("closed_form", "reduction", "aligned", "flow")
    chosen = predict(gated(0, 2), START, TIMES)
    assert chosen.method == "reduction"
    assert chosen.certificate.declined[0][0] == "closed_form"
    assert "coupled" in chosen.certificate.declined[0][1]
    assert chosen.certificate.holds
    assert "alignment of initial weights" in chosen.certificate
    with pytest.raises(KeyError, match="there are"):
        chosen.certificate["luck"]


@float64
def test_sharpness_is_the_largest_eigenvalue_of_the_hessian():
    problem = tangled()
    weights = small_weights(problem, scale=0.6)
    point, width = flatten(problem, weights), 1e-5
    sides = [
        [flatten(problem, problem.gradient(unflatten(problem, point + sign * width * unit))) for sign in (1, -1)]
        for unit in np.eye(len(point))
    ]
    hessian = np.array([(up - down) / (2 * width) for up, down in sides])
    found = sharpness(FlowFactory(problem.statistics()), weights)
    assert found == pytest.approx(float(np.linalg.eigvalsh(hessian + hessian.T)[-1] / 2), rel=1e-3)


def test_step_size_is_compared_with_the_sharpness():
    problem = chain()
    fine = predict(problem, START, TIMES, learning_rate=0.01).certificate["flow regime"]
    # at the end the strongest mode has b^2 = 3 on both layers and unit variance: sharpness 2 * 3
    assert fine.residual == pytest.approx(0.06, rel=0.02)
    assert fine.holds
    assert not predict(problem, START, TIMES, learning_rate=0.5).certificate["flow regime"].holds


def test_observables():
    named = tasks.routing(4, 2)
    problem = named.gatings["shared"](6)
    times = np.linspace(0, 60, 61)
    forecast = predict(problem, START, times)
    whole = named.evaluation("shared", 6) if hasattr(named, "evaluation") else problem
    outputs = forecast.outputs(whole)
    examples = whole.task
    # the shared network generalises to routes that were never trained
    for node, wanted in examples.targets.items():
        np.testing.assert_allclose(outputs[node], wanted, atol=1e-3)
    similar = forecast.similarity("h1")
    np.testing.assert_allclose(similar, similar.T, atol=1e-9)
    assert similar.shape == (len(problem.task), len(problem.task))
    parts = forecast.loss_by(named.groups["item"], times=times[::20])
    np.testing.assert_allclose(np.mean(list(parts.values()), axis=0), forecast.loss[::20], rtol=1e-6, atol=1e-9)
    half = forecast.time_to(0.5 * forecast.loss[0])
    assert np.interp(half, times, forecast.loss) == pytest.approx(0.5 * forecast.loss[0], rel=1e-6)
    assert forecast.time_to(-1.0) == np.inf
    ranked = forecast.order()
    assert [entry.mode for entry in ranked[: len(forecast.modes.paths)]] == [0] * len(forecast.modes.paths)
    with pytest.raises(UnknownNameError, match="no node"):
        forecast.similarity("h9")
    with pytest.raises(RangeError, match="between 0"):
        forecast.weights(100.0)
    with pytest.raises(TaskError, match="architecture"):
        forecast.outputs(chain())


def test_a_forecast_is_recorded_like_training(tmp_path):
    forecast = predict(chain(), initial.gaussian(1e-3), TIMES, draws=3)
    run = forecast.to_trajectory()
    assert run.loss.shape == (3, len(TIMES))
    again = Trajectory.load(run.save(tmp_path / "forecast.nc"))
    np.testing.assert_array_equal(again.loss, forecast.losses)
    assert forecast.data["loss"].dims == ("seed", "time")
