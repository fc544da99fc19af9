"""What the server answers: the mathematics is `predict` and `train`, here it is called and written as plain values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from neuralrace.analysis import Line, agreement
from neuralrace.analysis.agreement import Agreement
from neuralrace.arrays import float64
from neuralrace.errors import RangeError
from neuralrace.explorer.bounds import MAP_CELLS, MAP_VALUES, SCENE, TASKS, Number
from neuralrace.explorer.certificate import certificate_data, chip
from neuralrace.explorer.desk import Desk, Token
from neuralrace.explorer.machine import read_machine
from neuralrace.explorer.mathml import equations_data
from neuralrace.explorer.rounding import numbers
from neuralrace.explorer.scene import Scene
from neuralrace.explorer.stage import Stage, frames_of, law_of, make_stage, schedule_of
from neuralrace.theory import Forecast, predict
from neuralrace.theory.flow.linear import flow_regime
from neuralrace.training import train
from neuralrace.trajectory import Trajectory

DRAWS = 2  # of the forecast: enough for a band, quick enough for a slider
RTOL = 1e-4  # of linear nodes, for the same reason: far below the width of a line
LARGEST = 1e50  # of a weight that is drawn; beyond it a network has diverged
PROBLEM = ("task", "settings", "gating", "flips", "network", "depth", "width")  # what a problem depends on

Send = Callable[[str, dict[str, Any]], None]


def stage_of(desk: Desk, scene: Scene) -> Stage:
    """The stage; scenes that differ in numbers of the training share it, and with it all statistics."""
    name = tuple(getattr(scene, field) for field in PROBLEM)
    return desk.stages.get(name, lambda: make_stage(scene, desk.tables))


def forecast_of(desk: Desk, scene: Scene) -> Forecast:
    """The forecast, which depends on everything but the number of networks."""
    stage = stage_of(desk, scene)
    times = scene.rate * schedule_of(scene, stage).looks

    def make() -> Forecast:
        # the step size corrects the forecast of networks with activations; of others `machine_data` judges it
        own: dict[str, Any] = {"learning_rate": scene.rate} if stage.problem.activations else {"rtol": RTOL}
        return predict(stage.problem, law_of(scene), times, key=scene.key, draws=DRAWS, **own)

    return desk.forecasts.get((replace(scene, seeds=1).name, len(times)), make)


def forecast_data(desk: Desk, scene: Scene) -> dict[str, Any]:
    """The curve at once, the certificate, and the stage that it belongs to."""
    forecast, stage = forecast_of(desk, scene), stage_of(desk, scene)
    return {
        "scene": scene.as_data(),
        "stage": stage.as_data(),
        "time": numbers(forecast.time),
        "loss": numbers(forecast.loss),
        "low": numbers(forecast.losses.min(axis=0)),
        "high": numbers(forecast.losses.max(axis=0)),
        "certificate": certificate_data(forecast.certificate, not stage.problem.activations),
    }


def machine_data(desk: Desk, scene: Scene) -> dict[str, Any]:
    """The forecast network over time, the equations, and the step size against the curvature."""

    def make() -> dict[str, Any]:
        stage, forecast = stage_of(desk, scene), forecast_of(desk, scene)
        frames = scene.rate * frames_of(scene, stage)
        problem = stage.problem if forecast.simulated is None else forecast.simulated
        found = read_machine(stage, problem, frames, forecast.weights_at(frames))
        linear = not stage.problem.activations
        regime = [_regime(stage, forecast, scene.rate)] if linear else []
        return found | {"equations": equations_data(forecast.reduction, linear), "regime": regime}

    return desk.machines.get(scene.name, make)


@float64
def _regime(stage: Stage, forecast: Forecast, rate: float) -> dict[str, Any]:
    return chip(flow_regime(stage.problem.statistics(), rate, forecast.time, forecast.modes.draws[0]))


def training_events(desk: Desk, scene: Scene, token: Token, send: Send) -> None:
    """Train, and send what is new as it arrives; at the end the comparison and the first network over time."""
    token.check()
    stage = stage_of(desk, scene)
    looks = schedule_of(scene, stage).looks
    known = desk.trainings.find(scene.name)
    if known is not None:
        send("progress", known["curve"])
        send("done", known["done"])
        return
    sent, losses = 0, np.zeros((scene.seeds, 0))

    def look(step: int, seen: np.ndarray) -> bool:
        nonlocal sent, losses
        losses = np.where(np.isfinite(seen), seen, np.nan)
        fresh = losses[:, sent:]
        if fresh.shape[1]:
            send("progress", _progress(looks, fresh, sent, scene.rate))
        sent = seen.shape[1]
        return token.is_set()

    at = frames_of(scene, stage).tolist()
    run = train(
        *(stage.problem, law_of(scene), scene.rate, scene.steps),
        **{"seeds": scene.seeds, "key": scene.key, "record": ("loss", "weights"), "at": at},
        callback=look,
        progress=False,
    )
    token.check()
    done = _done(scene, stage, forecast_of(desk, scene), run, losses)
    desk.trainings.keep(scene.name, {"curve": _progress(looks, losses, 0, scene.rate), "done": done})
    send("done", done)


def _progress(looks: np.ndarray, fresh: np.ndarray, first: int, rate: float) -> dict[str, Any]:
    steps = looks[first : first + fresh.shape[1]]
    return {
        "time": numbers(rate * steps),
        "step": int(steps[-1]),
        "loss": numbers(fresh),
        "mean": numbers(fresh.mean(axis=0)),
        "low": numbers(fresh.min(axis=0)),
        "high": numbers(fresh.max(axis=0)),
    }


def _done(scene: Scene, stage: Stage, forecast: Forecast, run: Trajectory, losses: np.ndarray) -> dict[str, Any]:
    """The comparison at every look, and what the first network did."""
    seen = losses.shape[1]
    theory, mean = forecast.loss[:seen], losses.mean(axis=0)
    frames = [run.weights(0, record) for record in range(len(run.time))]
    finite = [all(np.all(np.abs(matrix) < LARGEST) for matrix in weights.values()) for weights in frames]
    upto = len(frames) if all(finite) else int(np.argmin(finite))
    times = scene.rate * frames_of(scene, stage)[:upto]
    whole = bool(np.isfinite(mean).all())
    return {
        "status": [str(word) for word in run.status],
        "gap": numbers(mean - theory),
        "low": numbers(losses.min(axis=0) - mean),
        "high": numbers(losses.max(axis=0) - mean),
        "agreement": _agreed(agreement(Line(forecast.time[:seen], theory), Line(forecast.time[:seen], mean)))
        if whole
        else None,
        "machine": read_machine(stage, stage.problem, times, frames[:upto]),
    }


def _agreed(found: Agreement) -> dict[str, Any]:
    return {name: numbers(value, 3) for name, value in vars(found).items()}


def guess_data(desk: Desk, scene: Scene, given: Any) -> dict[str, Any]:
    """How far a drawn curve is from the forecast."""
    forecast = forecast_of(desk, scene)
    try:
        points = np.array(given, dtype=float)
    except (TypeError, ValueError):
        points = np.zeros(0)
    if points.ndim != 2 or points.shape[1:] != (2,) or len(points) > 1000 or not np.isfinite(points).all():
        raise RangeError("a guess must be at most 1000 pairs of a time and a loss, all finite numbers")
    points = points[np.argsort(points[:, 0])]
    drawn = Line(forecast.time, np.interp(forecast.time, points[:, 0], points[:, 1]))
    return _agreed(agreement(drawn, Line(forecast.time, forecast.loss)))


def map_events(desk: Desk, scene: Scene, plan: Any, token: Token, send: Send) -> None:
    """Forecast every cell of a map over one or two sliders, and send each as it comes."""
    across, down, measure = _checked_plan(scene, plan)
    for j, low in enumerate(down[1]):
        for i, value in enumerate(across[1]):
            token.check()
            cell = changed(scene, {across[0]: value} | ({down[0]: low} if down[0] else {}))
            found = _measured(desk, cell, measure)
            send("cell", {"across": i, "down": j, "value": numbers(found), "scene": cell.as_data()})
    send("done", {})


def changed(scene: Scene, values: Mapping[str, Any]) -> Scene:
    """A scene with other values of some sliders, which may be settings of the task."""
    data = scene.as_data()
    for name, value in values.items():
        (data if name in SCENE else data["settings"])[name] = value
    return Scene.read(data)


def _checked_plan(scene: Scene, plan: Any) -> tuple[tuple[str, Sequence[Any]], tuple[str, Sequence[Any]], str]:
    sliders = {**SCENE, **TASKS[scene.task]}
    axes: list[tuple[str, Sequence[Any]]] = []
    for direction in ("across", "down"):
        axis = plan.get(direction) if isinstance(plan, Mapping) else None
        if axis is None and direction == "down":
            axes.append(("", [None]))
            continue
        name, values = (axis.get("name"), axis.get("values")) if isinstance(axis, Mapping) else (None, None)
        bound = sliders.get(name) if isinstance(name, str) else None
        if not isinstance(bound, Number) or bound.shape or not isinstance(values, list) or not values:
            open_to = [key for key, found in sliders.items() if isinstance(found, Number) and not found.shape]
            raise RangeError(f"a map goes over values of {', '.join(open_to)}; {str(axis)[:60]!r} came")
        axes.append((str(name), values))
    if len(axes[0][1]) * len(axes[1][1]) > MAP_CELLS:
        raise RangeError(f"a map may have {MAP_CELLS} cells; {len(axes[0][1])} times {len(axes[1][1])} came")
    measure = plan.get("measure", MAP_VALUES[0])
    if measure not in MAP_VALUES:
        raise RangeError(f"a map shows {', '.join(MAP_VALUES)}; {str(measure)[:40]!r} came")
    return axes[0], axes[1], measure


def _measured(desk: Desk, scene: Scene, measure: str) -> float:
    forecast = forecast_of(desk, scene)
    if measure == "time to half":
        return forecast.time_to(0.5 * float(forecast.loss[0]))
    if measure == "last loss":
        return float(forecast.loss[-1])
    stage = stage_of(desk, scene)
    ends = forecast.time[[0, -1]]
    problem = stage.problem if forecast.simulated is None else forecast.simulated
    share = read_machine(stage, problem, ends, forecast.weights_at(ends))["lanes"]["share"]
    return float("nan") if share is None else float(share)
