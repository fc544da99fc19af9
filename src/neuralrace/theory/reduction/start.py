"""The strengths from which the reduced system starts in the shared bases of a problem, and what that assumes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.shared_bases import shared_bases
from neuralrace.theory.alignment import Alignment, InitialStrength, align, balance, growing_strengths, is_two_layer
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.method import Request
from neuralrace.theory.reduction.path_table import PathTable, path_table
from neuralrace.theory.reduction.system import ReducedSystem, reduced_system


@dataclass(frozen=True, eq=False)
class Start:
    """Initial strengths and bases of every draw; source: how they were had."""

    source: str
    strengths: tuple[Mapping[Edge, np.ndarray], ...]
    bases: tuple[Mapping[str, np.ndarray], ...]


def diagonalisability(request: Request) -> Assumption:
    """How far the statistics are from diagonal in the bases that come nearest."""
    statistic, residual = shared_bases(request.statistics).worst
    return Assumption("mutual diagonalisability", residual, request.tolerance, f"statistic {statistic}")


def find_start(request: Request, small: float) -> tuple[tuple[Assumption, ...], Start]:
    """The strengths that come nearest: read off decoupled weights, or those of what grows in small ones.

    The last assumption says whether they may be taken; where it fails, they are only a projection.
    """
    statistics, architecture = request.statistics, request.statistics.architecture
    bases = shared_bases(statistics)
    node, imbalance = max((balance(architecture, w) for w in request.weights), key=lambda entry: entry[1])
    balanced = Assumption("balance", imbalance, small, f"node {node!r}", needed=False)
    aligned = [align(architecture, weights, bases) for weights in request.weights]
    edge, misfit = max((entry.worst for entry in aligned), key=lambda entry: entry[1])
    shallow = misfit > request.tolerance and is_two_layer(architecture)
    mixing = max(_mixing(architecture, entry) for entry in aligned)
    overlap = "overlap of the modes in the hidden nodes"
    seen = (
        balanced,
        Assumption("decoupling", mixing, request.tolerance, overlap, needed=misfit <= request.tolerance),
        Assumption("alignment of initial weights", misfit, request.tolerance, f"edge {edge}", needed=not shallow),
    )
    if not shallow:
        source = "decoupled weights" if seen[-1].holds else "projected weights"
        return seen, Start(source, tuple(one.strengths for one in aligned), tuple(one.bases for one in aligned))
    table = statistics.once(path_table)
    growing = [growing_strengths(architecture, w, bases, table) for w in request.weights]
    size, where = max((entry.size, entry.where) for entry in growing)
    size, where = max((size, where), (initial_output(request), "the initial output"))
    smallness = Assumption("small initial weights", size, small, where)
    start = Start("growing direction", tuple(one.strengths for one in growing), tuple(one.bases for one in growing))
    return (*seen, smallness), start


def find_system(request: Request, start: Start, lump: bool, symmetric: bool, atol: float) -> ReducedSystem:
    """The reduced system of all draws."""
    table = request.statistics.once(path_table)
    return reduced_system(table, start.strengths, lump=lump, symmetric=symmetric, atol=atol)


def lumping_symmetry(request: Request, system: ReducedSystem, symmetric: bool, small: float) -> Assumption:
    """How far the members of a class are from starting alike."""
    if symmetric:
        detail = "initial strengths within a class, taken at their mean,"
        return Assumption("lumping symmetry", system.asymmetry, small, detail)
    count = f"{system.partition.variable_count} variable(s), exact"
    return Assumption("lumping symmetry", 0.0, request.tolerance, count)


def initial_output(request: Request) -> float:
    """How far the loss at the start is from that of output zero, relative to the larger; the worst draw."""
    silent = 0.5 * request.statistics.target_energy
    losses = [request.statistics.loss(one) for one in request.weights]
    return max(abs(loss - silent) / max(loss, silent, np.finfo(float).tiny) for loss in losses)


def initial_strength(request: Request, start: Start) -> InitialStrength:
    """The strengths of all draws, edge by edge."""
    edges = start.strengths[0]
    values = {edge: np.array([draw[edge] for draw in start.strengths]) for edge in edges}
    return InitialStrength(start.source, values, request.law)


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


def _mixing(architecture: Architecture, alignment: Alignment) -> float:
    """The largest part of an edge's matrix, seen in the modes of its two ends, that is off the diagonal."""
    worst = 0.0
    for edge, (source, target) in architecture.edges.items():
        seen = alignment.bases[target].T @ alignment.matrices[edge] @ alignment.bases[source]
        size = float(np.linalg.norm(alignment.matrices[edge]))
        off = float(np.linalg.norm(seen - np.diag(np.diagonal(seen))))
        worst = max(worst, off / size if size > 0 else 0.0)
    return worst
