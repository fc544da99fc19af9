"""Representational similarity: how alike a node's activity is for two examples."""

import numpy as np


def similarity(activity: np.ndarray) -> np.ndarray:
    """The dot product between the activities of every two examples, (N, N); activity is (N, units)."""
    return activity @ activity.T


def cosine_similarity(activity: np.ndarray) -> np.ndarray:
    """The cosine between the activities of every two examples; 0 where one of them is silent."""
    norms = np.linalg.norm(activity, axis=1)
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    return similarity(activity * scale[:, None])
