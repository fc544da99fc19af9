"""Which edges are open for which examples, and by how much, once the gates of their nodes are folded in."""

from collections.abc import Mapping

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Chosen, Edge, PerExample
from neuralrace.gates import Gates
from neuralrace.task import Task


def edge_gates(architecture: Architecture, gates: Gates, count: int) -> dict[Edge, PerExample]:
    """Fold node gates into edge gates: g_e g_t(e), and g_s(e) too where the source is an input node."""
    folded: dict[Edge, PerExample] = {}
    for edge, (source, target) in architecture.edges.items():
        factors = [gates.edges.get(edge), gates.nodes.get(target)]
        if source in architecture.inputs:
            factors.append(gates.nodes.get(source))
        value = np.ones(count)
        for factor in factors:
            if factor is not None and factor.ndim == 1:  # gates of single neurons act on their own node's rows
                value = value * factor
        folded[edge] = value
    return folded


def carrying_gates(
    architecture: Architecture, task: Task, gates: Gates, *, to_outputs_only: bool = True
) -> dict[Edge, PerExample]:
    """The folded gates, set to zero for the examples in which an edge carries nothing.

    An edge carries nothing where its source is silent (no open way from a non-zero input) and, with
    `to_outputs_only`, where no open way leads on to an output.
    """
    folded = edge_gates(architecture, gates, len(task))
    active = _active(architecture, task, folded)
    heard = _heard(architecture, len(task), folded) if to_outputs_only else None
    carrying = {}
    for edge, (source, target) in architecture.edges.items():
        open_for = active[source] if heard is None else active[source] & heard[target]
        carrying[edge] = np.where(open_for, folded[edge], 0.0)
    return carrying


def _active(architecture: Architecture, task: Task, folded: Mapping[Edge, PerExample]) -> dict[str, Chosen]:
    active: dict[str, np.ndarray] = {}
    for node in architecture.order:
        if node in architecture.inputs:
            active[node] = (task.inputs[node] != 0).any(axis=1)
        else:
            ways = [(folded[e] != 0) & active[architecture.source(e)] for e in architecture.incoming[node]]
            active[node] = np.logical_or.reduce(ways)
    return active


def _heard(architecture: Architecture, count: int, folded: Mapping[Edge, PerExample]) -> dict[str, Chosen]:
    heard: dict[str, np.ndarray] = {}
    for node in reversed(architecture.order):
        if node in architecture.outputs:
            heard[node] = np.ones(count, dtype=bool)
        else:
            ways = [(folded[e] != 0) & heard[architecture.target(e)] for e in architecture.outgoing[node]]
            heard[node] = np.logical_or.reduce(ways)
    return heard
