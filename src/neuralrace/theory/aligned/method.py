"""The method `aligned`: paths with singular vectors of their own (P2 appendix F), diagonal or whole strengths."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.path_statistics import PathStatistics
from neuralrace.theory.aligned.own_modes import (
    OwnStart,
    aligned_weights,
    off_diagonal,
    own_modes,
    own_start,
    own_table,
    paths_apart,
)
from neuralrace.theory.aligned.path_flow import PathFactory, PathFlow
from neuralrace.theory.alignment import InitialStrength
from neuralrace.theory.certificate import Assumption, first_failing
from neuralrace.theory.evolution import MatrixEvolution, ReducedEvolution
from neuralrace.theory.flow.matrix_flow import FlowFactory
from neuralrace.theory.flow.method import flow_evolution, flow_loss, own_vectors
from neuralrace.theory.method import Examined, Method, Outcome, Request
from neuralrace.theory.reduction.method import solved
from neuralrace.theory.reduction.path_table import listed_paths
from neuralrace.theory.reduction.start import initial_output
from neuralrace.theory.reduction.system import ReducedSystem, States, reduced_system

Starts = tuple[OwnStart, ...]  # one per draw


@dataclass(frozen=True, repr=False)
class Aligned(Method[Starts]):
    """Every path in its own modes, for paths that share no edge and no hidden node.

    diagonal: follow one strength per mode, which must stay alone, or whole matrices. lump: keep one scalar for what
    evolves alike. small: tolerance of what holds in the limit of small initial weights. atol: error of a strength that
    is always allowed.
    """

    name: ClassVar[str] = "aligned"
    diagonal: bool = True
    lump: bool = True
    small: float = 1e-2
    atol: float = 0.0

    def assumptions(self, request: Request) -> Examined[Starts]:
        """Paths apart from each other, and weights that are aligned to their modes."""
        rows, starts = request.once(find_own_start, self.small)
        return Examined(rows, starts, certain=not self.diagonal)

    def solve(self, request: Request, ground: Starts) -> Outcome:
        """The reduced system in the paths' own modes, or the flow of the aligned part of the weights."""
        if not self.diagonal:
            return self._whole(request, ground)
        system = request.once(find_own_system, ground, self.lump, self.atol)
        return diagonal_outcome(request, ground, system, solved(request, system))

    def _whole(self, request: Request, starts: Starts) -> Outcome:
        statistics, modes = request.statistics, request.statistics.once(own_modes)
        quick = request.descent is None and all(len(path.edges) == 2 for path in modes)
        losses, draws = [], []
        for start in starts:
            if quick:
                small = statistics.once(_path_factory).start(start.hidden, start.strengths, self.atol)
                losses.append(small.solve(request.times, rtol=request.rtol, max_steps=request.max_steps)[0])
                draws.append(_path_evolution(request, small))
            else:
                weights = aligned_weights(modes, statistics.architecture, start.hidden, start.strengths)
                flow = statistics.once(FlowFactory).start(weights, request.end, request.rtol, self.atol)
                losses.append(flow_loss(request, flow))
                draws.append(flow_evolution(request, flow))
        return Outcome(
            np.array(losses),
            tuple(draws),
            tuple(modes),
            initial_strength=_strength(request, starts),
            notes=("whole matrices are followed in each path's own modes",),
        )


def find_own_start(request: Request, small: float) -> tuple[tuple[Assumption, ...], Starts | None]:
    """The strengths of every path's own modes in each draw, where the paths have such modes."""
    listed = request.statistics.once(listed_paths)
    if not listed.holds:
        return (listed,), None
    apart = request.statistics.once(paths_apart)
    if first_failing(apart) is not None:
        return (listed, *apart), None
    modes = request.statistics.once(own_modes)
    starts = tuple(own_start(modes, weights) for weights in request.weights)
    worst = max(starts, key=lambda start: start.residual)
    residual, where = worst.residual, worst.where
    if any(start.grown for start in starts):  # what does not grow must not show either
        residual, where = max((residual, where), (initial_output(request), "the initial output"))
    return (listed, *apart, Assumption("alignment to own modes", residual, small, where)), starts


def find_own_system(request: Request, starts: Starts, lump: bool, atol: float) -> ReducedSystem:
    """The reduced system in the paths' own modes, from the aligned part of the weights."""
    table = request.statistics.once(own_table)
    return reduced_system(table, [start.strengths for start in starts], lump=lump, atol=atol)


def diagonal_outcome(request: Request, starts: Starts, system: ReducedSystem, states: States) -> Outcome:
    """Diagonal strengths, and whether nothing turns one mode into another on the way."""
    statistics, modes = request.statistics, request.statistics.once(own_modes)
    found = states(request.times)
    matrices = [partial(aligned_weights, modes, statistics.architecture, start.hidden) for start in starts]
    draws = tuple(ReducedEvolution(system, states, draw, own) for draw, own in enumerate(matrices))
    products = [dict(zip(modes, draw.paths(tuple(modes), request.times), strict=True)) for draw in draws]
    turning, place = max(off_diagonal(statistics, modes, one) for one in products)
    return Outcome(
        system.loss(found).T,
        draws,
        tuple(modes),
        (Assumption("own modes stay diagonal", turning, request.tolerance, place),),
        system,
        _strength(request, starts),
    )


def _strength(request: Request, starts: Starts) -> InitialStrength:
    values = {edge: np.array([start.strengths[edge] for start in starts]) for edge in starts[0].strengths}
    return InitialStrength("growing direction of each path", values, request.law)


def _path_factory(statistics: PathStatistics) -> PathFactory:
    return PathFactory(statistics, statistics.once(FlowFactory).bases, statistics.once(own_modes))


def _path_evolution(request: Request, flow: PathFlow) -> MatrixEvolution:
    modes = request.statistics.once(own_modes)

    def matrices(times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
        return flow.weights_at(times, rtol=request.rtol, max_steps=request.max_steps)

    def strengths(paths: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
        found = flow.solve(times, rtol=request.rtol, max_steps=request.max_steps)[1]
        return [found[:, flow.paths.index(path), : len(modes[path].strengths)] for path in paths]

    return MatrixEvolution(matrices, own_vectors(request.statistics), strengths)
