"""The method `reduction`: one scalar per edge and mode (P1 eq. 10), lumped; where it starts, and how it is solved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from neuralrace._engine.devices import map_on_devices
from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.statistics import PathStatistics, shared_bases
from neuralrace.theory.alignment import (
    Alignment,
    InitialStrength,
    align,
    balance,
    growing_strengths,
    is_two_layer,
)
from neuralrace.theory.certificate import Assumption, first_failing
from neuralrace.theory.check import FLOOR
from neuralrace.theory.evolution import Evolution, matrix_evolution
from neuralrace.theory.flow.method import start_flow
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.reduction.handover import Look, follow_until_aligned, handed_over
from neuralrace.theory.reduction.path_table import PathTable, path_table
from neuralrace.theory.reduction.system import ReducedSystem, StateCurves, reduced_evolution, reduced_system

PAIR_LIMIT = 4_000_000
Starts = tuple[Alignment, ...]  # one per draw
Nearest = tuple[str, Starts]  # what comes nearest to weights that have yet to align, and how it was had


@dataclass(frozen=True, eq=False)
class Reduced:
    """A reduced system, how the starts of its draws were had, and the paths whose strengths it gives."""

    source: str
    starts: Starts
    system: ReducedSystem
    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()

    def outcome(self, request: Request, states: StateCurves) -> Outcome:
        """What a solution says of losses and weights; the states last asked for are kept, for all draws."""
        last = lru_cache(maxsize=1)(lambda moments: states(np.frombuffer(moments)))

        def kept(times: np.ndarray) -> np.ndarray:
            return np.asarray(last(times.tobytes()))

        return Outcome(
            self.system.loss(kept(request.times)).T,
            tuple(reduced_evolution(self.system, kept, d, start) for d, start in enumerate(self.starts)),
            self.paths,
            reduction=self.system,
            initial_strength=InitialStrength.of_draws(self.source, self.starts, request.known_strengths),
            notes=self.notes,
        )


def listed_paths(statistics: PathStatistics) -> Assumption:
    """Whether some path is open, and few enough of them and of their interacting pairs to be listed; lists none."""
    architecture = statistics.architecture
    everywhere = np.zeros(statistics.configuration_count)
    ways: dict[str, np.ndarray] = {}  # node -> open ways to it in each configuration
    for node in architecture.order:
        ways[node] = everywhere + (node in architecture.inputs)
        for edge in architecture.incoming[node]:
            ways[node] = ways[node] + (statistics.edge_gates[edge] != 0) * ways[architecture.source(edge)]
    into = np.array([ways[node] for node in architecture.outputs])
    pairs, together = float((into**2).sum()), float(into.sum(axis=0).max(initial=0.0))
    if together == 0:
        return Assumption("open paths", 1.0, 0.0, "at least one path must be open for some example; none is")
    few = pairs <= PAIR_LIMIT and together <= statistics.limit and statistics.listable
    detail = (
        f"{len(statistics.open_paths):,} open path(s)"
        if few
        else f"at most {PAIR_LIMIT:,} interacting pairs of {statistics.limit:,} paths can be listed; this problem has "
        f"{pairs:,.0f} pairs and {architecture.count_paths():,} paths"
    )
    return Assumption("paths that can be listed", 0.0 if few else 1.0, 0.0, detail)


def diagonalizability(request: Request) -> Assumption:
    """How far the statistics are from diagonal in the bases that come nearest."""
    statistic, residual = shared_bases(request.statistics).worst
    return Assumption("mutual diagonalizability", residual, request.tolerance, f"statistic {statistic}")


def find_start(request: Request, small: float) -> tuple[tuple[Assumption, ...], str, Starts]:
    """The strengths that come nearest: read off decoupled weights, or those of what grows in small ones; and which.

    The assumptions say whether they may be taken; where one fails, they are only a projection.
    """
    statistics, architecture = request.statistics, request.statistics.architecture
    shared = shared_bases(statistics)
    node, imbalance = max((balance(architecture, w) for w in request.weights), key=lambda entry: entry[1])
    found = [align(architecture, weights, shared) for weights in request.weights]
    worst = max(found, key=lambda one: one.residual)
    exact = worst.residual <= request.tolerance
    grows = not exact and is_two_layer(architecture)
    overlap = max(one.mixing(w) for one, w in zip(found, request.weights, strict=True))
    where = "overlap of the modes in the hidden nodes"
    rows: tuple[Assumption, ...] = (
        Assumption("balance", imbalance, small, f"node {node!r}", needed=False),
        Assumption("decoupling", overlap, request.tolerance, where, needed=exact),
        Assumption("alignment of initial weights", worst.residual, request.tolerance, worst.where, needed=not grows),
    )
    source = "decoupled weights" if exact else "projected weights"
    if grows:
        source, table = "growing direction", statistics.once(path_table)
        found = [growing_strengths(architecture, weights, shared, table) for weights in request.weights]
        sizes = [(one.residual, one.where) for one in found]
        size, where = max([*sizes, (initial_output(request), "the initial output")])
        rows = (*rows, growing_apart(request, found, small), Assumption("small initial weights", size, small, where))
        rows = (*rows, outside_modes(request, found, small))
    return rows, source, tuple(found)


def growing_apart(request: Request, starts: Sequence[Alignment], small: float) -> Assumption:
    """How much of the loss modes that overlap learn at another time than orthogonal ones would; the worst draw."""
    energy = max(request.statistics.target_energy, np.finfo(float).tiny)
    off = max(start.entangled for start in starts) / energy
    return Assumption("modes that grow apart", off, small, "when overlapping modes are learned")


def outside_modes(request: Request, starts: Sequence[Alignment], small: float) -> Assumption:
    """The loss that the initial weights outside the followed modes add, at first or once these are learned."""
    added = {"the loss they add once the modes are learned": 0.0, "the loss they add at first": 0.0}
    for start, weights in zip(starts, request.weights, strict=True):
        followed = start.weights(start.matrices)
        later = added_loss(request, start.weights({**start.strengths, **start.grown}), followed, weights)
        first = abs(np.subtract(*_losses(request, weights, followed))) / request.once(smallest_loss)
        added = {name: max(worst, here) for (name, worst), here in zip(added.items(), (later, first), strict=True)}
    where = max(added, key=lambda name: added[name])
    return Assumption("weights outside the modes", added[where], small, where)


def added_loss(
    request: Request,
    learned: Mapping[Edge, np.ndarray],
    followed: Mapping[Edge, np.ndarray],
    weights: Mapping[Edge, np.ndarray],
) -> float:
    """The second-order change of the loss by `weights - followed`, relative to that at the start or at zero output.

    The grown layers multiply what the other layers hold in directions without correlation. The first-order change
    averages out: it is learned along with the rest.
    """
    shifted = [{e: learned[e] + sign * (weights[e] - followed[e]) for e in learned} for sign in (1, -1)]
    one, other, between = _losses(request, *shifted, learned)
    return float(max(0.5 * (one + other) - between, 0.0)) / request.once(smallest_loss)


def _losses(request: Request, *sets: Mapping[Edge, np.ndarray]) -> np.ndarray:
    return request.statistics.losses({edge: np.stack([one[edge] for one in sets]) for edge in sets[0]})


def smallest_loss(request: Request) -> float:
    """The loss at the start or at zero output, whichever is smaller: what the error of a forecast is measured by."""
    silent = 0.5 * request.statistics.target_energy
    losses = [request.statistics.loss(weights) for weights in request.weights]
    return max(min(silent, *losses), FLOOR * silent, np.finfo(float).tiny)


def initial_output(request: Request) -> float:
    """How far the loss at the start is from that of output zero, relative to the larger; the worst draw."""
    silent = 0.5 * request.statistics.target_energy
    losses = [request.statistics.loss(one) for one in request.weights]
    return max(abs(loss - silent) / max(loss, silent, np.finfo(float).tiny) for loss in losses)


def lost_modes(table: PathTable, strengths: Sequence[Mapping[Edge, np.ndarray]]) -> tuple[str, ...]:
    """Say which modes have a correlation to learn and no strength to start from."""
    start = np.array([[draw[edge] for edge in table.edges] for draw in strengths])
    padded = np.concatenate([start, np.ones((len(start), 1, table.modes))], axis=1)
    zeros = (padded[:, table.route] == 0).sum(axis=2)  # (draws, paths, modes)
    wanted = np.abs(table.strengths) > 1e-12 * max(float(np.abs(table.strengths).max(initial=0.0)), 1e-300)
    stuck = (zeros >= 2).any(axis=0) & wanted
    if stuck.all(where=wanted) and wanted.any():
        return ("all initial strengths are zero: a saddle, where the loss stays that of output zero",)
    if not stuck.any():
        return ()
    modes = ", ".join(map(str, np.flatnonzero(stuck.any(axis=0))))
    return (
        f"modes {modes} start with no strength on some path (a hidden layer narrower than the number of modes, or "
        f"a zero initial strength): they are lost there and not learned",
    )


BEFORE_THE_END = float(np.nextafter(1.0, 0.0))


@dataclass(frozen=True, repr=False)
class Reduction(Method[Reduced | Nearest]):
    """Strengths in shared bases, for statistics that have such bases.

    They start from decoupled weights, from the growing part of small ones (two layers), or where the exact flow has
    aligned them. lump: keep one scalar for what evolves alike. symmetric: lump by the statistics alone and start each
    class at its mean. handover: follow the flow where weights have yet to align. small: tolerance of what holds in the
    limit of small initial weights. With `force` it goes on from time zero with the nearest strengths in the nearest
    bases.
    """

    name: ClassVar[str] = "reduction"
    lump: bool = True
    symmetric: bool = False
    handover: bool = True
    small: float = 1e-2

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], Reduced | Nearest | None]:
        """Shared bases, and a start in them."""
        listed = request.statistics.once(listed_paths)
        if not listed.holds:
            return (listed,), None
        diagonal = diagonalizability(request)
        if not diagonal.holds and not self.force:
            return (listed, diagonal), None
        rows, source, starts = request.once(find_start, self.small)
        rows, aligned = (listed, diagonal, *rows), first_failing(rows) is None
        if not aligned and self.handover and diagonal.holds and request.descent is None:
            known = (*rows[:2], *(replace(row, needed=False) for row in rows[2:]))
            return known, (source, starts)
        if not aligned and not self.force:
            return rows, None
        reduced = self._reduced(request, source, starts)
        return (*rows, self._symmetry(request, reduced.system)), reduced

    def solve(self, request: Request, ground: Reduced | Nearest) -> Outcome:
        """Integrate the reduced system, after the flow where the weights have yet to align.

        Where they do not and that is forced, the flow is left out: no curve is half of one and half of the other.
        """
        if isinstance(ground, Reduced):
            return ground.outcome(request, solved(request, ground.system))
        outcome = self._after_flow(request)
        if not self.force or first_failing(outcome.assumptions) is None:
            return outcome
        reduced = self._reduced(request, *ground)
        alone = reduced.outcome(request, solved(request, reduced.system))
        return replace(alone, assumptions=outcome.assumptions)

    def _reduced(self, request: Request, source: str, starts: Starts) -> Reduced:
        return request.once(_find_reduced, source, starts, self.lump, self.symmetric)

    def _symmetry(self, request: Request, system: ReducedSystem) -> Assumption:
        """How far the members of a class are from starting alike."""
        if self.symmetric:
            detail = "initial strengths within a class, taken at their mean,"
            return Assumption("lumping symmetry", system.asymmetry, self.small, detail)
        count = f"{system.lumping.variable_count} variable(s), exact"
        return Assumption("lumping symmetry", 0.0, request.tolerance, count)

    def _after_flow(self, request: Request) -> Outcome:
        def followed(weights: Mapping[Edge, np.ndarray]) -> tuple[list[float], tuple[Evolution, Evolution], Look]:
            flow = start_flow(request, weights)
            left, curve = follow_until_aligned(request, flow, tolerance=self.small, lump=self.lump)
            states = solved(request, left.system)
            after = reduced_evolution(left.system, states, 0, left.alignment)
            before = matrix_evolution(flow.weights_at, left.alignment.of_path, left.alignment.ends)
            early = request.times < left.time
            late = left.system.loss(states(request.times[~early] - left.time))[:, 0]
            losses = [*(np.asarray(curve.at(request.times[early]))[:, 0] + flow.constant), *late]
            return losses, (before, after), left

        losses, draws, moments = zip(*map_on_devices(followed, request.weights), strict=True)
        times = tuple(left.time for left in moments)
        added = [
            self._added_after(request, before, after, time) for (before, after), time in zip(draws, times, strict=True)
        ]
        outside = Assumption("weights left at hand-over", max(added), self.small, "the loss they add by the end")
        return Outcome(
            np.array(losses),
            tuple(handed_over(before, after, time) for (before, after), time in zip(draws, times, strict=True)),
            tuple(request.statistics.open_paths),
            (*_in_time(request, moments, self.small), outside),
            moments[0].system,
            InitialStrength.of_draws("hand-over", [left.alignment for left in moments], request.known_strengths),
            times,
            (f"the exact flow hands over to the reduction at time {', '.join(f'{t:.4g}' for t in times)}",),
        )

    def _added_after(self, request: Request, before: Evolution, after: Evolution, time: float) -> float:
        """The loss that the weights dropped at the hand-over would add at the end."""
        at = np.array([time])
        (followed,), (weights,) = after.weights(at - time), before.weights(at)
        (learned,) = after.weights(np.array([max(request.end - time, 0.0)]))
        return added_loss(request, learned, followed, weights)


def solved(request: Request, system: ReducedSystem) -> StateCurves:
    """The variables of the reduced system at any times since it began."""
    return system.solve(request.rtol, request.max_steps, request.descent)


def _find_reduced(request: Request, source: str, starts: Starts, lump: bool, symmetric: bool) -> Reduced:
    table, strengths = request.statistics.once(path_table), [start.strengths for start in starts]
    system = reduced_system(table, strengths, lump=lump, symmetric=symmetric)
    return Reduced(source, starts, system, table.paths, lost_modes(table, strengths))


def _in_time(request: Request, moments: Sequence[Look], small: float) -> tuple[Assumption, ...]:
    """That every draw aligned, and did so before the last time."""
    worst, last = max(moments, key=lambda m: m.residual), max(moments, key=lambda m: m.time)
    share = last.time / request.end if request.end > 0 else 1.0
    return (
        Assumption("aligned at hand-over", worst.residual, small, f"{worst.where}, at time {worst.time:.4g},"),
        Assumption("hand-over before the end", share, BEFORE_THE_END, f"the hand-over at {last.time:.4g} of the end"),
    )
