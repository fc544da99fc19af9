"""The rung for paths with singular vectors of their own (P2 appendix F), with diagonal or with whole strengths."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.errors import AssumptionError
from neuralrace.theory.aligned.own_modes import OwnModes, aligned_weights, off_diagonal, own_strengths
from neuralrace.theory.aligned.path_flow import PathFlow
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.evolution import MatrixEvolution, PerDraw, ReducedEvolution
from neuralrace.theory.flow.matrix_flow import MatrixFlow
from neuralrace.theory.reduction.system import Reduction, make_reduction
from neuralrace.theory.request import OTHERWISE, Findings, Outcome, Request, solver
from neuralrace.theory.strength import InitialStrength

Hidden = tuple[Mapping[str, np.ndarray], ...]  # for each draw, hidden node -> its basis


def by_aligned(request: Request, findings: Findings) -> Outcome:
    """Every path in its own modes; diagonal strengths where they stay so, or whole matrices."""
    if request.diagonal is False:
        return _whole(request, findings)
    try:
        reduction, hidden, strength = own_reduction(request, findings)
        states = solver(request, reduction)
        return diagonal_outcome(request, findings, "aligned", reduction, hidden, strength, states)
    except AssumptionError:
        turning = findings.assumptions.get("own modes stay diagonal")
        if request.diagonal or turning is None or request.steps is not None:
            raise
        outcome = _whole(request, findings)
        note = f"own modes turn into each other ({turning.residual:.2g}): whole matrices are followed"
        return Outcome(**{**vars(outcome), "notes": (*outcome.notes, note)})


def own_reduction(request: Request, findings: Findings) -> tuple[Reduction, Hidden, InitialStrength]:
    """The reduced system in the paths' own modes, from the growing part of the weights."""
    strengths, hidden, strength = _start(request, findings)
    table = request.prepared.own_table
    rows = [{(edge, m): draw[edge][m : m + 1] for edge, m in table.edges} for draw in strengths]
    return make_reduction(table, rows, lump=request.lump, atol=request.atol), hidden, strength


def diagonal_outcome(
    request: Request,
    findings: Findings,
    method: str,
    reduction: Reduction,
    hidden: Hidden,
    strength: InitialStrength,
    states: Callable[[np.ndarray], np.ndarray],
) -> Outcome:
    """Solve with diagonal strengths and check that nothing turns one mode into another on the way."""
    prepared = request.prepared
    modes: Mapping[Path, OwnModes] = prepared.own
    found = states(request.times)
    by_edge = reduction.spread_out(found)
    products = {path: np.prod([by_edge[e][:, 0] for e in path.edges], axis=0) for path in modes}
    turning, place = off_diagonal(prepared.statistics, modes, products)
    findings.require(Assumption("own modes stay diagonal", turning, request.tolerance, place), OTHERWISE)
    evolution = ReducedEvolution(prepared.statistics.architecture, reduction, states, hidden, modes)
    return Outcome(method, reduction.loss(found).T, evolution, tuple(modes), reduction, strength)


def _start(request: Request, findings: Findings) -> tuple[list[Mapping[Edge, np.ndarray]], Hidden, InitialStrength]:
    prepared = request.prepared
    found = [own_strengths(prepared.own, weights) for weights in request.weights]
    residual, where = max((entry[2], entry[3]) for entry in found)
    if any(entry[4] for entry in found):  # what does not grow must not show either
        residual, where = max((residual, where), (prepared.initial_output(request.weights), "the initial output"))
    findings.require(Assumption("alignment to own modes", residual, request.small, where), OTHERWISE)
    values = {edge: np.array([entry[0][edge] for entry in found]) for edge in found[0][0]}
    strength = InitialStrength("growing direction of each path", values, request.law)
    return [entry[0] for entry in found], tuple(entry[1] for entry in found), strength


def _whole(request: Request, findings: Findings) -> Outcome:
    """The exact flow of the aligned part of the weights."""
    prepared = request.prepared
    strengths, hidden, strength = _start(request, findings)
    architecture, modes = prepared.statistics.architecture, prepared.own
    losses, evolutions = [], []
    for draw, bases in zip(strengths, hidden, strict=True):
        if request.steps is None and all(len(path.edges) == 2 for path in modes):
            quick = prepared.own_flow.start(bases, draw, request.atol)
            losses.append(quick.solve(request.times, rtol=request.rtol, max_steps=request.max_steps)[0])
            evolutions.append(matrix_evolution(request, quick))
        else:
            start = aligned_weights(modes, architecture, bases, draw)
            flow = prepared.flow.start(start, request.end, request.rtol, request.atol)
            losses.append(matrix_loss(request, flow))
            evolutions.append(matrix_evolution(request, flow))
    return Outcome("aligned", np.array(losses), PerDraw(tuple(evolutions)), tuple(modes), initial_strength=strength)


def matrix_loss(request: Request, flow: MatrixFlow) -> np.ndarray:
    """The loss of the flow, or of gradient descent, at the times that were asked for."""
    if request.steps is not None and request.learning_rate is not None:
        return flow.descend(request.learning_rate, request.steps) + flow.constant
    curve = flow.curve(request.end, rtol=request.rtol, max_steps=request.max_steps)
    return np.asarray(curve.at(request.times)) + flow.constant


def matrix_evolution(request: Request, flow: MatrixFlow | PathFlow) -> MatrixEvolution:
    """The weights of the flow, or of gradient descent, at any times."""

    def matrices(times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
        if request.steps is not None and request.learning_rate is not None and isinstance(flow, MatrixFlow):
            return flow.descended_weights(request.learning_rate, np.rint(times / request.learning_rate).astype(int))
        return flow.weights_at(times, rtol=request.rtol, max_steps=request.max_steps)

    def modes(path: Path) -> tuple[np.ndarray, np.ndarray]:
        left, _, right = np.linalg.svd(request.prepared.statistics.input_output(path), full_matrices=False)
        return left, right.T

    def strengths(path: Path, times: np.ndarray) -> np.ndarray:
        assert isinstance(flow, PathFlow)
        found = flow.solve(times, rtol=request.rtol, max_steps=request.max_steps)[1]
        return np.asarray(found[:, flow.paths.index(path), : len(request.prepared.own[path].strengths)])

    architecture = request.prepared.statistics.architecture
    return MatrixEvolution(architecture, matrices, modes, strengths if isinstance(flow, PathFlow) else None)
