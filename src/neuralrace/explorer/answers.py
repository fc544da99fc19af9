"""The answers of the server: `predict` and `train`, called for a scene and written as plain values."""

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import numpy as np
from latex2mathml.converter import convert

from neuralrace.analysis import Line, agreement
from neuralrace.arrays import float64
from neuralrace.explorer.problem import frames_of, initializer_of, make_setup, times_of
from neuralrace.explorer.scene import Scene, name_of, numbers
from neuralrace.explorer.session import Session, Token
from neuralrace.explorer.snapshots import take_snapshots
from neuralrace.theory import Forecast, predict
from neuralrace.theory.certificate import Assumption, Certificate
from neuralrace.theory.flow.linear import flow_regime
from neuralrace.theory.predict import LADDER
from neuralrace.training import train

DRAWS = 2  # of the forecast: enough for a band, quick enough for a slider
RTOL = 1e-4  # of linear nodes, for the same reason: far below the width of a line
LARGEST = 1e50  # of a weight that is drawn; beyond it a network has diverged
MOST_EQUATIONS, LONGEST_EQUATION = 8, 4000
ADVICE: Mapping[str, str] = json.loads((files("neuralrace.explorer") / "advice.json").read_text(encoding="utf-8"))

Send = Callable[[str, dict[str, Any]], None]


def forecast_of(session: Session, scene: Scene) -> Forecast:
    """Return the forecast, which depends on everything but the number of networks."""
    setup = make_setup(session, scene)
    times = scene["rate"] * times_of(scene, setup)

    def make() -> Forecast:
        # the step size corrects the forecast of networks with activations; of others `snapshots_data` judges it
        own: dict[str, Any] = {"learning_rate": scene["rate"]} if setup.problem.activations else {"rtol": RTOL}
        return predict(
            setup.problem, initializer_of(scene), times, key=scene["key"], draws=DRAWS, progress=False, **own
        )

    return session.forecasts.get((name_of(scene | {"seeds": 1}), len(times)), make)


def forecast_data(session: Session, scene: Scene) -> dict[str, Any]:
    """Return the curve, the certificate, and the problem that they belong to."""
    forecast, setup = forecast_of(session, scene), make_setup(session, scene)
    return {
        "scene": scene,
        "problem": setup.as_data(),
        "time": numbers(forecast.time),
        "loss": numbers(forecast.loss),
        "low": numbers(forecast.losses.min(axis=0)),
        "high": numbers(forecast.losses.max(axis=0)),
        "certificate": certificate_data(forecast.certificate, not setup.problem.activations),
    }


def certificate_data(certificate: Certificate, linear: bool) -> dict[str, Any]:
    """Return every assumption of the method that was taken, and the methods from strongest to most general."""
    declined = {entry.method: entry.failed for entry in certificate.declined}
    rungs: list[dict[str, Any]] = []
    for name in dict.fromkeys(method.name for method in LADDER if method.linear == linear):
        taken = name == certificate.method
        state = "taken" if taken else "declined" if name in declined else "not needed"
        rungs.append({"name": name, "state": state, "failed": _chip(declined[name]) if state == "declined" else None})
    chips = [_chip(assumption) for assumption in certificate.assumptions]
    return {"method": certificate.method, "chips": chips, "ladder": rungs, "notes": list(certificate.notes)}


def _chip(assumption: Assumption) -> dict[str, Any]:
    return {
        "name": assumption.name,
        "holds": bool(assumption.holds),
        "needed": bool(assumption.needed),
        "residual": numbers(assumption.residual, 3),
        "tolerance": numbers(assumption.tolerance, 3),
        "detail": assumption.detail,
        "advice": "" if assumption.holds else ADVICE.get(assumption.name, ""),
    }


def snapshots_data(session: Session, scene: Scene) -> dict[str, Any]:
    """Return snapshots of the forecast network, the equations, and the step size against the curvature."""

    @float64
    def make() -> dict[str, Any]:
        setup, forecast = make_setup(session, scene), forecast_of(session, scene)
        frames = scene["rate"] * frames_of(scene, setup)
        regime = []
        if not setup.problem.activations:
            draw = forecast.modes.draws[0]
            regime = [_chip(flow_regime(setup.problem.statistics(), scene["rate"], forecast.time, draw, needed=True))]
        problem = setup.problem if forecast.simulated is None else forecast.simulated
        found = take_snapshots(setup, problem, frames, forecast.weights_at(frames))
        return found | {"equations": equations_data(forecast, not setup.problem.activations), "regime": regime}

    return session.snapshots.get(name_of(scene), make)


