"""Measurements of a finished forecast of linear nodes: the exact loss at its weights, and the exact flow of a draw."""

from dataclasses import replace

import numpy as np

from neuralrace.analysis.agreement import Line, agreement
from neuralrace.axes import Edge
from neuralrace.errors import RangeError
from neuralrace.theory.certificate import CHECKED, Assumption
from neuralrace.theory.flow.linear import linear_flow
from neuralrace.theory.method import Outcome, Request

TOLERANCE = 0.01  # normalized L1 that a certificate promises
TIMES = 20  # at which the exact loss is compared
FLOOR = 1e-8  # of the loss at zero output: below, losses count as equal, because the flow has no digits left there
# The budget of `check="auto"`: multiplications for 20 losses of all draws, and for 1,000 evaluations of the flow of one
# draw, which take a second or two on one core; the flow may take no more steps than this.
WORK = 2e9
STEPS = 3_000


def check_outcome(
    request: Request, outcome: Outcome, required: tuple[Assumption, ...]
) -> tuple[tuple[Assumption, ...], str]:
    """Measure the forecast; return rows for its certificate, and the reason if the flow was not followed.

    First the exact loss at the forecast's own weights, plus the initial weights outside the modes that
    the method follows. This costs 20 losses and shows how grown layers multiply that part. It cannot show what a saddle
    amplifies; so the exact flow of the worst draw is followed too, unless every assumption holds with so much to spare
    that nothing is left to amplify. Where the flow is too long, the velocity of the predicted weights is compared with
    the exact gradient instead. The flow comes from the statistics; nothing is trained.
    """
    late = _late(request, outcome)
    if request.check is False:
        return late, "not checked, as requested (check=False)"
    # multiplications in one loss, about: every weight once per gate configuration and direction of the inputs
    width = sum(request.architecture.nodes[node] for node in request.architecture.inputs)
    work = float(request.statistics.configuration_count * request.architecture.weight_count * width)
    affordable = request.check is True or work * 1000 <= WORK
    rows: tuple[Assumption, ...] = ()
    worst = 0
    if request.check is True or work * TIMES * len(outcome.draws) <= WORK:
        found = [_at_predicted_weights(request, outcome, draw) for draw in range(len(outcome.draws))]
        worst = int(np.argmax(found))
        detail = f"the forecast of draw {worst} (normalized L1 over {TIMES} exact losses)"
        row = Assumption("loss at predicted weights", found[worst], TOLERANCE, detail)
        if row.residual > 5 * TOLERANCE:
            return (row,), "the flow was not followed: not needed"
        spare = all(one.residual <= 0.01 * one.tolerance for one in required if one.needed)
        if spare and all(one.holds for one in late) and row.residual <= 0.1 * TOLERANCE and request.check == "auto":
            return (row,), "the flow was not followed: every assumption holds with a factor of 100 to spare"
        if not affordable:
            return (*late, row, *_defect(request, outcome, worst)), "the flow was not followed: too large for a check"
        rows = (replace(row, needed=False),)  # an upper bound: in truth the part outside the modes decays
    if not affordable:
        return late, "the flow was not followed: too large for a check"
    steps = request.max_steps if request.check is True else min(request.max_steps, STEPS)
    draw, rtol = request.weights[worst], 0.01 * TOLERANCE
    flow = linear_flow(request.statistics, draw, request.end, rtol, steps, request.descent)
    try:
        exact = flow.losses(request.times)
    except RangeError:
        if request.check is True:
            raise
        rows = (*late, *(replace(row, needed=True) for row in rows), *_defect(request, outcome, worst))
        return rows, f"the flow was not followed to its end: it takes more than {steps:,} steps"
    floor = FLOOR * 0.5 * request.statistics.target_energy
    curves = [Line(request.times, np.maximum(losses, floor)) for losses in (outcome.losses[worst], exact)]
    distance = agreement(*curves)
    detail = f"the forecast of draw {worst} (normalized L1; mean gap of log10 loss {distance.log10_gap:.2g})"
    return (*rows, Assumption(CHECKED, distance.normalized_l1, TOLERANCE, detail)), ""


