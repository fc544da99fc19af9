"""Predict the learning curve of a problem, by one loop over the methods of the theory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import jax
import numpy as np

from neuralrace._engine.evaluation import make_evaluation, over_time
from neuralrace._engine.optimizer import check_optimizer
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
from neuralrace.initial import Initializer, absolute, as_key, draw
from neuralrace.objectives import Objective, Squared, as_objective
from neuralrace.problem import Problem, problems_to_evaluate
from neuralrace.progress import Meter
from neuralrace.statistics import PathStatistics
from neuralrace.theory.aligned import Aligned
from neuralrace.theory.certificate import Assumption, Certificate, Declined, first_failing
from neuralrace.theory.check import check_outcome
from neuralrace.theory.closed_form import ClosedForm
from neuralrace.theory.flow.linear import flow_regime
from neuralrace.theory.flow.method import ACTIVATED_RTOL, Flow, NetworkFlow
from neuralrace.theory.forecast import Forecast, Modes
from neuralrace.theory.method import Method, Outcome, Prepared, Request, saddle_notes
from neuralrace.theory.reduction.method import Reduction
from neuralrace.theory.representatives import Representatives
from neuralrace.trajectory import EVALUATED, STATUS, make_dataset

# Strongest first, for linear nodes and then for others. Methods of one name are one rung, tried in this order.
LADDER: tuple[Method[Any], ...] = (
    *(ClosedForm(), Reduction(), Aligned(diagonal=True), Aligned(diagonal=False), Flow()),
    *(Representatives(), NetworkFlow()),
)
METHODS = tuple(dict.fromkeys(method.name for method in LADDER))
DRAWS = 8  # from an initializer
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
    loss: str | Objective = "squared",
    optimizer: Any = None,
    dynamics: str = "auto",
    draws: int | None = None,
    rtol: float | None = None,
    max_steps: int = 100_000,
    tolerance: float = 1e-6,
    check: bool | Literal["auto"] = "auto",
    evaluate: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Forecast:
    """Forecast the learning curve of a network without training anything.

    initial: weights, a list of these, or an initializer that draws them `draws` times (8; with activations 2 to 8, more
    for narrower networks). times: increasing, learning_rate * step. method: closed_form, reduction, aligned, flow for
    linear nodes; representatives, flow for networks with activations; auto, the first of these whose assumptions hold;
    or methods with options of their own, `theory.Aligned(diagonal=False)`, one or several to be tried in order. key: of
    the draws, which differ from those of a training with the same key. learning_rate: the planned step size: the
    certificate requires that it is stable, and with activations the flow is corrected for it. dynamics: "flow", or
    "descent", gradient descent at that step size. rtol: relative error per step, of each mode (1e-6); with activations
    of all weights of a layer and of the remaining loss (5e-4, and less where it is checked). tolerance: for
    assumptions that must be exact. check: measure the distance of the forecast from the exact flow of one of its draws,
    `certificate.checked`; a forecast that is off by more than 1 % is declined, and "auto" tries the next method.
    "auto": where that flow is affordable, unless the assumptions hold with a factor of 100 to spare; True: always;
    False: never, and then the certificate rests on the assumptions alone. evaluate: name -> other examples (a task, or
    a problem of the same graph with their gates; with statistics alone, their statistics), whose loss and accuracy are
    predicted as well, `forecast.evaluated`. progress: say on standard error what is being computed, when it takes more
    than two seconds.
    """
    require_kind("network", network, (Problem, PathStatistics), ProblemError)
    at = _checked_times(times)
    rate = None if learning_rate is None else require_number("learning_rate", learning_rate, above=0)
    if optimizer is not None:
        rate, optimizer = rate or 1.0, check_optimizer(optimizer)
    architecture, problem = network.architecture, network if isinstance(network, Problem) else None
    others = _checked_evaluate(network, evaluate)
    linear = problem is None or not (problem.activations or problem.gates.neurons)
    objective = as_objective(loss, None if problem is None else problem.task)
    plain = objective == Squared() and optimizer is None
    methods = _named(method, linear and plain)
    given: Any = absolute(initial, network)
    if not callable(initial):
        sets = [initial] if isinstance(initial, Mapping) else initial
        if not isinstance(sets, Sequence) or not sets or not all(isinstance(one, Mapping) for one in sets):
            raise WeightError(
                f"initial must be weights, a list of these, or an initializer such as initial.gaussian; it was "
                f"{shortened(initial)}"
            )
        given = tuple(check_weights(architecture, one) for one in sets)
    if not (linear and plain) and draws is None:
        neurons = sum(architecture.nodes[node] for node in architecture.hidden)
        draws = int(np.clip(np.ceil(1400 / max(neurons, 1)), 2, DRAWS))  # 1,400 neurons in all
    if not (isinstance(check, bool | np.bool_) or (isinstance(check, str) and check == "auto")):
        raise RangeError(f"check must be True, False or 'auto'; it was {shortened(check)}")
    request = Request(
        architecture=architecture,
        make_statistics=network.statistics,
        problem=None if linear and all(rung.linear for rung in methods) else problem,  # most methods see no example
        linear=linear,
        initial=given,
        draw=lambda key: draw(initial, network, key),
        stream=jax.random.fold_in(as_key(0 if key is None else key), THEORY_STREAM),
        draws=DRAWS if draws is None else require_count("draws", draws),
        times=at,
        learning_rate=rate,
        descent=_checked_descent(rate, dynamics, at, linear, plain),
        rtol=(1e-6 if linear else ACTIVATED_RTOL) if rtol is None else require_number("rtol", rtol, above=0, most=0.1),
        max_steps=require_count("max_steps", max_steps),
        tolerance=require_number("tolerance", tolerance, least=0),
        check="auto" if isinstance(check, str) else bool(check),
        objective=objective,
        optimizer=optimizer,
        flow_first=plain and dynamics == "auto",
    )
    overflow: Literal["ignore"] | None = None if request.descent is None else "ignore"  # descent may diverge
    with Meter("predicting", shown=progress) as meter, np.errstate(over=overflow, invalid=overflow):
        name, outcome, declined = _climb(request, methods, meter)
        rows, notes = outcome.assumptions, list(outcome.notes)
        if linear and plain and rate is not None:
            rows = (*rows, flow_regime(request.statistics, rate, at, outcome.draws[0], request.descent is None))
    finite = np.isfinite(outcome.losses).all(axis=1)
    if not finite.all():
        notes.append(f"{np.sum(~finite)} of {len(finite)} draws diverge: their loss and the mean are not finite")
    if linear:
        notes += saddle_notes(request.weights)
    certificate = Certificate(name, rows, declined, tuple(dict.fromkeys(notes)))
    asked = method if isinstance(method, str) else ", ".join(map(repr, methods))
    settings = {"dynamics": dynamics, "rtol": request.rtol, "key": str(key), "learning_rate": rate, "asked": asked}
    settings |= {"loss": objective.name, "optimizer": None if optimizer is None else "an optax transformation"}
    settings |= {"method": certificate.method, "certificate": str(certificate)}
    steps = np.arange(len(at)) if rate is None else np.rint(at / rate).astype(int)
    losses = np.maximum(outcome.losses, 0.0)  # interpolated between two steps, the remaining loss can fall below zero
    status = np.where(finite, STATUS.index("running"), STATUS.index("diverged"))
    return Forecast(
        make_dataset(
            at, steps, {"loss": (("seed", "time"), losses)} | _evaluated(others, outcome, request), status, settings
        ),
        problem=problem,
        certificate=certificate,
        architecture=architecture,
        modes=Modes(at, outcome.paths, tuple(architecture.edges), outcome.draws, linear and plain),
        reduction=outcome.reduction,
        simulated=outcome.simulated,
    )


def _named(method: str | Method[Any] | Sequence[str | Method[Any]], linear: bool) -> tuple[Method[Any], ...]:
    """The methods to try, in order; a name of methods for the other kind of network is refused when it is tried."""
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


def _climb(
    request: Request, methods: tuple[Method[Any], ...], meter: Meter
) -> tuple[str, Outcome, tuple[Declined, ...]]:
    """Return the name and the outcome of the first method that applies, and the methods before it."""
    declined: dict[Declined, None] = {}
    for method in methods:
        meter.label = f"predicting by {method.name}"
        outcome = _attempt(method, request)
        if isinstance(outcome, Outcome):
            return method.name, outcome, tuple(declined)
        declined[outcome] = None
    if not methods:
        raise AssumptionError("at least one method is required; none was given: use method='auto'")
    _ = request.weights  # raises where the initializer has none for this network, the reason why no method applies
    advice, forced = "use method='auto'", replace(method, force=True)
    if not method.force and _unsuited(method, request) is None and forced.setup(request)[1] is not None:
        advice += f", or force it with {forced!r}"
    raise AssumptionError(f"{list(declined)[-1].failed.reason}: {advice}")


def _attempt(method: Method[Prepared], request: Request) -> Outcome | Declined:
    """Return the outcome with everything that was assumed or measured, or the assumption that fails."""
    unsuited = _unsuited(method, request)
    if unsuited is not None:
        return Declined(method.name, unsuited)
    rows, prepared = method.setup(request)
    failed = first_failing(rows)
    if failed is not None and (prepared is None or not method.force):
        return Declined(method.name, failed, method.way)
    assert prepared is not None  # only a failing assumption leaves nothing to solve
    outcome = method.solve(request, prepared)
    rows = (*rows, *outcome.assumptions)
    failed, notes = first_failing(outcome.assumptions), outcome.notes
    if request.linear and method.linear and (failed is None or method.force) and not isinstance(method, Flow):
        measured, unchecked = check_outcome(request, outcome, rows)
        rows, failed = (*rows, *measured), failed or first_failing(measured)
        notes = (*notes, unchecked) if unchecked else notes
    if failed is not None and not method.force and not method.last:
        return Declined(method.name, failed, method.way)
    return replace(outcome, assumptions=rows, notes=notes)


def _unsuited(method: Method[Any], request: Request) -> Assumption | None:
    """What a method assumes of every network and training that it is for, if it does not hold."""
    if method.linear and not request.linear:
        activated = {} if request.problem is None else request.problem.activations
        found = ", ".join(f"{node!r} has {activation!r}" for node, activation in activated.items())
        return Assumption("linear nodes", 1.0, 0.0, found or "single neurons have gates of their own")
    return None if method.general or request.plain.holds else request.plain


def _checked_evaluate(network: Problem | PathStatistics, evaluate: Any) -> dict[str, Problem | PathStatistics]:
    """The other examples to evaluate, or their statistics."""
    given = dict(evaluate) if isinstance(evaluate, Mapping) else evaluate
    statistics = {}
    if isinstance(given, dict):
        statistics = {name: given.pop(name) for name in list(given) if isinstance(given[name], PathStatistics)}
    if isinstance(network, Problem):
        return {**problems_to_evaluate(network, given), **statistics}
    for name in given or ():
        raise ProblemError(f"a forecast from statistics alone evaluates statistics: give those of {name!r}")
    return dict(statistics)


def _evaluated(
    others: Mapping[str, Problem | PathStatistics], outcome: Outcome, request: Request
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Loss and accuracy on other examples, at the predicted weights of every draw."""
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    times, objective = request.times, request.objective
    for name, other in others.items():
        if isinstance(other, Problem):
            objective.check(other.task)
            sizes = other.architecture.nodes if outcome.simulated is None else outcome.simulated.architecture.nodes
            evaluation = make_evaluation(other.resized(sizes), objective.rows, moments=objective.compresses)
            draws = [over_time(evaluation, draw.weights(times)) for draw in outcome.draws]
        else:
            draws = [{"loss": np.array([other.loss(w) for w in draw.weights(times)])} for draw in outcome.draws]
        for kind in draws[0]:
            variables[f"{EVALUATED}{kind}[{name}]"] = ("seed", "time"), np.array([draw[kind] for draw in draws])
    return variables


