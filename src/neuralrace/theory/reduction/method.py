"""The method `reduction`: one scalar per edge and mode (P1 eq. 10), lumped; and the set-up of every reduced system.

The closed forms and the aligned paths use it too, in shared bases or in the paths' own modes.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from neuralrace.architecture import edge_name
from neuralrace.statistics import shared_bases
from neuralrace.theory.alignment import (
    Alignment,
    align_own,
    align_shared,
    growing_part,
    growing_tied,
    is_two_layer,
)
from neuralrace.theory.certificate import SADDLE, Assumption, first_failing
from neuralrace.theory.check import FLOOR
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.reduction.system import ReducedSystem, StateCurves
from neuralrace.theory.reduction.terms import listed_paths, off_diagonal, path_modes, paths_apart
from neuralrace.weights import Free

SMALL = 1e-2  # tolerance of what holds in the limit of small initial weights
DIAGONAL = "own modes stay diagonal"
Rows = tuple[Assumption, ...]
Starts = tuple[Alignment, ...]  # one per draw


@dataclass(frozen=True, repr=False)
class Reduction(Method[ReducedSystem]):
    """Strengths in shared bases, for statistics that have such bases.

    They start from decoupled weights, or from the growing part of small ones (two layers). small: tolerance of what
    holds in the limit of small initial weights. With `force` it starts with the nearest strengths in the nearest bases.
    """

    name: ClassVar[str] = "reduction"
    small: float = SMALL

    def setup(self, request: Request) -> tuple[Rows, ReducedSystem | None]:
        """Require shared bases, and initial strengths in them."""
        return reduced_system(request, self.small, own=False, force=self.force)

    def solve(self, request: Request, prepared: ReducedSystem) -> Outcome:
        """Integrate the reduced system."""
        return reduced_outcome(request, prepared)


def reduced_system(request: Request, small: float, own: bool, force: bool) -> tuple[Rows, ReducedSystem | None]:
    """Measure the assumptions of a reduced system, and set it up where there are modes to follow.

    It starts from the strengths that come nearest to the initial weights. In shared bases they are read off decoupled
    weights, or are those of the growing part of small ones. If an assumption fails they are only a projection.
    """
    key = (small, own, force)
    if key not in request.reduced:
        request.reduced[key] = _set_up(request, *key)
    found: tuple[Rows, ReducedSystem | None] = request.reduced[key]
    return found


def _set_up(request: Request, small: float, own: bool, force: bool) -> tuple[Rows, ReducedSystem | None]:
    statistics, hidden = request.statistics, request.architecture.hidden
    rows: Rows = (statistics.once(listed_paths),)
    if rows[0].holds:
        rows = (*rows, *(statistics.once(paths_apart) if own else (shares_bases(request),)))
    rows = (*rows, *free_matrices(request, own)) if request.architecture.weights else rows
    if not rows[0].holds or (first_failing(rows) is not None and (own or not force)):
        return rows, None
    if request.architecture.weights:
        return _set_up_tied(request, rows, small)
    starts = tuple((align_own if own else align_shared)(statistics, weights) for weights in request.weights)
    residual, where = max((start.residual, start.where) for start in starts)
    grows = not own and residual > request.tolerance and is_two_layer(request.architecture)
    if not own:
        rows = (*rows, Assumption("alignment of initial weights", residual, request.tolerance, where, needed=not grows))
        if not grows:
            return rows, ReducedSystem(statistics, starts, own)
    silent = 0.5 * statistics.target_energy
    losses = [statistics.loss(weights) for weights in request.weights]
    output = max(abs(loss - silent) / max(loss, silent, np.finfo(float).tiny) for loss in losses)
    if own:
        if any(start.whole for start in starts):  # the part that does not grow must not show either
            residual, where = max((residual, where), (output, "the initial output"))
        rows = (*rows, Assumption("alignment to own modes", residual, small, where))
    else:
        starts = tuple(growing_part(statistics, weights, hidden, own=False) for weights in request.weights)
        size, where = max([*((start.residual, start.where) for start in starts), (output, "the output")])
        rows = (*rows, Assumption("small initial weights", size, small, where))
    # of overlapping modes and orthogonal ones, in the worst draw
    apart = max(start.entangled for start in starts) / max(2 * silent, np.finfo(float).tiny)
    rows = (
        *rows,
        _outside_modes(request, starts, losses, small),
        Assumption("modes that grow apart", apart, small, "when overlapping modes are learned"),
    )
    return rows, ReducedSystem(statistics, starts, own)


def free_matrices(request: Request, own: bool) -> Rows:
    """Require matrices that are free, shared or transposed, and small weights around one hidden layer."""
    graph = request.architecture
    for edge in graph.weights:
        if own or not isinstance(graph.maps[edge][1], Free):
            return (Assumption("free weight matrices", 1.0, 0.0, f"edge {edge_name(edge)} has {graph.weights[edge]}"),)
    layers = [group for group in graph.united if group[0] in graph.hidden]
    named = ", ".join(map(str, layers))
    return (Assumption("one hidden layer, shared over time or not", len(layers) - 1, 0.0, f"there are {named}"),)


def _set_up_tied(request: Request, rows: Rows, small: float) -> tuple[Rows, ReducedSystem | None]:
    """Start from the growing part of small weights that edges share: modes stay scalars, with repeated factors."""
    statistics, silent = request.statistics, 0.5 * request.statistics.target_energy
    starts = tuple(growing_tied(statistics, weights) for weights in request.weights)
    if not all(start.strengths.keys() >= set(request.architecture.parameters) for start in starts):
        where = "no hidden node joins an input to an output directly"
        return (*rows, Assumption("a path of two layers", 1.0, 0.0, where)), None
    size, where = max((start.residual, start.where) for start in starts)
    rows = (*rows, Assumption("small initial weights", size, small, where))
    apart = max(start.entangled for start in starts) / max(2 * silent, np.finfo(float).tiny)
    rows = (*rows, Assumption("modes that grow apart", apart, small, "when overlapping modes are learned"))
    return rows, ReducedSystem(statistics, starts)


def shares_bases(request: Request) -> Assumption:
    """How far the statistics are from diagonal in the nearest shared bases."""
    statistic, residual = shared_bases(request.statistics).worst
    return Assumption("mutual diagonalizability", residual, request.tolerance, f"statistic {statistic}")


def _outside_modes(request: Request, starts: Starts, losses: list[float], small: float) -> Assumption:
    """The loss that the initial weights outside the followed modes add, at first or once these are learned.

    Later it is the second-order change: the grown layers multiply the weights of other layers in directions without
    correlation. The first-order change averages out, because it is learned along with the rest. Both are relative to
    the loss at the start or at zero output, whichever is smaller: the scale of the error of a forecast.
    """
    loss, silent, added = request.statistics.loss, 0.5 * request.statistics.target_energy, [0.0, 0.0]
    scale = max(min(silent, *losses), FLOOR * silent, np.finfo(float).tiny)
    for start, weights, begun in zip(starts, request.weights, losses, strict=True):
        followed, learned = start.weights(start.matrices), start.weights(start.strengths | start.grown)
        shifted = [{e: learned[e] + sign * (weights[e] - followed[e]) for e in learned} for sign in (1, -1)]
        change = 0.5 * sum(map(loss, shifted)) - loss(learned)
        added = [max(added[0], abs(begun - loss(followed)) / scale), max(added[1], change / scale)]
    where = "the loss they add at first" if added[0] > added[1] else "the loss they add once the modes are learned"
    return Assumption("weights outside the modes", max(added), small, where)


def plainly_turning(request: Request, starts: Starts, small: float) -> Rows:
    """Report that own modes do not stay diagonal if this shows in what each two-layer path would learn alone.

    This needs no solution of the system. The product of two equal layers is a logistic curve.
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
    return (Assumption(DIAGONAL, turning, request.tolerance, f"{place}, with every mode learned as if alone,"),)


