"""Partitions of the examples: which rows agree in every column."""

from collections.abc import Iterable

import numpy as np


def refine(labels: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Split the classes of a partition by the values of one more column; labels stay 0, 1, 2, ..."""
    codes = np.unique(column, return_inverse=True)[1]
    joint = labels.astype(np.int64) * (int(codes.max(initial=0)) + 1) + codes
    return np.unique(joint, return_inverse=True)[1].astype(np.int64)


def partition(count: int, columns: Iterable[np.ndarray]) -> np.ndarray:
    """Label the rows 0, 1, 2, ... so that two rows agree in every column exactly if their labels do."""
    labels = np.zeros(count, dtype=np.int64)
    for column in columns:
        labels = refine(labels, column)
    return labels


def representatives(labels: np.ndarray) -> np.ndarray:
    """The first row of each class, in the order of the labels."""
    return np.unique(labels, return_index=True)[1]
