"""The assumptions of a reduced system and its initial strengths, in shared bases or in the paths' own modes."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from neuralrace.axes import Edge
from neuralrace.statistics import shared_bases
from neuralrace.theory.alignment import (
    Alignment,
    align_own,
    align_shared,
    growing_part,
    is_two_layer,
)
from neuralrace.theory.certificate import SADDLE, Assumption, first_failing
from neuralrace.theory.check import FLOOR
from neuralrace.theory.method import Outcome, Request
from neuralrace.theory.reduction.modes import listed_paths, off_diagonal, path_modes, paths_apart
from neuralrace.theory.reduction.system import ReducedSystem, StateCurves

SMALL = 1e-2  # tolerance of what holds in the limit of small initial weights
DIAGONAL = "own modes stay diagonal"
Rows = tuple[Assumption, ...]
Starts = tuple[Alignment, ...]  # one per draw


def reduced_system(request: Request, small: float, own: bool, force: bool) -> tuple[Rows, ReducedSystem | None]:
    """Measure what a reduced system needs, and set it up if all of that holds or is forced."""
    rows, source, starts = request.once(find_start, small, own, force)
    if own and starts:
        rows = (*rows, growing_apart(request, starts, small))
        rows = rows if force else (*rows, *request.once(_plainly_turning, starts, small))
    if not starts or (first_failing(rows) is not None and not force):
        return rows, None
    return rows, request.once(_system_of, source, starts, own)


def _system_of(request: Request, source: str, starts: Starts, own: bool) -> ReducedSystem:
    return ReducedSystem(request.statistics, source, starts, own)


def solved(request: Request, system: ReducedSystem) -> StateCurves:
    """The variables of a reduced system at any times since it began."""
    return system.solve(request.rtol, request.max_steps, request.descent)


def reduced_outcome(request: Request, system: ReducedSystem, states: StateCurves) -> Outcome:
    """Losses and weights of a solution, and whether nothing turns one mode of a path into another on the way."""
    last = lru_cache(maxsize=1)(lambda times: states(np.frombuffer(times)))  # asked for by each draw in turn

    def kept(times: np.ndarray) -> np.ndarray:
        return np.asarray(last(times.tobytes()))

    paths = tuple(request.statistics.open_paths)
    draws = tuple(system.evolution(kept, draw) for draw in range(len(system.starts)))
    rows: Rows = ()
    if system.own:
        by_draw = zip(*(draw.paths(paths, request.times) for draw in draws), strict=True)
        products = {path: np.concatenate(strengths) for path, strengths in zip(paths, by_draw, strict=True)}
        turning, place = off_diagonal(request.statistics, products)
        rows = (Assumption(DIAGONAL, turning, request.tolerance, place),)
    return Outcome(
        system.loss(kept(request.times)).T,
        draws,
        paths,
        rows,
        reduction=system,
        notes=_lost_modes(system),
    )


def _lost_modes(system: ReducedSystem) -> tuple[str, ...]:
    """Say which modes have a correlation to learn and no strength to start from."""
    terms, names = system.unlumped
    zeros = (np.pad(system.initial, ((0, 0), (0, 1)), constant_values=1.0)[:, terms.factors] == 0).sum(axis=2)
    wanted = np.abs(terms.strengths) > 1e-12 * max(float(np.abs(terms.strengths).max(initial=0.0)), 1e-300)
    stuck = (zeros >= 2).any(axis=0) & wanted
    if not stuck.any():
        return ()
    if stuck.all(where=wanted):
        return (SADDLE,)
    modes = ", ".join(map(str, sorted({names[v][1] for v in terms.factors[stuck, 0]})))
    return (
        f"modes {modes} start with no strength on some path (a hidden layer narrower than the number of modes, or "
        f"a zero initial strength): they are lost there and not learned",
    )


def shares_bases(request: Request) -> Assumption:
    """How far the statistics are from diagonal in the nearest shared bases."""
    statistic, residual = shared_bases(request.statistics).worst
    return Assumption("mutual diagonalizability", residual, request.tolerance, f"statistic {statistic}")


def find_start(request: Request, small: float, own: bool, force: bool) -> tuple[Rows, str, Starts]:
    """The strengths that come nearest to the initial weights; none where there are no modes to take them in.

    In shared bases they are read off decoupled weights, or are those of the growing part of small ones. If an
    assumption fails they are only a projection.
    """
    statistics = request.statistics
    rows: Rows = (statistics.once(listed_paths),)
    if rows[0].holds:
        rows = (*rows, *(statistics.once(paths_apart) if own else (shares_bases(request),)))
    if not rows[0].holds or (first_failing(rows) is not None and (own or not force)):
        return rows, "", ()
    if own:
        starts = tuple(align_own(statistics, weights) for weights in request.weights)
        residual, where = max((start.residual, start.where) for start in starts)
        if any(start.whole for start in starts):  # the part that does not grow must not show either
            residual, where = max((residual, where), (initial_output(request), "the initial output"))
        aligned = Assumption("alignment to own modes", residual, small, where)
        return (*rows, aligned, outside_modes(request, starts, small)), "growing direction of each path", starts
    starts = tuple(align_shared(statistics, weights) for weights in request.weights)
    residual, where = max((start.residual, start.where) for start in starts)
    exact = residual <= request.tolerance
    grows = not exact and is_two_layer(request.architecture)
    rows = (*rows, Assumption("alignment of initial weights", residual, request.tolerance, where, needed=not grows))
    if not grows:
        return rows, "decoupled weights" if exact else "projected weights", starts
    nodes = request.architecture.hidden
    starts = tuple(growing_part(statistics, weights, nodes, own=False) for weights in request.weights)
    size, where = max([*((start.residual, start.where) for start in starts), (initial_output(request), "the output")])
    tiny = Assumption("small initial weights", size, small, where)
    rows = (*rows, growing_apart(request, starts, small), tiny, outside_modes(request, starts, small))
    return rows, "growing direction", starts


def growing_apart(request: Request, starts: Starts, small: float) -> Assumption:
    """How much of the loss overlapping modes learn at another time than orthogonal ones would; the worst draw."""
    energy = max(request.statistics.target_energy, np.finfo(float).tiny)
    off = max(start.entangled for start in starts) / energy
    return Assumption("modes that grow apart", off, small, "when overlapping modes are learned")


def outside_modes(request: Request, starts: Starts, small: float) -> Assumption:
    """The loss that the initial weights outside the followed modes add, at first or once these are learned."""
    loss, scale, added = request.statistics.loss, request.once(smallest_loss), [0.0, 0.0]
    for start, weights in zip(starts, request.weights, strict=True):
        followed = start.weights(start.matrices)
        added[0] = max(added[0], abs(loss(weights) - loss(followed)) / scale)
        learned = start.weights(start.strengths | start.grown)
        added[1] = max(added[1], added_loss(request, learned, followed, weights))
    where = "the loss they add at first" if added[0] > added[1] else "the loss they add once the modes are learned"
    return Assumption("weights outside the modes", max(added), small, where)


def added_loss(
    request: Request,
    learned: Mapping[Edge, np.ndarray],
    followed: Mapping[Edge, np.ndarray],
    weights: Mapping[Edge, np.ndarray],
) -> float:
    """The second-order change of the loss by `weights - followed`, relative to that at the start or at zero output.

    The grown layers multiply the weights of other layers in directions without correlation. The first-order change
    averages out: it is learned along with the rest.
    """
    shifted = [{e: learned[e] + sign * (weights[e] - followed[e]) for e in learned} for sign in (1, -1)]
    change = 0.5 * sum(map(request.statistics.loss, shifted)) - request.statistics.loss(learned)
    return max(change, 0.0) / request.once(smallest_loss)


def smallest_loss(request: Request) -> float:
    """The loss at the start or at zero output, whichever is smaller: the scale of the error of a forecast."""
    silent = 0.5 * request.statistics.target_energy
    losses = [request.statistics.loss(weights) for weights in request.weights]
    return max(min(silent, *losses), FLOOR * silent, np.finfo(float).tiny)


def initial_output(request: Request) -> float:
    """How far the loss at the start is from that at zero output, relative to the larger; the worst draw."""
    silent = 0.5 * request.statistics.target_energy
    losses = [request.statistics.loss(one) for one in request.weights]
    return max(abs(loss - silent) / max(loss, silent, np.finfo(float).tiny) for loss in losses)


def _plainly_turning(request: Request, starts: Starts, small: float) -> Rows:
    """Say that own modes do not stay diagonal if two-layer paths show it by what each would learn alone.

    Then nothing needs to be solved to see it. The product of two equal layers is a logistic curve.
    """
    modes, products = path_modes(request.statistics, own=True), {}
    for path, one in modes.items():
        if len(path.edges) != 2:
            return ()
        layers = np.array([[start.strengths[edge] for edge in path.edges] for start in starts])
        begun = np.abs(np.prod(layers, axis=1))
        left = (one.reach - begun) * np.exp(-2 * one.strengths * request.end)
        products[path] = one.reach * begun / np.maximum(begun + left, np.finfo(float).tiny)
    turning, place = off_diagonal(request.statistics, products)
    if turning <= max(small, request.tolerance):
        return ()
    detail = f"{place}, with all learned that each would alone,"
    return (Assumption(DIAGONAL, turning, request.tolerance, detail),)