def reduced_outcome(request: Request, system: ReducedSystem, formula: StateCurves | None = None) -> Outcome:
    """Losses and weights of a solution, integrated where there is no formula.

    Also whether anything turns one mode of a path into another on the way.
    """
    found = formula or system.solve(request.rtol, request.max_steps, request.descent)
    last = lru_cache(maxsize=1)(lambda times: found(np.frombuffer(times)))  # each draw takes them in turn

    def kept(times: np.ndarray) -> np.ndarray:
        return np.asarray(last(times.tobytes()))

    paths = tuple(request.statistics.open_paths)
    draws = tuple(system.evolution(kept, draw) for draw in range(len(system.starts)))
    states = kept(request.times)
    rows: Rows = (modes_at_rest(request, system, float(np.abs(states).max(initial=0.0)) or 1.0),)
    if system.own:
        by_draw = zip(*(draw.paths(paths, request.times) for draw in draws), strict=True)
        products = {path: np.concatenate(strengths) for path, strengths in zip(paths, by_draw, strict=True)}
        turning, place = off_diagonal(request.statistics, products)
        rows = (*rows, Assumption(DIAGONAL, turning, request.tolerance, place))
    losses = system.loss(states).T
    return Outcome(losses, draws, paths, rows, reduction=system, notes=_lost_modes(system))


