"""Partitions of the examples: which rows agree in every column."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Shaped

from neuralrace.axes import States

TABLE = 1 << 16  # whole numbers below this are told apart by a table
PACKED = 60  # two-valued columns that are packed into one integer before the rows are sorted


def partition(count: int, columns: Iterable[np.ndarray]) -> States:
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
