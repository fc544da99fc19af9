"""From the exact flow to the reduction, once the weights have aligned.

With three layers and more there is no linear early phase whose growing direction could be computed. The flow is
followed until the reduction, started from the weights of that moment, has the same loss and moves every mode at the
same speed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from neuralrace._engine.network import Stacks
from neuralrace.axes import Edge
from neuralrace.statistics import PathStatistics, shared_bases
from neuralrace.theory.alignment import Alignment, align
from neuralrace.theory.evolution import Evolution
from neuralrace.theory.flow.linear import LinearFlow
from neuralrace.theory.integration.integrate import Curve
from neuralrace.theory.method import Request
from neuralrace.theory.reduction.path_table import PathTable, path_table
from neuralrace.theory.reduction.system import ReducedSystem, reduced_system


@dataclass(frozen=True, eq=False)
class Look:
    """The weights at a time, the reduction that would start there, and how far it is from the flow."""

    time: float
    alignment: Alignment
    system: ReducedSystem
    residual: float
    where: str


def follow_until_aligned(request: Request, flow: LinearFlow, *, tolerance: float, lump: bool) -> tuple[Look, Curve]:
    """Follow the flow until the reduction may take over, or to the end; the residual says which it was.

    Returns the moment at which the flow was left, and its excess loss up to there.
    """
    statistics = request.statistics
    table, bases = statistics.once(path_table), shared_bases(statistics)
    looks: list[Look] = []

    def aligned(time: float, state: Stacks) -> bool:
        alignment = align(statistics.architecture, flow.weights(state), bases)
        system = reduced_system(table, [alignment.strengths], lump=lump)
        residual, where = _mismatch(statistics, flow, state, alignment, system, tolerance)
        looks.append(Look(time, alignment, system, residual, where))
        return residual <= tolerance

    curve = flow.solution.curve(request.end, aligned)
    if not looks:  # nothing to follow
        aligned(0.0, flow.solution.start)
    return looks[-1], curve


def _mismatch(
    statistics: PathStatistics,
    flow: LinearFlow,
    state: Stacks,
    alignment: Alignment,
    system: ReducedSystem,
    tolerance: float,
) -> tuple[float, str]:
    """Gap in loss relative to that of a silent network, and in the speed of each mode relative to its drive."""
    table = system.table
    projected = alignment.weights(alignment.strengths)
    energy = max(0.5 * table.target_energy, np.finfo(float).tiny)
    loss = flow.loss(state)
    gap = abs(statistics.loss(projected) - loss) / energy
    if gap > tolerance:
        return gap, "the loss"
    velocity = flow.velocity(state)
    reduced = system.spread_out(system.velocity()[0])
    drive = _drive(table, alignment.strengths)
    speed_gap = np.zeros(table.modes)
    for row, (edge, (target, source)) in enumerate(alignment.ends.items()):
        moving = np.where(system.lumping.variables[row] >= 0, reduced[edge], 0.0)
        rest = velocity[edge] - (target * moving) @ source.T
        speed_gap = np.maximum(speed_gap, np.linalg.norm(rest @ source, axis=0))
        speed_gap = np.maximum(speed_gap, np.linalg.norm(rest.T @ target, axis=0))
    relative = np.divide(speed_gap, drive, out=np.zeros_like(drive), where=drive > 0)
    mode = int(np.argmax(relative)) if len(relative) else 0
    if len(relative) and relative[mode] > gap:
        return float(relative[mode]), f"the speed of mode {mode}"
    return gap, "the loss"


def _drive(table: PathTable, strengths: Mapping[Edge, np.ndarray]) -> np.ndarray:
    """The largest push that the correlations alone give any edge in a mode; (modes,)."""
    padded = np.vstack([[strengths[edge] for edge in table.edges], np.ones((1, table.modes))])
    factors = padded[table.route]  # (paths, longest, modes); -1 picks the row of ones
    total = np.zeros((len(table.edges) + 1, table.modes))
    for position in range(table.route.shape[1]):
        others = np.prod(np.delete(factors, position, axis=1), axis=1)
        np.add.at(total, table.route[:, position], np.abs(others * table.strengths))
    return np.asarray(total[:-1].max(axis=0, initial=0.0))


def handed_over(before: Evolution, after: Evolution, time: float) -> Evolution:
    """The exact flow up to a time, the reduction from there on, in the bases of the hand-over."""

    def both(kind: str, things: Sequence[Any], times: np.ndarray) -> list[np.ndarray]:
        early = times < time
        parts = [getattr(before, kind)(things, times[early])] if early.any() else []
        parts += [getattr(after, kind)(things, times[~early] - time)] if not early.all() else []
        return [np.concatenate(found) for found in zip(*parts, strict=True)]

    def weights(times: np.ndarray) -> list[dict[Edge, np.ndarray]]:
        early = times < time
        return before.weights(times[early]) + after.weights(times[~early] - time)

    return Evolution(weights, partial(both, "edges"), partial(both, "paths"))
