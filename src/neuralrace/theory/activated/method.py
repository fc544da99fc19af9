"""The method `flow` for networks with activations: fresh draws from the law, as they are. It always applies."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from neuralrace.errors import RangeError
from neuralrace.problem import Problem
from neuralrace.theory.activated.simulation import Simulation, Translate
from neuralrace.theory.activated.system import SMOOTHING, is_small
from neuralrace.theory.certificate import CHECKED, Assumption
from neuralrace.theory.check import TOLERANCE
from neuralrace.theory.integration.strides import SINGLE
from neuralrace.theory.method import Method, Outcome, Request, saddle_notes
from neuralrace.theory.sharpness import regime

FINER = 0.04  # ratio of the two tolerances that are compared: gates that open over 2.5e-3, and over 1e-4
REFINEMENTS = 3  # most tolerances that are tried
STEPS = 4_000  # most steps of a flow that is only a check
AGREE = 0.01  # in normalized L1: draws so far from their mean are still called enough


@dataclass(frozen=True, repr=False)
class NetworkFlow(Method[Problem]):
    """The gradient flow of whole networks on their examples: any graph, activations, gates of single neurons."""

    name: ClassVar[str] = "flow"
    linear: ClassVar[bool] = False
    last: ClassVar[bool] = True

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], Problem | None]:
        """That the examples are there."""
        problem, assumption = examples(request)
        return (assumption,), problem

    def solve(self, request: Request, ground: Problem) -> Outcome:
        """Integrate, or take steps, all draws in one program."""
        simulation = Simulation(ground, request.weights, request)
        return outcome_of(simulation, simulated_note(request, ground, len(request.weights)))


def outcome_of(
    simulation: Simulation, note: str, simulated: Problem | None = None, translate: Translate | None = None
) -> Outcome:
    """What draws come to; note: what was simulated, the problem `simulated` in other coordinates where it is given."""
    simulation, losses, curvature, checked, unchecked = converged(simulation)
    request, draws = simulation.request, len(simulation.first)
    planned: tuple[Assumption, ...] = ()
    if request.learning_rate is not None:
        planned = (regime(request.learning_rate, request.times[-1:], [curvature()]),)
        if request.descent is None:
            planned = (simulation.first_step(request.learning_rate), *planned)
    return Outcome(
        losses,
        tuple(simulation.evolution(draw, translate) for draw in range(draws)),
        assumptions=(*checked, *draws_agree(losses), *planned),
        notes=(note, step_note(request, simulation.strides), *saddle_notes(simulation.first), *unchecked),
        simulated=simulated,
    )


Converged = tuple[Simulation, np.ndarray, Callable[[], float], tuple[Assumption, ...], tuple[str, ...]]


def converged(simulation: Simulation) -> Converged:
    """Follow all draws, at smaller tolerances until two agree; the forecast is the more accurate of the two.

    The tolerance is also the width over which gates open, which can decide whether a neuron dies. Returns the
    simulation, its losses, its curvature at the end, a row for the certificate, and why there is none.
    """
    request = simulation.request
    losses, curvature = simulation.follow()
    if request.descent is not None:
        exact = simulation.strides is None
        row = Assumption(CHECKED, 0.0, 0.0, "the forecast is gradient descent itself, in double precision")
        skipped = "not checked: steps of descent are taken several at once"
        return simulation, losses, curvature, (row,) if exact else (), () if exact else (skipped,)
    if request.check is False or (request.check == "auto" and not is_small(simulation.problem, len(simulation.first))):
        reason = "as asked (check=False)" if request.check is False else "the network is too large (check=True does it)"
        return simulation, losses, curvature, (), (f"not checked at a smaller rtol: {reason}",)
    apart, steps = None, request.max_steps if request.check is True else min(request.max_steps, STEPS)
    for _ in range(REFINEMENTS):
        finer = replace(simulation, request=replace(request, rtol=FINER * simulation.request.rtol, max_steps=steps))
        try:
            found, curvature = finer.follow()
        except RangeError:
            break
        apart = max(map(_normalized_l1, found, losses))
        simulation, losses = finer, found
        if apart <= TOLERANCE:
            break
    if apart is None:
        return simulation, losses, curvature, (), (f"not checked at a smaller rtol: it takes over {steps:,} steps",)
    rtol = simulation.request.rtol
    detail = f"the farthest of {len(losses)} draws at rtol {rtol:.2g} from itself at {rtol / FINER:.2g} (normalized L1)"
    return simulation, losses, curvature, (Assumption(CHECKED, apart, TOLERANCE, detail),), ()


def _normalized_l1(losses: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(losses - other).sum() / max(np.abs(losses).sum(), np.finfo(float).tiny))


def draws_agree(losses: np.ndarray) -> tuple[Assumption, ...]:
    """How far single draws are from their mean: the mean itself is nearer to the law than they are."""
    if len(losses) < 2 or not np.isfinite(losses).all():
        return ()
    mean = losses.mean(axis=0)
    apart = np.abs(losses - mean).sum(axis=1).mean() / max(float(np.abs(mean).sum()), np.finfo(float).tiny)
    detail = f"normalized L1 of {len(losses)} draws from their mean"
    return (Assumption("draws agree", float(apart), AGREE, detail, needed=False),)


def examples(request: Request) -> tuple[Problem | None, Assumption]:
    """The problem with its examples, which statistics have not."""
    if request.problem is not None:
        return request.problem, Assumption("examples and squared error", 0.0, 0.0, "those of the problem")
    return None, Assumption("examples and squared error", 1.0, 0.0, "statistics alone came")


def simulated_note(request: Request, problem: Problem, count: int) -> str:
    """What was followed."""
    sizes = ", ".join(f"{problem.architecture.nodes[node]} in {node!r}" for node in problem.architecture.hidden)
    kind = f"{count} fresh draws from the law of the weights" if callable(request.initial) else "the given weights"
    return f"simulated: {kind}, every neuron ({sizes or 'no hidden node'}); no trained network was seen"


def step_note(request: Request, at_once: int | None) -> str:
    """By which dynamics."""
    if request.descent is not None:
        steps = f"simulated by steps of gradient descent of {request.descent:g}"
        if at_once is None:
            return steps
        strides = f"up to {at_once} at once where the loss has halved" if at_once > 1 else "one by one"
        return f"{steps}, {strides}; in single precision down to {SINGLE:g} of the loss"
    width = f"gates open over {SMOOTHING * request.rtol:.2g} of what a neuron receives"
    if request.learning_rate is None:
        return f"simulated by the gradient flow, the limit of small steps; {width}"
    return f"simulated by the gradient flow, corrected to first order for steps of {request.learning_rate:g}; {width}"
