"""From a problem to its learning curve: the front door of the theory, and the one loop over its methods."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import jax
import numpy as np

from neuralrace.architecture import check_weights
from neuralrace.arrays import float64, real_array
from neuralrace.axes import Edge
from neuralrace.errors import (
    AssumptionError,
    ProblemError,
    RangeError,
    UnknownNameError,
    WeightError,
    nearest,
    require_count,
    require_kind,
    require_number,
    shortened,
)
from neuralrace.initial import Initializer, as_key, draw
from neuralrace.problem import Problem
from neuralrace.statistics import PathStatistics
from neuralrace.theory.aligned import Aligned
from neuralrace.theory.certificate import Assumption, Certificate, Declined, first_failing
from neuralrace.theory.check import check_outcome
from neuralrace.theory.closed_form import ClosedForm
from neuralrace.theory.flow.linear import flow_regime
from neuralrace.theory.flow.method import ACTIVATED_RTOL, Flow, NetworkFlow
from neuralrace.theory.forecast import Forecast, make_forecast
from neuralrace.theory.method import Ground, Method, Outcome, Request, saddle_notes
from neuralrace.theory.reduction.method import Reduction
from neuralrace.theory.representatives import Representatives

# strongest first, for linear nodes and then for others; methods of one name are one rung, tried in this order
LADDER: tuple[Method[Any], ...] = (
    *(ClosedForm(), Reduction(), Aligned(diagonal=True), Aligned(diagonal=False), Flow()),
    *(Representatives(), NetworkFlow()),
)
METHODS = tuple(dict.fromkeys(method.name for method in LADDER))
DRAWS = 8  # of a law, unless said otherwise
NEURONS = 1400  # with activations: so many in all draws, which are two or more
RTOL = 1e-6  # unless said otherwise; for networks with activations see ACTIVATED_RTOL
THEORY_STREAM = 0x7E0217  # folded into every key, so that no training draws the same weights


@float64
def predict(
    network: Problem | PathStatistics,
    initial: Initializer | Mapping[Edge, Any] | Sequence[Mapping[Edge, Any]],
    times: Sequence[float] | np.ndarray,
    method: str | Method[Any] | Sequence[str | Method[Any]] = "auto",
    key: Any = None,
    *,
    learning_rate: float | None = None,
    dynamics: str = "flow",
    draws: int | None = None,
    rtol: float | None = None,
    max_steps: int = 100_000,
    tolerance: float = 1e-6,
    check: bool | Literal["auto"] = "auto",
) -> Forecast:
    """Forecast the learning curve of a network without training anything.

    initial: weights, a list of these, or a law, drawn from `draws` times (8; with activations 2 to 8, so that they
    have some thousand neurons together). times: increasing, learning_rate * step. method: closed_form, reduction,
    aligned, flow for linear nodes, representatives, flow for networks with activations; auto, the first of these whose
    assumptions hold; or such methods as values with options of their own, `theory.Reduction(lump=False)`, one or
    several to be tried in order. key: of the draws, which are never those of a training, whatever its key.
    learning_rate: the step size that is planned: the certificate then compares it with the sharpness, and with
    activations the flow is corrected for it. dynamics: "flow", or "descent", gradient descent at that step size. rtol:
    relative error per step, of each mode (1e-6), with activations of all weights of a layer and of what is left to
    learn (5e-4, and less where it is checked). tolerance: for assumptions that a method needs exactly. check: measure
    the distance of the forecast from the exact flow of one of its draws, `certificate.checked`; a forecast that is off
    by more than 1 % is declined, and "auto" goes on to the next method. "auto": where that flow is affordable and the
    assumptions do not hold with a factor of 100 to spare; True: always; False: never, and then the certificate rests on
    the assumptions alone.
    """
    require_kind("network", network, (Problem, PathStatistics), ProblemError)
    moments = _checked_times(times)
    rate = None if learning_rate is None else require_number("learning_rate", learning_rate, above=0)
    linear = not isinstance(network, Problem) or not (network.activations or network.gates.neurons)
    count = require_count("draws", draws) if draws is not None else DRAWS if linear else _activated_draws(network)
    usual = RTOL if linear else ACTIVATED_RTOL
    methods = _named(method, linear)
    from_moments = linear and all(rung.linear for rung in methods)  # then no method gets to see an example
    request = Request(
        architecture=network.architecture,
        moments=network.statistics,
        problem=None if from_moments or not isinstance(network, Problem) else network,
        linear=linear,
        initial=_checked_initial(initial, network),
        draw=lambda key: draw(initial, network, key),
        stream=jax.random.fold_in(as_key(0 if key is None else key), THEORY_STREAM),
        draws=count,
        times=moments,
        learning_rate=rate,
        descent=_checked_descent(rate, dynamics, moments),
        rtol=usual if rtol is None else require_number("rtol", rtol, above=0, most=0.1),
        max_steps=require_count("max_steps", max_steps),
        tolerance=require_number("tolerance", tolerance, least=0),
        check=_checked_flag(check),
    )
    asked = method if isinstance(method, str) else ", ".join(map(repr, methods))
    settings = {"dynamics": dynamics, "rtol": request.rtol, "key": str(key), "learning_rate": rate, "asked": asked}
    overflow: Literal["ignore"] | None = None if request.descent is None else "ignore"  # it may diverge, and is told
    with np.errstate(over=overflow, invalid=overflow):
        name, outcome, declined = _climb(request, methods)
        planned = _flow_regime(request, outcome)
    saddle = saddle_notes(request.weights) if linear else ()  # other methods say it themselves
    notes = tuple(dict.fromkeys((*outcome.notes, *_diverged_note(outcome.losses), *saddle)))
    certificate = Certificate(name, (*outcome.assumptions, *planned), declined, notes)
    known = network if isinstance(network, Problem) else None
    return make_forecast(moments, outcome, certificate, settings, network.architecture, known, linear=request.linear)


def _activated_draws(network: Problem | PathStatistics) -> int:
    """Single draws differ the more the fewer neurons they have."""
    nodes = network.architecture.nodes
    neurons = sum(nodes[node] for node in network.architecture.hidden)
    return int(np.clip(np.ceil(NEURONS / max(neurons, 1)), 2, DRAWS))


def _named(method: str | Method[Any] | Sequence[str | Method[Any]], linear: bool) -> tuple[Method[Any], ...]:
    """The methods to try, in order; a name that only networks of the other kind have is refused when it is tried."""
    if isinstance(method, Method):
        return (method,)
    if isinstance(method, tuple | list):
        return tuple(rung for one in method for rung in _named(one, linear))
    if not isinstance(method, str):
        raise UnknownNameError(
            f"a method must be a name or a value such as theory.Flow(), or several; it was {shortened(method)}"
        )
    if method not in ("auto", *METHODS):
        raise UnknownNameError(f"there is no method {method!r}; {nearest(method, ('auto', *METHODS))}")
    named = tuple(rung for rung in LADDER if method in ("auto", rung.name))
    return tuple(rung for rung in named if rung.linear == linear) or named


def _climb(request: Request, methods: tuple[Method[Any], ...]) -> tuple[str, Outcome, tuple[Declined, ...]]:
    """The first method that applies, what it found, and those before it."""
    declined: dict[Declined, None] = {}
    for method in methods:
        outcome = attempt(method, request)
        if isinstance(outcome, Outcome):
            return method.name, outcome, tuple(declined)
        declined[outcome] = None
    last = list(declined)[-1] if declined else None
    reason = "at least one method is required; none came" if last is None else last.failed.reason
    raise AssumptionError(f"{reason}: {_advice(request, methods[-1:])}")


def attempt(method: Method[Ground], request: Request) -> Outcome | Declined:
    """What a method finds, with all that it assumed; or the assumption that fails."""
    if method.linear and not request.linear:
        return Declined(method.name, _curved(request))
    rows, ground = method.setup(request)
    failed = first_failing(rows)
    if failed is not None and (ground is None or not method.force):
        return Declined(method.name, failed, method.way)
    assert ground is not None  # only a failing assumption leaves nothing to solve
    outcome = method.solve(request, ground)
    rows = (*rows, *outcome.assumptions)
    failed, notes = first_failing(outcome.assumptions), outcome.notes
    if request.linear and method.linear and (failed is None or method.force) and not isinstance(method, Flow):
        measured, unchecked = check_outcome(request, outcome, rows)
        rows, failed = (*rows, *measured), failed or first_failing(measured)
        notes = (*notes, unchecked) if unchecked else notes
    if failed is not None and not method.force and not method.last:
        return Declined(method.name, failed, method.way)
    return replace(outcome, assumptions=rows, notes=notes)


def _curved(request: Request) -> Assumption:
    """That nodes are linear, where they are not."""
    activated = {} if request.problem is None else request.problem.activations
    found = ", ".join(f"{node!r} has {activation!r}" for node, activation in activated.items())
    return Assumption("linear nodes", 1.0, 0.0, found or "single neurons have gates of their own")


def _advice(request: Request, refused: Sequence[Method[Any]]) -> str:
    """What always works, and whether the refused method can be forced."""
    _ = request.weights  # where the law has none for this network no method applies, and it says why
    could = [replace(one, force=True) for one in refused if not one.force and (request.linear or not one.linear)]
    forced = [method for method in could if method.setup(request)[1] is not None]
    return "use method='auto'" + "".join(f", or go on with {method!r}" for method in forced)


def _checked_times(times: Any) -> np.ndarray:
    moments = real_array("times", times, RangeError)
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


def _checked_flag(check: Any) -> bool | Literal["auto"]:
    if isinstance(check, bool | np.bool_):
        return bool(check)
    if isinstance(check, str) and check == "auto":
        return "auto"
    raise RangeError(f"check must be True, False or 'auto'; it was {shortened(check)}")


def _checked_descent(rate: float | None, dynamics: str, times: np.ndarray) -> float | None:
    if dynamics not in ("flow", "descent"):
        raise UnknownNameError(f"there is no dynamics {dynamics!r}; {nearest(dynamics, ('flow', 'descent'))}")
    if dynamics == "flow":
        return None
    if rate is None:
        raise RangeError("gradient descent needs its step size: give learning_rate, or use dynamics='flow'")
    off = np.abs(np.rint(times / rate) * rate - times) > 1e-6 * rate
    if off.any():
        raise RangeError(
            f"with dynamics='descent' every time must be a whole number of steps of {rate:g}; "
            f"{times[int(np.argmax(off))]:g} is not: give times = learning_rate * steps"
        )
    return rate


def _checked_initial(
    initial: Initializer | Mapping[Edge, Any] | Sequence[Mapping[Edge, Any]], network: Problem | PathStatistics
) -> Initializer | tuple[dict[Edge, np.ndarray], ...]:
    if callable(initial):
        return initial
    sets = [initial] if isinstance(initial, Mapping) else initial
    if not isinstance(sets, Sequence) or not sets or not all(isinstance(one, Mapping) for one in sets):
        found = shortened(initial)
        raise WeightError(
            f"initial must be weights, a list of these, or an initializer such as initial.gaussian; it was {found}"
        )
    return tuple(check_weights(network.architecture, one) for one in sets)


def _diverged_note(losses: np.ndarray) -> tuple[str, ...]:
    lost = int(np.sum(~np.isfinite(losses).all(axis=1)))
    return (f"{lost} of {len(losses)} draws diverge: their loss, and the mean, is no number",) if lost else ()


def _flow_regime(request: Request, outcome: Outcome) -> tuple[Assumption, ...]:
    """The planned step size against the curvature of the first draw; of linear nodes, others measure it themselves."""
    if request.learning_rate is None or not request.linear:
        return ()
    return (flow_regime(request.statistics, request.learning_rate, request.times, outcome.draws[0]),)