def equations_data(forecast: Forecast, linear: bool) -> dict[str, Any]:
    """Return the reduced system in MathML, or the equation that was integrated; where: what the variables are."""
    gated = (
        r"\sum_{p \ni e} W_{t(p,e)}^T \left[ \Sigma_{yx}(p) - \sum_j W_j \Sigma_x(j,p) \right] W_{s(p,e)}^T"
        if linear
        else r"-\frac{\partial L}{\partial W_e}"
    )
    lines, where, invariants = [rf"\frac{{d W_e}}{{d t}} = {gated}"], list[str](), list[str]()
    if forecast.reduction is not None:
        written = forecast.reduction.equations()
        lines, invariants = (
            [" = ".join(pair) for pair in pairs] for pairs in (written.latex_lines, written.latex_conserved)
        )
        where = list(written.where[:MOST_EQUATIONS])
    shown = [line for line in lines if len(line) < LONGEST_EQUATION][:MOST_EQUATIONS]
    equations = [convert(line, display="block") for line in [*shown, *invariants[:MOST_EQUATIONS]]]
    return {"equations": equations, "where": where, "more": len(lines) - len(shown)}


def training_events(session: Session, scene: Scene, token: Token, send: Send) -> None:
    """Train, sending new losses as they come; at the end the comparison and snapshots of the first network."""
    token.check()
    setup = make_setup(session, scene)
    steps, sent, losses = times_of(scene, setup), 0, np.zeros((scene["seeds"], 0))
    known = session.trainings.find(name_of(scene))
    if known is not None:
        send("progress", known["curve"])
        send("done", known["done"])
        return

    def progress(fresh: np.ndarray, first: int) -> dict[str, Any]:
        here = steps[first : first + fresh.shape[1]]
        bands = {"mean": fresh.mean(axis=0), "low": fresh.min(axis=0), "high": fresh.max(axis=0)}
        curves = {"time": scene["rate"] * here, "loss": fresh, **bands}
        return {"step": int(here[-1]), **{name: numbers(values) for name, values in curves.items()}}

    def look(step: int, seen: np.ndarray) -> bool:
        nonlocal sent, losses
        losses = np.where(np.isfinite(seen), seen, np.nan)
        if losses.shape[1] > sent:
            send("progress", progress(losses[:, sent:], sent))
        sent = seen.shape[1]
        return token.is_set()

    frames = frames_of(scene, setup)
    run = train(
        setup.problem,
        initializer_of(scene),
        scene["rate"],
        scene["steps"],
        seeds=scene["seeds"],
        key=scene["key"],
        record=("loss", "weights"),
        at=frames.tolist(),
        callback=look,
        progress=False,
    )
    token.check()
    forecast, mean = forecast_of(session, scene), losses.mean(axis=0)
    time, theory = forecast.time[: len(mean)], forecast.loss[: len(mean)]
    history = [run.weights(0, record) for record in range(len(run.time))]
    distances = vars(agreement(Line(time, theory), Line(time, mean))) if np.isfinite(mean).all() else None
    finite = [all(np.all(np.abs(matrix) < LARGEST) for matrix in weights.values()) for weights in history]
    count = len(history) if all(finite) else finite.index(False)
    done = {
        "status": [str(word) for word in run.status],
        "gap": numbers(mean - theory),
        "low": numbers(losses.min(axis=0) - mean),
        "high": numbers(losses.max(axis=0) - mean),
        "agreement": distances and {name: numbers(value, 3) for name, value in distances.items()},
        "snapshots": take_snapshots(setup, setup.problem, scene["rate"] * frames[:count], history[:count]),
    }
    session.trainings.get(name_of(scene), lambda: {"curve": progress(losses, 0), "done": done})
    send("done", done)
