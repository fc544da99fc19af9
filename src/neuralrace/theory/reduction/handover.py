"""From the exact flow to the reduction, once the weights have aligned.

With three layers and more there is no linear early phase whose growing direction could be computed. The flow is
followed until the reduction, started from the weights of that moment, has the same loss and moves every mode at the
same speed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.theory.alignment import Alignment, align, decoupled_weights
from neuralrace.theory.flow.matrix_flow import MatrixFlow
from neuralrace.theory.integration.integrate import Curve
from neuralrace.theory.prepared import Prepared
from neuralrace.theory.reduction.system import Reduction, make_reduction


@dataclass(frozen=True, eq=False)
class HandOver:
    """The flow up to the hand-over, its time, and the reduction that starts there."""

    time: float
    curve: Curve
    alignment: Alignment
    reduction: Reduction
    residual: float
    where: str


def follow_until_aligned(
    prepared: Prepared, flow: MatrixFlow, end: float, *, tolerance: float, rtol: float, max_steps: int, lump: bool
) -> HandOver:
    """Follow the flow until the reduction may take over, or to the end; the residual says which it was."""
    best: dict[str, Any] = {}

    def aligned(time: float, state: Any) -> bool:
        alignment = align(prepared.statistics.architecture, flow.matrices(state), prepared.bases)
        reduction = make_reduction(prepared.table, [alignment.strengths], lump=lump)
        residual, where = _mismatch(prepared, flow, state, alignment, reduction, tolerance)
        best.update(time=time, alignment=alignment, reduction=reduction, residual=residual, where=where)
        return residual <= tolerance

    curve = flow.curve(end, rtol=rtol, max_steps=max_steps, stop=aligned)
    return HandOver(curve=curve, **best)


def _mismatch(
    prepared: Prepared, flow: MatrixFlow, state: Any, alignment: Alignment, reduction: Reduction, tolerance: float
) -> tuple[float, str]:
    """Gap in loss relative to that of a silent network, and in the speed of each mode relative to its drive."""
    architecture, table = prepared.statistics.architecture, prepared.table
    projected = decoupled_weights(architecture, alignment.bases, alignment.strengths)
    energy = max(0.5 * table.target_energy, np.finfo(float).tiny)
    loss = flow.excess(state) + flow.constant
    gap = abs(prepared.statistics.loss(projected) - loss) / energy
    worst, where = gap, "the loss"
    if gap > tolerance:
        return worst, where
    velocity = flow.coordinates.leave(flow.blocks.unstack(flow.velocity(state)))
    reduced = reduction.spread_out(reduction.velocity())
    drive = _drive(prepared, alignment)
    speed_gap = np.zeros(table.modes)
    for edge, (source, target) in architecture.edges.items():
        matrix = velocity[edge] - flow.coordinates.fixed[edge]
        moving = np.where(reduction.partition.variables[table.edges.index(edge)] >= 0, reduced[edge][0], 0.0)
        rest = matrix - (alignment.bases[target] * moving) @ alignment.bases[source].T
        speed_gap = np.maximum(speed_gap, np.linalg.norm(rest @ alignment.bases[source], axis=0))
        speed_gap = np.maximum(speed_gap, np.linalg.norm(rest.T @ alignment.bases[target], axis=0))
    relative = np.divide(speed_gap, drive, out=np.zeros_like(drive), where=drive > 0)
    mode = int(np.argmax(relative)) if len(relative) else 0
    if len(relative) and relative[mode] > worst:
        worst, where = float(relative[mode]), f"the speed of mode {mode}"
    return worst, where


def _drive(prepared: Prepared, alignment: Alignment) -> np.ndarray:
    """The largest push that the correlations alone give any edge in a mode; (modes,)."""
    table = prepared.table
    padded = np.vstack([[alignment.strengths[edge] for edge in table.edges], np.ones((1, table.modes))])
    factors = padded[table.route]  # (paths, longest, modes); -1 picks the row of ones
    total = np.zeros((len(table.edges) + 1, table.modes))
    for position in range(table.route.shape[1]):
        others = np.prod(np.delete(factors, position, axis=1), axis=1)
        np.add.at(total, table.route[:, position], np.abs(others * table.strengths))
    return np.asarray(total[:-1].max(axis=0, initial=0.0))
