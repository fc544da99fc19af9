"""How alike activities are: of two examples to each other, and of outputs to the modes of what is wanted."""

import numpy as np

EQUAL = 1e-9  # of the largest singular value: closer ones count as one


def similarity(activity: np.ndarray) -> np.ndarray:
    """The dot product between the activities of every two examples, (N, N); activity is (N, units)."""
    return activity @ activity.T


def cosine_similarity(activity: np.ndarray) -> np.ndarray:
    """The cosine between the activities of every two examples; 0 where one of them is silent."""
    norms = np.linalg.norm(activity, axis=1)
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    return similarity(activity * scale[:, None])


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
