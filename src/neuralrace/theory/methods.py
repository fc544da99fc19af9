"""The rungs of the ladder: each turns a request into losses and an evolution, or says which assumption fails."""

from collections.abc import Callable

import numpy as np

from neuralrace.errors import AssumptionError
from neuralrace.theory.aligned.outcome import diagonal_outcome, matrix_evolution, matrix_loss, own_reduction
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.closed_form import closed_form
from neuralrace.theory.evolution import HandedOver, PerDraw, ReducedEvolution
from neuralrace.theory.examine import Start, examine_start, lost_modes
from neuralrace.theory.flow.matrix_flow import MatrixFlow
from neuralrace.theory.reduction.handover import HandOver, follow_until_aligned
from neuralrace.theory.reduction.system import Reduction, make_reduction
from neuralrace.theory.request import OTHERWISE, Findings, Outcome, Request, listed_paths, solver
from neuralrace.theory.strength import InitialStrength


def by_closed_form(request: Request, findings: Findings) -> Outcome:
    """Formulas where the reduced system separates, in shared bases or in the paths' own."""
    if request.steps is not None:
        raise AssumptionError("the formulas are for gradient flow and gradient descent was asked for: use 'reduction'")
    if request.prepared.bases.worst[1] > request.tolerance and not findings.force:
        reduction, hidden, strength = own_reduction(request, findings)
        states = formulas(reduction)
        return diagonal_outcome(request, findings, "closed_form", reduction, hidden, strength, states)
    start = examine_start(request, findings, handover=False)
    reduction = _reduction(request, findings, start)
    return _reduced(request, "closed_form", start, reduction, formulas(reduction))


def formulas(reduction: Reduction) -> Callable[[np.ndarray], np.ndarray]:
    """The variables at any times by formula, or an error that says where there is none."""
    solutions = []
    for state in reduction.initial_state():
        solution, reason = closed_form(reduction.terms, state)
        if solution is None:
            raise AssumptionError(
                f"the reduced system must separate into terms with a formula; {reason}: use method='reduction'"
            )
        solutions.append(solution)
    size = reduction.partition.variable_count

    def states(times: np.ndarray) -> np.ndarray:
        found = np.zeros((len(times), len(solutions), size))
        for draw, solution in enumerate(solutions):
            for variable, values in solution(times).items():
                found[:, draw, variable] = values
        return found

    return states


def by_reduction(request: Request, findings: Findings) -> Outcome:
    """P1 eq. 10: one scalar per edge and mode, lumped."""
    start = examine_start(request, findings, handover=True)
    if start.source == "hand-over":
        return _by_handover(request, findings)
    reduction = _reduction(request, findings, start)
    return _reduced(request, "reduction", start, reduction, solver(request, reduction))


def by_flow(request: Request, findings: Findings) -> Outcome:
    """The exact matrix flow, or gradient descent on whole matrices."""
    flows = [request.prepared.flow.start(w, request.end, request.rtol, request.atol) for w in request.weights]
    losses = np.array([matrix_loss(request, flow) for flow in flows])
    evolution = PerDraw(tuple(matrix_evolution(request, flow) for flow in flows))
    return Outcome("flow", losses, evolution, listed_paths(request.prepared))


def _by_handover(request: Request, findings: Findings) -> Outcome:
    architecture = request.prepared.statistics.architecture
    parts, losses, evolutions = [], [], []
    for weights in request.weights:
        flow = request.prepared.flow.start(weights, request.end, request.rtol, request.atol)
        part = _handed_over(request, findings, flow)
        states = solver(request, part.reduction)
        early = request.times < part.time
        loss = np.asarray(part.curve.at(request.times[early])) + flow.constant
        if (~early).any():
            late = part.reduction.loss(states(request.times[~early] - part.time))[:, 0]
            loss = np.concatenate([loss, late])
        after = ReducedEvolution(architecture, part.reduction, states, (part.alignment.bases,))
        parts.append(part)
        losses.append(loss)
        evolutions.append(HandedOver(matrix_evolution(request, flow), after, part.time))
    times = tuple(part.time for part in parts)
    values = {edge: np.array([part.alignment.strengths[edge] for part in parts]) for edge in architecture.edges}
    return Outcome(
        "reduction",
        np.array(losses),
        PerDraw(tuple(evolutions)),
        listed_paths(request.prepared),
        parts[0].reduction,
        InitialStrength("hand-over", values, request.law),
        times,
        (f"the exact flow hands over to the reduction at time {', '.join(f'{t:.4g}' for t in times)}",),
    )


def _handed_over(request: Request, findings: Findings, flow: MatrixFlow) -> HandOver:
    """Follow one draw until it aligns, and refuse if it does not in time."""
    part = follow_until_aligned(
        request.prepared,
        flow,
        request.end,
        tolerance=request.small,
        rtol=request.rtol,
        max_steps=request.max_steps,
        lump=request.lump,
    )
    detail = f"{part.where}, at time {part.time:.4g}"
    findings.require(Assumption("aligned at hand-over", part.residual, request.small, detail), OTHERWISE)
    if part.time >= request.end and not findings.force:
        raise AssumptionError(
            f"the weights must align before the last time, {request.end:g}; they did not: give later times, or use "
            f"method='flow'"
        )
    return part


def _reduction(request: Request, findings: Findings, start: Start) -> Reduction:
    reduction = make_reduction(
        request.prepared.table,
        list(start.strengths),
        lump=request.lump,
        symmetric=request.symmetric,
        atol=request.atol,
    )
    if request.symmetric:
        detail = "initial strengths within a class, taken at their mean"
        findings.require(
            Assumption("lumping symmetry", reduction.asymmetry, request.small, detail), "use symmetric=False"
        )
    else:
        count = f"{reduction.partition.variable_count} variable(s), exact"
        findings.note(Assumption("lumping symmetry", 0.0, request.tolerance, count), needed=True)
    return reduction


def _reduced(
    request: Request, method: str, start: Start, reduction: Reduction, states: Callable[[np.ndarray], np.ndarray]
) -> Outcome:
    losses = reduction.loss(states(request.times)).T
    architecture = request.prepared.statistics.architecture
    evolution = ReducedEvolution(architecture, reduction, states, start.bases)
    values = {edge: np.array([draw[edge] for draw in start.strengths]) for edge in architecture.edges}
    return Outcome(
        method,
        losses,
        evolution,
        request.prepared.table.paths,
        reduction,
        InitialStrength(start.source, values, request.law),
        notes=lost_modes(request.prepared.table, start.strengths),
    )
