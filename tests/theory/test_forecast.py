"""What can be read off a forecast."""

import html

import numpy as np
import pytest

from neuralrace import agreement, initial, tasks
from neuralrace.errors import RangeError, TaskError, UnknownNameError
from neuralrace.theory import Aligned, predict
from neuralrace.trajectory import Trajectory
from theory_problems import chain, without_ties

TIMES = np.linspace(0.0, 10.0, 41)
START = initial.decoupled(0.1)


def test_observables():
    named = tasks.routing(4, 2)
    problem = named.gatings["shared"](6)
    times = np.linspace(0, 60, 61)
    forecast = predict(problem, START, times)
    whole = tasks.routing(4, 2, routes="all").problem("shared", 6)
    outputs = forecast.outputs(whole)
    examples = whole.task
    # the shared network generalizes to routes that were never trained
    for node, wanted in examples.targets.items():
        np.testing.assert_allclose(outputs[node], wanted, atol=1e-3)
    half = forecast.time_to(0.5 * forecast.loss[0])
    assert np.interp(half, times, forecast.loss) == pytest.approx(0.5 * forecast.loss[0], rel=1e-6)
    assert forecast.time_to(-1.0) == np.inf
    ranked = forecast.order()
    assert [entry.mode for entry in ranked[: len(forecast.modes.paths)]] == [0] * len(forecast.modes.paths)
    for time in (100.0, float("nan")):
        with pytest.raises(RangeError, match="between 0"):
            forecast.weights(time)
    with pytest.raises(TaskError, match="architecture"):
        forecast.outputs(chain())
    with pytest.raises(UnknownNameError, match=r"one of modes\.paths; 'h1' is not one"):
        forecast.modes.path("h1")
    with pytest.raises(RangeError, match=r"level must be a number.*shape \(2,\)"):
        forecast.time_to([0.1, 0.2])


def test_a_forecast_is_a_trajectory_with_a_certificate(tmp_path):
    problem = chain()
    forecast = predict(problem, initial.gaussian(1e-3), TIMES, draws=3, learning_rate=0.25)
    assert isinstance(forecast, Trajectory)
    assert forecast.problem is problem
    assert forecast.losses.shape == (3, len(TIMES))
    assert forecast.loss.shape == (len(TIMES),)
    assert forecast.data["loss"].dims == ("seed", "time")
    assert forecast.data["step"].values.tolist() == list(range(len(TIMES)))
    assert [one.step for one in forecast.order()] == [4 * one.time for one in forecast.order()]
    frame = forecast.to_frame()
    assert frame.columns.tolist()[:4] == ["seed", "time", "step", "loss"]
    np.testing.assert_array_equal(frame["loss"].to_numpy().reshape(3, -1), forecast.losses)
    again = Trajectory.load(forecast.save(tmp_path / "forecast.nc"))
    np.testing.assert_array_equal(again.losses, forecast.losses)
    assert again.settings["method"] == forecast.method
    assert again.settings["certificate"] == str(forecast.certificate)
    weights = forecast.weights()
    assert again.problem.loss(weights) == problem.loss(weights)
    assert again.plot().get_lines()[0].get_color() == "#000000"  # theory, also when read back


@pytest.mark.parametrize("method", ["flow", "aligned", Aligned(force=True)])
def test_all_strengths_at_once_are_those_one_by_one(method):
    problem = without_ties(tasks.contextual(3, "mixed").problem("common + all-but-one, items only", hidden=3))
    forecast = predict(problem, initial.gaussian(1e-4), np.linspace(0, 60, 31), method, draws=2, rtol=1e-4)
    together = forecast.modes.of_paths(forecast.modes.paths)
    for path, strengths in zip(forecast.modes.paths, together, strict=True):
        np.testing.assert_array_equal(strengths, forecast.modes.path(path))
        # the map of the path in its own modes, from the weights of both draws
        output, _, source = np.linalg.svd(problem.statistics().input_output(path), full_matrices=False)
        last = [forecast.weights(draw=draw) for draw in range(2)]
        maps = np.mean([w[path.edges[1]] @ w[path.edges[0]] for w in last], axis=0)
        found = np.diagonal(output.T @ maps @ source.T)[: len(strengths)]
        np.testing.assert_allclose(strengths[:, -1], found, atol=1e-3 * np.abs(found).max())  # rtol of 1e-4 per step
    assert forecast.order()[0].time <= forecast.order()[-1].time


def test_certificates_and_distances_are_tables_in_a_notebook():
    problem = tasks.contextual(3, "mixed").problem("common + all-but-one", hidden=3)
    forecast = predict(problem, initial.gaussian(1e-4), np.linspace(0, 60, 31), draws=2, learning_rate=0.1)
    certificate, shown = forecast.certificate, forecast.certificate._repr_html_()
    texts = [str(certificate).splitlines()[0], *certificate.notes, "holds", "measured only"]
    for row in certificate:
        texts += [row.name, f"{row.residual:.2g}", row.detail]
    assert all(html.escape(text) in shown for text in texts)
    assert shown.count("<tr") == 1 + len(certificate.assumptions)
    assert all(name in agreement(forecast, forecast)._repr_html_() for name in ("normalized_l1", "max_gap", ">0<"))
