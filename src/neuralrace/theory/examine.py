"""Whether the reduction applies to a problem and its initial weights, and the strengths that it starts from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.errors import AssumptionError
from neuralrace.theory.alignment import Alignment, align, balance
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.reduction.path_table import PathTable
from neuralrace.theory.strength import growing_strengths, is_two_layer


@dataclass(frozen=True, eq=False)
class Start:
    """Initial strengths and bases per draw; source says how they were had."""

    source: str
    strengths: tuple[Mapping[Edge, np.ndarray], ...]
    bases: tuple[Mapping[str, np.ndarray], ...]


def examine_start(request: Any, findings: Any, *, handover: bool) -> Start:
    """Check diagonalisability and alignment; find the strengths exactly, by projection, or leave it to the flow."""
    prepared = request.prepared
    architecture = prepared.statistics.architecture
    statistic, residual = prepared.bases.worst
    findings.require(
        Assumption("mutual diagonalisability", residual, request.tolerance, f"statistic {statistic}"),
        "use method='aligned' or 'flow', or go on with force=True",
    )
    node, imbalance = max((balance(architecture, w) for w in request.weights), key=lambda entry: entry[1])
    findings.note(Assumption("balance", imbalance, request.small, f"node {node!r}"))
    aligned = [align(architecture, weights, prepared.bases) for weights in request.weights]
    edge, misfit = max((entry.worst for entry in aligned), key=lambda entry: entry[1])
    alignment = Assumption("alignment of initial weights", misfit, request.tolerance, f"edge {edge}")
    mixing = max(_mixing(architecture, entry) for entry in aligned)
    decoupling = Assumption("decoupling", mixing, request.tolerance, "overlap of the modes in the hidden nodes")
    for assumption in (alignment, decoupling):
        findings.note(assumption, needed=alignment.holds)
    if alignment.holds:
        bases = tuple(entry.bases for entry in aligned)
        return Start("decoupled weights", tuple(entry.strengths for entry in aligned), bases)
    if is_two_layer(architecture):
        growing = [growing_strengths(architecture, w, prepared.bases, prepared.table) for w in request.weights]
        size, where = max((entry.size, entry.where) for entry in growing)
        size, where = max((size, where), (prepared.initial_output(request.weights), "the initial output"))
        smallness = Assumption("small initial weights", size, request.small, where)
        findings.note(smallness, needed=smallness.holds)
        if smallness.holds:
            bases = tuple(entry.bases for entry in growing)
            return Start("growing direction", tuple(entry.strengths for entry in growing), bases)
    if handover and request.steps is None:
        return Start("hand-over", (), ())
    raise AssumptionError(
        f"initial weights must be decoupled, or small with two layers; edge {edge} is off by {misfit:.2g}: start from "
        f"initial.decoupled, use method='flow', or let 'reduction' follow the flow until the weights align"
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


def lost_modes(table: PathTable, strengths: tuple[Mapping[Edge, np.ndarray], ...]) -> tuple[str, ...]:
    """Say which modes have a correlation to learn and no strength to start from."""
    notes = []
    start = np.array([[draw[edge] for edge in table.edges] for draw in strengths])
    padded = np.concatenate([start, np.ones((len(start), 1, table.modes))], axis=1)
    zeros = (padded[:, table.route] == 0).sum(axis=2)  # (draws, paths, modes)
    wanted = np.abs(table.strengths) > 1e-12 * max(float(np.abs(table.strengths).max(initial=0.0)), 1e-300)
    stuck = (zeros >= 2).any(axis=0) & wanted
    if stuck.all(where=wanted) and wanted.any():
        notes.append("all initial strengths are zero: a saddle, where the loss stays that of output zero")
    elif stuck.any():
        modes = ", ".join(map(str, np.flatnonzero(stuck.any(axis=0))))
        notes.append(
            f"modes {modes} start with no strength on some path (a hidden layer narrower than the number of modes, or "
            f"a zero initial strength): they are lost there and not learned"
        )
    return tuple(notes)