def _checked_times(times: Any) -> np.ndarray:
    found = real_array("times", times, RangeError)
    if found.ndim != 1 or not len(found):
        raise RangeError(f"times must be one axis with at least one number; it has shape {found.shape}")
    if not (np.isfinite(found) & (found >= 0)).all():
        raise RangeError(
            f"times must be finite and not be negative, learning starts at 0; the least is {found.min():g}"
        )
    if (np.diff(found) < 0).any():
        first = int(np.argmax(np.diff(found) < 0))
        raise RangeError(
            f"times must increase; entry {first + 1} ({found[first + 1]:g}) is below the one before it "
            f"({found[first]:g}): sort them"
        )
    return found


def _checked_descent(rate: float | None, dynamics: str, times: np.ndarray, linear: bool, plain: bool) -> float | None:
    """The size of the steps that are forecast, or None for the flow."""
    if dynamics not in ("auto", "flow", "descent"):
        raise UnknownNameError(f"there is no dynamics {dynamics!r}; {nearest(dynamics, ('auto', 'flow', 'descent'))}")
    if not plain and dynamics == "flow":
        raise RangeError("the flow is that of squared error without an optimizer: leave out dynamics")
    if not plain and rate is None:
        raise RangeError("a loss other than squared error is forecast by steps: give learning_rate or an optimizer")
    if dynamics == "flow" or (dynamics == "auto" and plain and (linear or rate is None)):
        return None
    if rate is None:
        raise RangeError("gradient descent needs its step size: give learning_rate, or use dynamics='flow'")
    off = np.abs(np.rint(times / rate) * rate - times) > 1e-6 * rate
    if off.any() and dynamics == "descent":
        raise RangeError(
            f"with dynamics='descent' every time must be a whole number of steps of {rate:g}; "
            f"{times[int(np.argmax(off))]:g} is not: give times = learning_rate * steps"
        )
    return rate
