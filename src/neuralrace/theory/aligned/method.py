"""The method `aligned`: paths with singular vectors of their own (P2 appendix F), diagonal or whole strengths."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from neuralrace._engine.devices import map_on_devices
from neuralrace.theory.aligned.own_modes import off_diagonal, own_modes, own_start, own_table, paths_apart
from neuralrace.theory.aligned.path_flow import PathFactory
from neuralrace.theory.alignment import Alignment, InitialStrength
from neuralrace.theory.certificate import Assumption, first_failing
from neuralrace.theory.evolution import Evolution, matrix_evolution
from neuralrace.theory.flow.linear import own_vectors
from neuralrace.theory.flow.method import start_flow
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.reduction.method import (
    Reduced,
    Starts,
    growing_apart,
    initial_output,
    listed_paths,
    outside_modes,
    solved,
)
from neuralrace.theory.reduction.system import reduced_system

SOURCE = "growing direction of each path"
DIAGONAL = "own modes stay diagonal"


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

    @property
    def way(self) -> str:
        """One strength per mode, or whole matrices."""
        return "one strength per mode" if self.diagonal else "whole matrices"

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], Starts | None]:
        """Paths apart from each other, and weights that are aligned to their modes."""
        rows, starts = request.once(_find_start, self.small)
        if starts is not None:
            rows = (*rows, replace(growing_apart(request, starts, self.small), needed=self.diagonal))
            if self.diagonal and not self.force:
                rows = (*rows, *request.once(_plainly_turning, starts, self.small))
        return rows, starts

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
        vectors = partial(own_vectors, statistics)

        def followed(start: Alignment) -> tuple[np.ndarray, Evolution]:
            if factory is not None:
                few = factory.start(start, request.rtol, request.max_steps, self.keep or request.check is not False)
                return few.losses(request.times), matrix_evolution(few.weights_at, vectors, paths=few.strengths)
            flow = start_flow(request, start.weights(start.matrices))
            return flow.losses(request.times), matrix_evolution(flow.weights_at, vectors)

        losses, draws = zip(*map_on_devices(followed, starts), strict=True)
        return Outcome(
            np.array(losses),
            draws,
            tuple(modes),
            initial_strength=InitialStrength.of_draws(SOURCE, starts, request.known_strengths),
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
    rows = (*apart, Assumption("alignment to own modes", residual, small, where), outside_modes(request, starts, small))
    return (listed, *rows), starts


def _plainly_turning(request: Request, starts: Starts, small: float) -> tuple[Assumption, ...]:
    """That own modes stay diagonal, if it fails by far without solving: at what two-layer paths would learn alone."""
    modes = request.statistics.once(own_modes)
    if any(len(path.edges) != 2 for path in modes):
        return ()
    alone = {
        path: np.array([own.learned_alone(start.strengths, request.end) for start in starts])
        for path, own in modes.items()
    }
    turning, place = off_diagonal(request.statistics, alone)
    if turning <= max(small, request.tolerance):
        return ()
    return (Assumption(DIAGONAL, turning, request.tolerance, f"{place}, with all learned that each would alone,"),)


def staying_diagonal(request: Request, outcome: Outcome) -> Outcome:
    """Add whether nothing turns one mode of a path into another on the way."""
    modes = request.statistics.once(own_modes)
    by_draw = zip(*(draw.paths(tuple(modes), request.times) for draw in outcome.draws), strict=True)
    products = {path: np.concatenate(strengths) for path, strengths in zip(modes, by_draw, strict=True)}
    turning, place = off_diagonal(request.statistics, products)
    return replace(outcome, assumptions=(Assumption(DIAGONAL, turning, request.tolerance, place),))


def _find_reduced(request: Request, starts: Starts, lump: bool) -> Reduced:
    statistics = request.statistics
    system = reduced_system(statistics.once(own_table), [start.strengths for start in starts], lump=lump)
    return Reduced(SOURCE, starts, system, tuple(statistics.once(own_modes)))
