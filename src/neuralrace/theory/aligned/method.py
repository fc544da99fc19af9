"""The method `aligned`: paths with singular vectors of their own (P2 appendix F), diagonal or whole strengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from neuralrace._engine.devices import each_on_a_device
from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.path_statistics import PathStatistics
from neuralrace.theory.aligned.own_modes import (
    aligned_weights,
    off_diagonal,
    own_modes,
    own_start,
    own_table,
    paths_apart,
)
from neuralrace.theory.aligned.path_flow import PathFactory, PathFlow
from neuralrace.theory.alignment import Alignment, InitialStrength
from neuralrace.theory.evolution import MatrixEvolution
from neuralrace.theory.flow.method import flow_evolution, start_flow
from neuralrace.theory.method import Assumption, Examined, Method, Outcome, Request, first_failing
from neuralrace.theory.reduction.method import Reduced, Start, growing_apart, initial_output, listed_paths, solved
from neuralrace.theory.reduction.system import reduced_system

Starts = tuple[Alignment, ...]  # one per draw
SOURCE = "growing direction of each path"


@dataclass(frozen=True, repr=False)
class Aligned(Method[Starts]):
    """Every path in its own modes, for paths that share no edge and no hidden node.

    diagonal: follow one strength per mode, which must stay alone, or whole matrices. lump: keep one scalar for what
    evolves alike. small: tolerance of what holds in the limit of small initial weights. keep: whole matrices are kept
    on the way, for who asks for weights, which are otherwise followed once more.
    """

    name: ClassVar[str] = "aligned"
    diagonal: bool = True
    lump: bool = True
    small: float = 1e-2
    keep: bool = False

    def assumptions(self, request: Request) -> Examined[Starts]:
        """Paths apart from each other, and weights that are aligned to their modes."""
        rows, starts = request.once(_find_start, self.small)
        if starts is not None:
            rows = (*rows, replace(growing_apart(request, starts, self.small), needed=self.diagonal))
        return Examined(rows, starts, certain=not self.diagonal)

    def solve(self, request: Request, ground: Starts) -> Outcome:
        """The reduced system in the paths' own modes, or the flow of the aligned part of the weights."""
        if not self.diagonal:
            return self._whole(request, ground)
        reduced = self.reduced(request, ground)
        return staying_diagonal(request, reduced.outcome(request, solved(request, reduced.system)))

    def reduced(self, request: Request, starts: Starts) -> Reduced:
        """The reduced system in the paths' own modes, from the aligned part of the weights."""
        return request.once(_find_reduced, starts, self.lump)

    def _whole(self, request: Request, starts: Starts) -> Outcome:
        statistics, modes = request.statistics, request.statistics.once(own_modes)
        quick = request.descent is None and all(len(path.edges) == 2 for path in modes)
        factory = statistics.once(PathFactory) if quick else None

        def followed(start: Alignment) -> tuple[np.ndarray, MatrixEvolution]:
            matrices = _diagonal(start.strengths) | dict(start.whole)
            if factory is not None:
                small = factory.start(start.bases, matrices, request.rtol, request.max_steps, self.keep)
                return small.solve(request.times)[0], _path_evolution(request, small)
            weights = aligned_weights(modes, statistics.architecture, start.bases, matrices)
            flow = start_flow(request, weights)
            return flow.losses(request.times), flow_evolution(request, flow)

        losses, draws = zip(*each_on_a_device(followed, starts), strict=True)
        return Outcome(
            np.array(losses),
            draws,
            tuple(modes),
            initial_strength=InitialStrength.of_draws(SOURCE, [start.strengths for start in starts], request.law),
            notes=("whole matrices are followed in each path's own modes",),
        )


def _find_start(request: Request, small: float) -> tuple[tuple[Assumption, ...], Starts | None]:
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
    if any(start.whole for start in starts):  # what does not grow must not show either
        residual, where = max((residual, where), (initial_output(request), "the initial output"))
    return (listed, *apart, Assumption("alignment to own modes", residual, small, where)), starts


def staying_diagonal(request: Request, outcome: Outcome) -> Outcome:
    """Add whether nothing turns one mode of a path into another on the way."""
    modes = request.statistics.once(own_modes)
    by_draw = zip(*(draw.paths(tuple(modes), request.times) for draw in outcome.draws), strict=True)
    products = {path: np.concatenate(strengths) for path, strengths in zip(modes, by_draw, strict=True)}
    turning, place = off_diagonal(request.statistics, modes, products)
    return replace(outcome, assumptions=(Assumption("own modes stay diagonal", turning, request.tolerance, place),))


def _find_reduced(request: Request, starts: Starts, lump: bool) -> Reduced:
    statistics, modes = request.statistics, request.statistics.once(own_modes)
    strengths = tuple(start.strengths for start in starts)
    matrices = tuple(partial(_diagonal_weights, statistics, start) for start in starts)
    system = reduced_system(statistics.once(own_table), strengths, lump=lump)
    return Reduced(Start(SOURCE, strengths, matrices), system, tuple(modes))


def _diagonal_weights(
    statistics: PathStatistics, start: Alignment, strengths: Mapping[Edge, np.ndarray]
) -> dict[Edge, np.ndarray]:
    modes = statistics.once(own_modes)
    return aligned_weights(modes, statistics.architecture, start.bases, _diagonal(strengths))


def _diagonal(strengths: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
    return {edge: np.diag(values) for edge, values in strengths.items()}


def _path_evolution(request: Request, flow: PathFlow) -> MatrixEvolution:
    modes = request.statistics.once(own_modes)

    def strengths(paths: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
        found = flow.solve(times)[1]
        return [found[:, flow.paths.index(path), : len(modes[path].strengths)] for path in paths]

    return MatrixEvolution(flow.weights_at, lambda path: (modes[path].output, modes[path].input), strengths)
