"""Fewer examples with the same loss and gradient at every weight.

Examples with equal gates enter loss and gradient only through the second moments of their stacked inputs and
targets. The triangular factor of a thin QR of the weighted rows has the same moments in at most
(inputs + targets) rows.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float

from neuralrace._engine.equal_rows import partition
from neuralrace.axes import Chosen, PerExample, Rows
from neuralrace.task import Task


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
    labels = partition(len(kept), (column[kept] for column in gate_columns))
    order = np.argsort(labels, kind="stable")
    sets = np.split(kept[order], np.flatnonzero(np.diff(labels[order])) + 1)
    columns = _Columns(task, visible)
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


class _Columns:
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