def _late(request: Request, outcome: Outcome) -> tuple[Assumption, ...]:
    """Require that a tenth of the initial loss is left at the requested times, on average, if these start later.

    Assumptions are measured relative to the initial loss, and an error that is small there may exceed the loss of late
    times.
    """
    if request.times[0] == 0:
        return ()
    silent, tiny = 0.5 * request.statistics.target_energy, np.finfo(float).tiny
    begun = np.mean([min(silent, request.statistics.loss(weights)) for weights in request.weights])
    learned = 1 - min(float(outcome.losses.mean() / max(float(begun), tiny)), 1.0)
    detail = "the part of the initial loss that is gone on average, when the times do not start at 0"
    return (Assumption("loss at the requested times", learned, 0.9, detail),)


def _some_times(request: Request, losses: np.ndarray) -> np.ndarray:
    """Places of about 20 times, spaced equally in the sum of elapsed time and change of the loss, both as fractions."""
    change, tiny = np.cumsum(np.abs(np.diff(losses, prepend=losses[:1]))), np.finfo(float).tiny
    progress = request.times / max(request.end, tiny) + change / max(change[-1], tiny)
    return np.unique(np.searchsorted(progress, np.linspace(progress[0], progress[-1], TIMES)))


def _outside(request: Request, outcome: Outcome, draw: int) -> dict[Edge, np.ndarray]:
    """The initial weights outside the modes that the method follows."""
    (start,) = outcome.draws[draw].weights(np.zeros(1))
    return {edge: matrix - start[edge] for edge, matrix in request.weights[draw].items()}


def _at_predicted_weights(request: Request, outcome: Outcome, draw: int) -> float:
    """The distance of the exact loss at the predicted weights plus the initial weights outside the followed modes."""
    losses = outcome.losses[draw]
    if not np.isfinite(losses).all():
        return float("inf")
    chosen, rest = _some_times(request, losses), _outside(request, outcome, draw)
    times, loss = request.times[chosen], request.statistics.loss
    predicted = outcome.draws[draw].weights(times)
    exact = np.array([loss({edge: one[edge] + rest[edge] for edge in rest}) for one in predicted])
    return agreement(Line(times, losses[chosen]), Line(times, exact)).normalized_l1


def _defect(request: Request, outcome: Outcome, draw: int) -> tuple[Assumption, ...]:
    """Measure how far the velocity of the predicted weights is from the exact flow of these weights.

    |dW/dt + gradient| relative to |gradient|, each time weighted by how fast the exact loss falls, |gradient|^2.
    """
    if request.descent is not None:
        return ()
    times, rest = request.times[_some_times(request, outcome.losses[draw])], _outside(request, outcome, draw)
    times = times[times > 0]
    missed = fall = 0.0
    for time, here in zip(times, outcome.draws[draw].weights(times), strict=True):
        slopes = request.statistics.gradient({edge: here[edge] + rest[edge] for edge in rest})
        size = np.sqrt(sum(float(np.sum(slope**2)) for slope in slopes.values()))
        moves = np.sqrt(sum(float(np.sum(matrix**2)) for matrix in here.values()))
        width = min(1e-5 * moves / max(size, np.finfo(float).tiny), 1e-3 * time)  # a change of 1e-5 of the weights
        (before,) = outcome.draws[draw].weights(np.array([time - width]))
        off = (float(np.sum(((here[edge] - before[edge]) / width + slope) ** 2)) for edge, slope in slopes.items())
        missed, fall = missed + np.sqrt(sum(off)) * size, fall + size**2
    residual = missed / fall if fall > 0 else 0.0
    detail = f"dW/dt + gradient relative to the gradient, draw {draw}"
    return (Assumption("velocity at predicted weights", residual, 5 * TOLERANCE, detail),)
