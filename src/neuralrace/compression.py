"""Fewer examples with the same loss and gradient at every weight.

Examples with equal gates enter loss and gradient only through the second moments of their stacked inputs and
targets. The triangular factor of a thin QR of the weighted rows has the same moments in at most
(inputs + targets) rows.
"""

from collections.abc import Mapping

import numpy as np

from neuralrace.partition import partition
from neuralrace.task import Task


def compress_rows(rows: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and weights with the same weighted second moment and the same total weight."""
    used = np.flatnonzero(rows.any(axis=0))
    if len(rows) <= max(len(used), 1):
        return rows, weights
    triangle = np.linalg.qr(np.sqrt(weights)[:, None] * rows[:, used], mode="r")
    # each new row carries an equal part of the weight; the rows are scaled so that the moments agree
    count = max(len(triangle), 1)
    share = weights.sum() / count
    fewer = np.zeros((count, rows.shape[1]))
    fewer[:, used] = triangle / np.sqrt(share)
    return fewer, np.full(count, share)


def compress_task(
    task: Task, gate_columns: list[np.ndarray], visible: Mapping[str, np.ndarray]
) -> tuple[Task, np.ndarray]:
    """Compress each set of examples with equal gates; also return one original example per new row.

    visible: input node -> for which examples any edge that leaves it is open. What nobody sees becomes zero.
    """
    kept = np.flatnonzero(task.weights > 0)
    labels = partition(len(kept), [column[kept] for column in gate_columns])
    seen = {node: np.where(visible[node][:, None], rows, 0.0) for node, rows in task.inputs.items()}
    stacked = np.hstack([*seen.values(), *task.targets.values()])
    order = np.argsort(labels, kind="stable")
    rows, weights, origin = [], [], []
    for members in np.split(kept[order], np.flatnonzero(np.diff(labels[order])) + 1):
        new_rows, new_weights = compress_rows(stacked[members], task.weights[members])
        rows.append(new_rows)
        weights.append(new_weights)
        origin.append(members if len(new_rows) == len(members) else np.repeat(members[0], len(new_rows)))
    inputs, targets = _unstacked(np.concatenate(rows), task)
    return Task(inputs, targets, np.concatenate(weights)), np.concatenate(origin)


def _unstacked(rows: np.ndarray, task: Task) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    sizes = [a.shape[1] for a in (*task.inputs.values(), *task.targets.values())]
    parts = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    count = len(task.inputs)
    return (
        dict(zip(task.inputs, parts[:count], strict=True)),
        dict(zip(task.targets, parts[count:], strict=True)),
    )
