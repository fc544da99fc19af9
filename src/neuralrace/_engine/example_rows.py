"""Examples and their gates: which edges are open, which examples agree, and fewer rows with the same moments.

Examples with equal gates enter loss and gradient only through the second moments of their stacked inputs and
targets. The triangular factor of a thin QR of the weighted rows has the same moments in at most
(inputs + targets) rows.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Shaped

from neuralrace.architecture import Architecture
from neuralrace.axes import Chosen, Edge, PerExample, States
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
    active = {node: (task.inputs[node] != 0).any(axis=1) for node in architecture.inputs}
    heard = {node: np.ones(len(task), dtype=bool) for node in architecture.outputs}
    for node in architecture.order:
        if node not in active:
            ways = [(folded[e] != 0) & active[architecture.source(e)] for e in architecture.incoming[node]]
            active[node] = np.logical_or.reduce(ways)
    for node in reversed(architecture.order) if to_outputs_only else ():
        if node not in heard:
            ways = [(folded[e] != 0) & heard[architecture.target(e)] for e in architecture.outgoing[node]]
            heard[node] = np.logical_or.reduce(ways)
    carrying = {}
    for edge, (source, target) in architecture.edges.items():
        open_for = active[source] & heard[target] if to_outputs_only else active[source]
        carrying[edge] = np.where(open_for, folded[edge], 0.0)
    return carrying


def label_rows(count: int, columns: Iterable[np.ndarray]) -> States:
    """Label the rows 0, 1, 2, ... so that two rows agree in every column exactly if their labels do."""
    labels = np.zeros(count, dtype=np.int64)
    packed, width = np.zeros(count, dtype=np.int64), 0
    for column in columns:
        low, high = (column.min(), column.max()) if count else (0, 0)
        if low == high:
            continue
        upper = column == high
        if (upper | (column == low)).all():
            packed, width = 2 * packed + upper, width + 1
            if width == 60:  # as many as fit into one integer
                labels, packed, width = _refined(labels, packed), np.zeros(count, dtype=np.int64), 0
        else:
            labels = _refined(labels, column)
    return _refined(labels, packed) if width else labels


def _refined(labels: States, column: Shaped[np.ndarray, " examples"]) -> States:
    """Split the classes of a partition by the values of one more column."""
    codes = np.unique(column, return_inverse=True)[1].astype(np.int64)
    if not labels.any():
        return codes
    return np.unique(labels * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1].astype(np.int64)


def compress_task(
    task: Task, gate_columns: Iterable[PerExample], visible: Mapping[str, Chosen]
) -> tuple[Task, np.ndarray]:
    """Compress each set of examples with equal gates; also return one original example per new row.

    visible: input node -> for which examples any edge that leaves it is open. Inputs that are not visible become zero
    in the sets that shrink; a task in which none shrinks is returned as it is.
    """
    kept = np.flatnonzero(task.weights > 0)
    labels = label_rows(len(kept), (column[kept] for column in gate_columns))
    order = np.argsort(labels, kind="stable")
    sets = np.split(kept[order], np.flatnonzero(np.diff(labels[order])) + 1)
    arrays = {**task.inputs, **task.targets}
    sizes = np.array([rows.shape[1] for rows in arrays.values()])
    used = np.stack([rows.any(axis=1) & visible.get(node, True) for node, rows in arrays.items()], axis=1)
    # whether there are more rows than nonzero columns, without building these
    shrinks = [
        len(members) > sizes[used[members[0]]].sum() and len(members) > sizes[used[members].any(axis=0)].sum()
        for members in sets
    ]
    if len(kept) == len(task) and not any(shrinks):
        return task, np.arange(len(task))
    parts, weights, origin = [], [], []
    for members, shrink in zip(sets, shrinks, strict=True):
        seen, mass = used[members].T[:, :, None], task.weights[members]
        rows = np.hstack([part[members] * on for part, on in zip(arrays.values(), seen, strict=True)])
        if shrink:
            held = np.flatnonzero(rows.any(axis=0))
            triangle = np.linalg.qr(np.sqrt(mass)[:, None] * rows[:, held], mode="r")
            # each new row carries an equal part of the weight; the rows are scaled so that the moments agree
            count = max(len(triangle), 1)
            share = mass.sum() / count
            rows, mass, members = np.zeros((count, sizes.sum())), np.full(count, share), np.repeat(members[:1], count)
            rows[: len(triangle), held] = triangle / np.sqrt(share)  # rows of zeros have no triangle
        parts.append(rows)
        weights.append(mass)
        origin.append(members)
    columns = np.split(np.concatenate(parts), np.cumsum(sizes)[:-1], axis=1)
    found = dict(zip(arrays, columns, strict=True))
    inputs, targets = ({node: found[node] for node in side} for side in (task.inputs, task.targets))
    return Task(inputs, targets, np.concatenate(weights)), np.concatenate(origin)
