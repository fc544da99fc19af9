"""Examples and their gates: which edges are open for which, which examples agree, and fewer with the same moments.

Examples with equal gates enter loss and gradient only through the second moments of their stacked inputs and
targets. The triangular factor of a thin QR of the weighted rows has the same moments in at most
(inputs + targets) rows.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float, Shaped

from neuralrace.architecture import Architecture
from neuralrace.axes import Chosen, Edge, PerExample, Rows, States
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


TABLE = 1 << 16  # whole numbers below this are told apart by a table
PACKED = 60  # two-valued columns that are packed into one integer before the rows are sorted


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
            if width == PACKED:
                labels, packed, width = _refine(labels, packed), np.zeros(count, dtype=np.int64), 0
        else:
            labels = _refine(labels, column)
    return _refine(labels, packed) if width else labels


def representatives(labels: np.ndarray) -> np.ndarray:
    """The first row of each class, in the order of the labels."""
    return np.unique(labels, return_index=True)[1]


def _refine(labels: States, column: Shaped[np.ndarray, " examples"]) -> States:
    """Split the classes of a partition by the values of one more column."""
    codes = _numbered(column)
    return _numbered(labels * (int(codes.max(initial=0)) + 1) + codes)


def _numbered(column: Shaped[np.ndarray, " examples"]) -> States:
    """Each value's place among all that occur; small whole numbers are looked up, where others are sorted."""
    if column.dtype.kind in "iu" and len(column) and column.min() >= 0 and column.max() < TABLE:
        there = np.zeros(int(column.max()) + 1, dtype=bool)
        there[column] = True
        return (np.cumsum(there) - 1)[column]
    return np.unique(column, return_inverse=True)[1].astype(np.int64)


def compress_rows(
    rows: Rows, weights: PerExample
) -> tuple[Float[np.ndarray, "fewer size"], Float[np.ndarray, " fewer"]]:
    """Return rows and weights with the same weighted second moment and the same total weight."""
    used = np.flatnonzero(rows.any(axis=0))
    if len(rows) <= max(len(used), 1):
        return rows, weights
    triangle = np.linalg.qr(np.sqrt(weights)[:, None] * rows[:, used], mode="r")
    # each new row carries an equal part of the weight; the rows are scaled so that the moments agree
    count = max(len(triangle), 1)
    share = weights.sum() / count
    fewer = np.zeros((count, rows.shape[1]))
    fewer[: len(triangle), used] = triangle / np.sqrt(share)  # rows of zeros have no triangle
    return fewer, np.full(count, share)


def compress_task(
    task: Task, gate_columns: Iterable[PerExample], visible: Mapping[str, Chosen]
) -> tuple[Task, np.ndarray]:
    """Compress each set of examples with equal gates; also return one original example per new row.

    visible: input node -> for which examples any edge that leaves it is open. What nobody sees becomes zero
    in the sets that shrink; a task in which none shrinks is returned as it is.
    """
    kept = np.flatnonzero(task.weights > 0)
    labels = label_rows(len(kept), (column[kept] for column in gate_columns))
    order = np.argsort(labels, kind="stable")
    sets = np.split(kept[order], np.flatnonzero(np.diff(labels[order])) + 1)
    columns = _TaskColumns(task, visible)
    if len(kept) == len(task) and not any(columns.may_shrink(members) for members in sets):
        return task, np.arange(len(task))
    rows, weights, origin = [], [], []
    for members in sets:
        new_rows, new_weights = columns.stacked(members), task.weights[members]
        if columns.may_shrink(members):
            new_rows, new_weights = compress_rows(new_rows, new_weights)
        rows.append(new_rows)
        weights.append(new_weights)
        origin.append(members if len(new_rows) == len(members) else np.repeat(members[0], len(new_rows)))
    inputs, targets = columns.unstacked(np.concatenate(rows))
    return Task(inputs, targets, np.concatenate(weights)), np.concatenate(origin)


class _TaskColumns:
    """All inputs and targets of a task side by side, without ever building more than is asked for."""

    def __init__(self, task: Task, visible: Mapping[str, Chosen]) -> None:
        self._task, self._visible = task, visible
        self._arrays = [*task.inputs.values(), *task.targets.values()]
        self._sizes = np.array([array.shape[1] for array in self._arrays])
        seen = [visible[node] & rows.any(axis=1) for node, rows in task.inputs.items()]
        self._used = np.stack([*seen, *(rows.any(axis=1) for rows in task.targets.values())], axis=1)

    def may_shrink(self, members: np.ndarray) -> bool:
        """Whether there are more rows than columns that hold anything."""
        if len(members) <= self._sizes[self._used[members[0]]].sum():
            return False
        return len(members) > int(self._sizes[self._used[members].any(axis=0)].sum())

    def stacked(self, members: np.ndarray) -> np.ndarray:
        """The rows of some examples; inputs that nobody sees are zero."""
        parts = [array[members] for array in self._arrays]
        for index, node in enumerate(self._task.inputs):
            parts[index] = np.where(self._visible[node][members, None], parts[index], 0.0)
        return np.hstack(parts)

    def unstacked(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Split rows into inputs and targets again."""
        parts = np.split(rows, np.cumsum(self._sizes)[:-1], axis=1)
        count = len(self._task.inputs)
        return (
            dict(zip(self._task.inputs, parts[:count], strict=True)),
            dict(zip(self._task.targets, parts[count:], strict=True)),
        )