def _stuck(system: ReducedSystem) -> tuple[np.ndarray, np.ndarray]:
    """Which terms have a correlation to learn, and of these two layers or more without strength, (draws, terms)."""
    terms, _ = system.unlumped
    zeros = (np.pad(system.initial, ((0, 0), (0, 1)), constant_values=1.0)[:, terms.factors] == 0).sum(axis=2)
    wanted = np.abs(terms.strengths) > 1e-12 * max(float(np.abs(terms.strengths).max(initial=0.0)), 1e-300)
    return wanted, (zeros >= 2) & wanted


def modes_at_rest(request: Request, system: ReducedSystem, largest: float) -> Assumption:
    """Bound what modes without strength may grow to from weights that are too small to be told from rounding.

    They grow no faster than exponentially, at the sum of the correlations of all terms of a layer, times the largest
    strength of each further layer. A mode that has no hidden direction left has nothing to grow from.
    """
    terms, names = system.unlumped
    (_, stuck), worst, where = _stuck(system), 0.0, "every mode"
    rates = np.append(terms.through @ np.abs(terms.strengths), 0.0)[terms.factors].max(axis=1)
    hidden = request.architecture.hidden
    for start, weights, rest in zip(system.starts, request.weights, stuck, strict=True):
        if not rest.any():
            continue
        followed = start.weights(start.matrices)
        for term in map(int, np.flatnonzero(rest)):
            further = largest ** max(len(terms.of(term)) - 2, 0)
            for edge, mode in (names[v] for v in terms.of(term)):
                nodes = request.architecture.edges.get(edge, ("", ""))  # shared ones have no nodes of their own
                ends = zip(nodes, start.ends[edge][::-1], strict=True)
                if any(node in hidden and basis.any(axis=0).sum() == len(basis) for node, basis in ends):
                    continue
                left_out = float(np.linalg.norm(weights[edge] - followed[edge]))
                grown = left_out * np.exp(min(rates[term] * further * request.end, 600.0)) / largest
                if grown > worst:
                    worst, where = grown, f"mode {mode} of edge {edge_name(edge)}, relative to the largest strength,"
    return Assumption("modes without strength", worst, 0.1, where)


def _lost_modes(system: ReducedSystem) -> tuple[str, ...]:
    """Say which modes have a correlation to learn and no strength to start from."""
    (terms, names), (wanted, in_draws) = system.unlumped, _stuck(system)
    stuck = in_draws.any(axis=0)
    if not stuck.any():
        return ()
    if stuck.all(where=wanted):
        return (SADDLE,)
    modes = ", ".join(map(str, sorted({names[v][1] for v in terms.factors[stuck, 0]})))
    return (
        f"modes {modes} start with no strength on some path (a hidden layer narrower than the number of modes, or "
        f"a zero initial strength): they are lost there and not learned",
    )
