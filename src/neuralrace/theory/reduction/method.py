"""The method `reduction`: one scalar per edge and mode (P1 eq. 10), lumped."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np

from neuralrace.architecture import Path
from neuralrace.theory.alignment import InitialStrength, decoupled_weights
from neuralrace.theory.certificate import Assumption, first_failing
from neuralrace.theory.evolution import HandedOver, ReducedEvolution
from neuralrace.theory.flow.matrix_flow import FlowFactory
from neuralrace.theory.flow.method import flow_evolution
from neuralrace.theory.method import Examined, Method, Outcome, Request
from neuralrace.theory.reduction.handover import Moment, follow_until_aligned
from neuralrace.theory.reduction.path_table import listed_paths, path_table
from neuralrace.theory.reduction.start import (
    Start,
    diagonalisability,
    find_start,
    find_system,
    initial_strength,
    lost_modes,
    lumping_symmetry,
)
from neuralrace.theory.reduction.system import ReducedSystem, States

BEFORE_THE_END = float(np.nextafter(1.0, 0.0))


@dataclass(frozen=True, eq=False)
class Reduced:
    """The reduced system of all draws, and where they start."""

    start: Start
    system: ReducedSystem


@dataclass(frozen=True, eq=False)
class Unaligned:
    """Weights that are neither decoupled nor small: the flow is followed until they align."""


@dataclass(frozen=True, repr=False)
class Reduction(Method[Reduced | Unaligned]):
    """Strengths in shared bases, for statistics that have such bases.

    They start from decoupled weights, from the growing part of small ones (two layers), or where the exact flow has
    aligned them. lump: keep one scalar for what evolves alike. symmetric: lump by the statistics alone and start each
    class at its mean. small: tolerance of what holds in the limit of small initial weights. atol: error of a strength
    that is always allowed. force: go on from time zero with the nearest strengths in the nearest bases although
    an assumption fails.
    """

    name: ClassVar[str] = "reduction"
    lump: bool = True
    symmetric: bool = False
    small: float = 1e-2
    atol: float = 0.0

    def assumptions(self, request: Request) -> Examined[Reduced | Unaligned]:
        """Shared bases, and a start in them."""
        listed = request.statistics.once(listed_paths)
        if not listed.holds:
            return Examined((listed,), None)
        diagonal = diagonalisability(request)
        if not diagonal.holds and not self.force:
            return Examined((listed, diagonal), None)
        rows, start = request.once(find_start, self.small)
        if not rows[-1].holds and diagonal.holds and request.descent is None:
            told = tuple(Assumption(r.name, r.residual, r.tolerance, r.detail, needed=False) for r in rows)
            return Examined((listed, diagonal, *told), Unaligned(), certain=False)
        if not rows[-1].holds and not self.force:
            return Examined((listed, diagonal, *rows), None)
        system = request.once(find_system, start, self.lump, self.symmetric, self.atol)
        symmetry = lumping_symmetry(request, system, self.symmetric, self.small)
        return Examined((listed, diagonal, *rows, symmetry), Reduced(start, system))

    def solve(self, request: Request, ground: Reduced | Unaligned) -> Outcome:
        """Integrate the reduced system, after the flow where the weights have yet to align.

        Where they do not and that is forced, the flow is left out: no curve is half of one and half of the other.
        """
        if isinstance(ground, Reduced):
            return reduced_outcome(request, ground.start, ground.system, solved(request, ground.system))
        outcome = self._after_flow(request)
        if not self.force or first_failing(outcome.assumptions) is None:
            return outcome
        start = request.once(find_start, self.small)[1]
        system = request.once(find_system, start, self.lump, self.symmetric, self.atol)
        alone = reduced_outcome(request, start, system, solved(request, system))
        return replace(alone, assumptions=outcome.assumptions)

    def _after_flow(self, request: Request) -> Outcome:
        architecture, factory = request.statistics.architecture, request.statistics.once(FlowFactory)
        moments: list[Moment] = []
        losses, draws = [], []
        for weights in request.weights:
            flow = factory.start(weights, request.end, request.rtol, self.atol)
            followed = follow_until_aligned(request, flow, tolerance=self.small, lump=self.lump)
            left = followed.moment
            bases = left.alignment.bases
            matrices = partial(decoupled_weights, architecture, bases)
            after = ReducedEvolution(left.system, solved(request, left.system, left.time), 0, matrices)
            before = flow_evolution(request, flow, partial(_ends, bases))
            early = request.times < left.time
            late = left.system.loss(after.states(request.times[~early] - left.time))[:, 0]
            losses.append([*(np.asarray(followed.curve.at(request.times[early])) + flow.constant), *late])
            draws.append(HandedOver(architecture, before, after, left.time, bases))
            moments.append(left)
        times = tuple(left.time for left in moments)
        values = {edge: np.array([left.alignment.strengths[edge] for left in moments]) for edge in architecture.edges}
        return Outcome(
            np.array(losses),
            tuple(draws),
            tuple(request.statistics.open_paths),
            _in_time(request, moments, self.small),
            moments[0].system,
            InitialStrength("hand-over", values, request.law),
            times,
            (f"the exact flow hands over to the reduction at time {', '.join(f'{t:.4g}' for t in times)}",),
        )


def solved(request: Request, system: ReducedSystem, begin: float = 0.0) -> States:
    """The variables of the reduced system at any times since it began, up to the end."""
    descent = request.descent
    if descent is None:
        return system.solve(request.end - begin, rtol=request.rtol, max_steps=request.max_steps)

    @lru_cache(maxsize=1)  # the times of the forecast are asked for again and again
    def states(moments: bytes) -> np.ndarray:
        return system.descend(descent.learning_rate, descent.steps(np.frombuffer(moments)))

    return lambda times: states(times.tobytes())


def reduced_outcome(request: Request, start: Start, system: ReducedSystem, states: States) -> Outcome:
    """What the strengths of all draws say, turned into weights by the bases of each."""
    architecture, table = request.statistics.architecture, request.statistics.once(path_table)
    draws = tuple(
        ReducedEvolution(system, states, draw, partial(decoupled_weights, architecture, bases))
        for draw, bases in enumerate(start.bases)
    )
    return Outcome(
        system.loss(states(request.times)).T,
        draws,
        table.paths,
        reduction=system,
        initial_strength=initial_strength(request, start),
        notes=lost_modes(table, start.strengths),
    )


def _ends(bases: Mapping[str, np.ndarray], path: Path) -> tuple[np.ndarray, np.ndarray]:
    return bases[path.target], bases[path.source]


def _in_time(request: Request, moments: list[Moment], small: float) -> tuple[Assumption, ...]:
    """That every draw aligned, and did so before the last time."""
    worst, last = max(moments, key=lambda m: m.residual), max(moments, key=lambda m: m.time)
    share = last.time / request.end if request.end > 0 else 1.0
    return (
        Assumption("aligned at hand-over", worst.residual, small, f"{worst.where}, at time {worst.time:.4g},"),
        Assumption("hand-over before the end", share, BEFORE_THE_END, f"the hand-over at {last.time:.4g} of the end"),
    )
