"""Alignment: how much of a network's outputs lies along the singular vectors of what is wanted."""

import numpy as np

EQUAL = 1e-9  # of the largest singular value: closer ones count as one


def alignment(outputs: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The share of the outputs' square that lies on the modes of what is wanted, left and right vector of one mode.

    outputs: (..., N, units). wanted: (N, units). Modes of equal singular value count as one, since their vectors are
    free to turn. Returns (...,), 0 where there is no output.
    """
    left, values, right = np.linalg.svd(wanted, full_matrices=False)
    same = (np.abs(values[:, None] - values) <= EQUAL * values[0]) & (values > EQUAL * values[0])
    along = np.sum((left.T @ outputs @ right.T) ** 2 * same, axis=(-2, -1))
    whole = np.sum(np.square(outputs), axis=(-2, -1))
    return np.asarray(np.divide(along, whole, out=np.zeros_like(whole), where=whole > 0))
