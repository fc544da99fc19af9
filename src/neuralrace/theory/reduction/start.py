"""The strengths from which the reduced system starts in the shared bases of a problem, and what that assumes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.shared_bases import shared_bases
from neuralrace.theory.alignment import (
    InitialStrength,
    align,
    balance,
    decoupled_weights,
    growing_strengths,
    is_two_layer,
)
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.evolution import ReducedEvolution, Strengths
from neuralrace.theory.method import Outcome, Request
from neuralrace.theory.reduction.path_table import PathTable, path_table
from neuralrace.theory.reduction.system import ReducedSystem, States


@dataclass(frozen=True, eq=False)
class Start:
    """Initial strengths of every draw, how they were had, and what turns strengths of each draw into weights."""

    source: str
    strengths: tuple[Strengths, ...]
    matrices: tuple[Callable[[Strengths], dict[Edge, np.ndarray]], ...]


@dataclass(frozen=True, eq=False)
class Reduced:
    """A reduced system, where its draws start, and the paths whose strengths it gives."""

    start: Start
    system: ReducedSystem
    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()

    def outcome(self, request: Request, states: States) -> Outcome:
        """What a solution says of losses and weights; the states last asked for are kept, for all draws."""
        last = lru_cache(maxsize=1)(lambda moments: states(np.frombuffer(moments)))

        def kept(times: np.ndarray) -> np.ndarray:
            return np.asarray(last(times.tobytes()))

        return Outcome(
            self.system.loss(kept(request.times)).T,
            tuple(ReducedEvolution(self.system, kept, d, turn) for d, turn in enumerate(self.start.matrices)),
            self.paths,
            reduction=self.system,
            initial_strength=InitialStrength.of_draws(self.start.source, self.start.strengths, request.law),
            notes=self.notes,
        )


def diagonalisability(request: Request) -> Assumption:
    """How far the statistics are from diagonal in the bases that come nearest."""
    statistic, residual = shared_bases(request.statistics).worst
    return Assumption("mutual diagonalisability", residual, request.tolerance, f"statistic {statistic}")


def find_start(request: Request, small: float) -> tuple[tuple[Assumption, ...], Start]:
    """The strengths that come nearest: read off decoupled weights, or those of what grows in small ones.

    The last assumption says whether they may be taken; where it fails, they are only a projection.
    """
    statistics, architecture = request.statistics, request.statistics.architecture
    shared = shared_bases(statistics)
    node, imbalance = max((balance(architecture, w) for w in request.weights), key=lambda entry: entry[1])
    aligned = [align(architecture, weights, shared) for weights in request.weights]
    edge, misfit = max((entry.worst for entry in aligned), key=lambda entry: entry[1])
    exact = misfit <= request.tolerance
    grows = not exact and is_two_layer(architecture)
    mixing, overlap = max(entry.mixing(architecture) for entry in aligned), "overlap of the modes in the hidden nodes"
    rows = (
        Assumption("balance", imbalance, small, f"node {node!r}", needed=False),
        Assumption("decoupling", mixing, request.tolerance, overlap, needed=exact),
        Assumption("alignment of initial weights", misfit, request.tolerance, f"edge {edge}", needed=not grows),
    )
    if not grows:
        source = "decoupled weights" if exact else "projected weights"
        matrices = tuple(partial(decoupled_weights, architecture, one.bases) for one in aligned)
        return rows, Start(source, tuple(one.strengths for one in aligned), matrices)
    growing = [growing_strengths(architecture, w, shared, statistics.once(path_table)) for w in request.weights]
    size, where = max((entry.size, entry.where) for entry in growing)
    size, where = max((size, where), (initial_output(request), "the initial output"))
    matrices = tuple(partial(decoupled_weights, architecture, one.bases) for one in growing)
    start = Start("growing direction", tuple(one.strengths for one in growing), matrices)
    return (*rows, Assumption("small initial weights", size, small, where)), start


def initial_output(request: Request) -> float:
    """How far the loss at the start is from that of output zero, relative to the larger; the worst draw."""
    silent = 0.5 * request.statistics.target_energy
    losses = [request.statistics.loss(one) for one in request.weights]
    return max(abs(loss - silent) / max(loss, silent, np.finfo(float).tiny) for loss in losses)


def lost_modes(table: PathTable, strengths: tuple[Mapping[Edge, np.ndarray], ...]) -> tuple[str, ...]:
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
