"""Random pathways of depth two that learn views: where they end, exactly, from small initial weights."""

from typing import Any

import numpy as np


def two_layer_end(first: Any, last: Any) -> np.ndarray:
    """The maps P_m that parallel two-layer pathways end with, exact in the limit of small initial weights; (M, K, K).

    For views of length one that are always together, one-hot targets. first: (M, h, K). last: (M, K, h). Early on only
    A_m = (W1_m + W2_m^T) / 2 grows, and then dA_m/dt = A_m (1 - C)/K with C = sum_n A_n^T A_n common to all views:
    A_m(t) = A_m f(C(0)), so P_m ends as C^(-1/2) A_m^T A_m C^(-1/2). Column k of P_m answers view m of class k.
    """
    A = (np.asarray(first) + np.swapaxes(np.asarray(last), -1, -2)) / 2
    each = np.swapaxes(A, -1, -2) @ A
    values, vectors = np.linalg.eigh(each.sum(axis=-3))
    root = (vectors / np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return np.asarray(root[..., None, :, :] @ each @ root[..., None, :, :])


def lone_responses(maps: Any) -> np.ndarray:
    """The answer to each view alone, its class's output less the mean of the others; (..., M, K, K) to (..., K, M)."""
    P = np.asarray(maps)
    classes = P.shape[-1]
    right, total = np.einsum("...mkk->...km", P), np.einsum("...mjk->...km", P)
    return np.asarray((classes * right - total) / (classes - 1))
