"""From a problem to its learning curve: the front door of the theory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from neuralrace.axes import Edge
from neuralrace.errors import (
    AssumptionError,
    NeuralRaceError,
    PathLimitError,
    RangeError,
    UnknownNameError,
    WeightError,
    nearest,
    require_count,
    require_number,
)
from neuralrace.initial import Decoupled, as_key
from neuralrace.path_statistics import PathStatistics
from neuralrace.precision import float64
from neuralrace.problem import Problem, check_weights
from neuralrace.theory.aligned.outcome import by_aligned
from neuralrace.theory.certificate import METHODS, Assumption, Certificate
from neuralrace.theory.flow.sharpness import sharpness
from neuralrace.theory.forecast import Forecast, Modes
from neuralrace.theory.methods import by_closed_form, by_flow, by_reduction
from neuralrace.theory.prepared import as_network, prepare
from neuralrace.theory.request import Findings, Outcome, Request
from neuralrace.theory.strength import gaussian_law

RUNGS = dict(zip(METHODS, (by_closed_form, by_reduction, by_aligned, by_flow), strict=True))
SHARPNESS_POINTS = 5


@float64
def predict(
    problem: Problem | PathStatistics,
    initial: Any,
    times: Any,
    method: str = "auto",
    key: Any = 0,
    *,
    learning_rate: float | None = None,
    dynamics: str = "flow",
    draws: int = 8,
    rtol: float = 1e-6,
    atol: float = 0.0,
    max_steps: int = 100_000,
    tolerance: float = 1e-6,
    small: float = 1e-2,
    diagonal: bool | None = None,
    lump: bool = True,
    symmetric: bool = False,
    force: bool = False,
) -> Forecast:
    """Forecast the learning curve of a gated network from the statistics of its problem.

    initial: weights, or an initialiser, of which `draws` samples are taken. times: increasing, learning_rate * step.
    method: closed_form, reduction, aligned, flow, or auto, the first of these whose assumptions hold.
    learning_rate: the step size that is planned: the certificate then compares it with the sharpness. dynamics:
    "flow", or "descent", gradient descent at that step size. rtol: relative error of each mode per step. atol:
    error of a weight that is always allowed (rounding is, in any case). tolerance: for assumptions that a method needs
    exactly. small: for assumptions that hold in the limit of small initial weights. diagonal: whether aligned paths
    keep diagonal strengths (None: where they do). lump: keep one scalar for what evolves alike. symmetric: lump by
    the statistics alone and start each class at its mean. force: go on although an assumption fails, and mark the
    forecast.
    """
    prepared = prepare(problem)
    if method != "auto" and method not in RUNGS:
        raise UnknownNameError(f"there is no method {method!r}; {nearest(method, ('auto', *METHODS))}")
    moments = _checked_times(times)
    rate, steps = _checked_rate(learning_rate, dynamics, moments)
    architecture = prepared.statistics.architecture
    request = Request(
        prepared=prepared,
        weights=_draw(initial, prepared, key, draws),
        times=moments,
        steps=steps,
        learning_rate=rate,
        rtol=require_number("rtol", rtol, above=0, most=0.1),
        atol=require_number("atol", atol, least=0),
        max_steps=require_count("max_steps", max_steps),
        tolerance=require_number("tolerance", tolerance, least=0),
        small=require_number("small", small, least=0),
        diagonal=diagonal,
        lump=lump,
        symmetric=symmetric,
        law=gaussian_law(initial, architecture),
    )
    return _forecast(problem, request, method, force, {"dynamics": dynamics, "rtol": rtol, "key": str(key)})


def _forecast(
    problem: Problem | PathStatistics, request: Request, method: str, force: bool, settings: dict[str, Any]
) -> Forecast:
    """Climb the ladder and put forecast and certificate together."""
    outcome, findings, declined = _climb(request, method, force)
    edges = tuple(request.prepared.statistics.architecture.edges)
    measured = [replace(found, needed=name in findings.needed) for name, found in findings.assumptions.items()]
    certificate = Certificate(
        outcome.method,
        (*measured, *_flow_regime(request, outcome)),
        declined,
        findings.forced,
        tuple(dict.fromkeys((*outcome.notes, *_plain_notes(request)))),
    )
    return Forecast(
        time=request.times,
        losses=outcome.losses,
        method=outcome.method,
        certificate=certificate,
        initial_strength=outcome.initial_strength,
        handover=outcome.handover,
        reduction=outcome.reduction,
        problem=problem if isinstance(problem, Problem) else None,
        modes=Modes(request.times, outcome.paths or (), edges, len(request.weights), outcome.evolution),
        settings=settings | {"learning_rate": request.learning_rate, "asked": method},
    )


def _climb(request: Request, method: str, force: bool) -> tuple[Outcome, Findings, tuple[tuple[str, str], ...]]:
    """Take the method that was asked for, or the strongest that applies."""
    if method != "auto":
        findings = Findings(force)
        return RUNGS[method](request, findings), findings, ()
    declined: list[tuple[str, str]] = []
    findings = Findings(force=False)
    for name in METHODS:
        findings.needed.clear()
        try:
            return RUNGS[name](request, findings), findings, tuple(declined)
        except (AssumptionError, PathLimitError) as error:
            declined.append((name, str(error)))
    raise NeuralRaceError("no method applies")  # the flow always does


def _checked_times(times: Any) -> np.ndarray:
    try:
        moments = np.array(times, dtype=np.float64)
    except (TypeError, ValueError):
        raise RangeError(f"times must be an array of numbers; it was {type(times).__name__}") from None
    if moments.ndim != 1 or not len(moments):
        raise RangeError(f"times must be one axis with at least one number; it has shape {moments.shape}")
    if not np.isfinite(moments).all():
        raise RangeError(f"times must be finite; entry {int(np.argmin(np.isfinite(moments)))} is not")
    if (moments < 0).any():
        raise RangeError(
            f"times must not be negative, learning starts at 0; entry {int(np.argmin(moments))} is {moments.min():g}"
        )
    if (np.diff(moments) < 0).any():
        first = int(np.argmax(np.diff(moments) < 0))
        raise RangeError(
            f"times must increase; entry {first + 1} ({moments[first + 1]:g}) is below the one before it "
            f"({moments[first]:g}): sort them"
        )
    return moments


def _checked_rate(
    learning_rate: float | None, dynamics: str, times: np.ndarray
) -> tuple[float | None, np.ndarray | None]:
    rate = None if learning_rate is None else require_number("learning_rate", learning_rate, above=0)
    if dynamics not in ("flow", "descent"):
        raise UnknownNameError(f"there is no dynamics {dynamics!r}; {nearest(dynamics, ('flow', 'descent'))}")
    if dynamics == "flow":
        return rate, None
    if rate is None:
        raise RangeError("gradient descent needs its step size: give learning_rate, or use dynamics='flow'")
    steps = np.rint(times / rate)
    off = np.abs(steps * rate - times) > 1e-6 * rate
    if off.any():
        raise RangeError(
            f"with dynamics='descent' every time must be a whole number of steps of {rate:g}; "
            f"{times[int(np.argmax(off))]:g} is not: give times = learning_rate * steps"
        )
    return rate, steps.astype(int)


def _draw(initial: Any, prepared: Any, key: Any, draws: int) -> tuple[dict[Edge, np.ndarray], ...]:
    architecture = prepared.statistics.architecture
    if isinstance(initial, Mapping):
        return (check_weights(architecture, initial),)
    if not callable(initial):
        raise WeightError(f"initial must be weights or an initialiser such as initial.gaussian; it was {initial!r}")
    count = 1 if isinstance(initial, Decoupled) else require_count("draws", draws)
    base = as_key(key)
    keys = [base] if count == 1 else [jax.random.fold_in(base, i) for i in range(count)]
    network = as_network(prepared)
    return tuple(check_weights(architecture, initial(network, one)) for one in keys)


def _plain_notes(request: Request) -> tuple[str, ...]:
    """Facts about the initial weights that any method's user should know."""
    if all(not np.any(w) for weights in request.weights for w in weights.values()):
        return ("all initial strengths are zero: a saddle, where the loss stays that of output zero",)
    return ()


def _flow_regime(request: Request, outcome: Outcome) -> tuple[Assumption, ...]:
    """The planned step size against the largest curvature on the way: descent follows the flow below 2 / rate."""
    if request.learning_rate is None:
        return ()
    moments = np.unique(np.linspace(0, len(request.times) - 1, SHARPNESS_POINTS).astype(int))
    times = np.concatenate([[0.0], request.times[moments]])
    values = [sharpness(request.prepared.flow, w) for w in outcome.evolution.weights(times, 0)]
    worst = int(np.argmax(values))
    detail = (
        f"rate * sharpness; the sharpness is {values[0]:.3g} at the start, {values[worst]:.3g} at its largest "
        f"(time {times[worst]:.4g}) and {values[-1]:.3g} at the end"
    )
    return (Assumption("flow regime", request.learning_rate * max(values), 2.0, detail),)
