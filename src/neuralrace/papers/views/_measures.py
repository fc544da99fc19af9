"""What a network has learned of each view, and where random pathways of depth two end."""

from typing import Any

import numpy as np


def shares(responses: Any) -> np.ndarray:
    """Return the part of each view in what a class knows, summing to one; a response below zero counts as none.

    responses: the answer for the right class to a view that is shown alone, (..., M). A class that answers no view at
    all counts as even.
    """
    known = np.maximum(np.asarray(responses, dtype=np.float64), 0.0)
    total = known.sum(axis=-1, keepdims=True)
    return np.divide(known, total, out=np.full_like(known, 1.0 / known.shape[-1]), where=~(total <= 0))


def winner_share(responses: Any) -> np.ndarray:
    """Return the largest share, from 1/M (even) to 1 (the winner takes all)."""
    return np.asarray(shares(responses).max(axis=-1))


def coverage(responses: Any) -> np.ndarray:
    """Return P3's C(f) without a threshold: the effective number of views, 1 / sum of squared shares, over M."""
    return np.asarray(1.0 / (shares(responses) ** 2).mean(axis=-1) / np.shape(responses)[-1] ** 2)


def lone_responses(maps: Any) -> np.ndarray:
    """Return the output for the class less the mean of the others, for each view alone: (..., M, K, K) to (..., K, M).

    Column k of the map P_m of a pathway answers view m of class k.
    """
    P = np.asarray(maps)
    right, total = np.einsum("...mkk->...km", P), np.einsum("...mjk->...km", P)
    return np.asarray((P.shape[-1] * right - total) / (P.shape[-1] - 1))


def two_layer_end(first: Any, last: Any) -> np.ndarray:
    """Return the maps P_m that parallel two-layer pathways end with, in the limit of small initial weights; (M, K, K).

    For views of length one that are always together, one-hot targets. first: (M, h, K). last: (M, K, h). Early on only
    A_m = (W1_m + W2_m^T)/2 grows, and then dA_m/dt = A_m (1 - C)/K with C = sum_n A_n^T A_n common to all views, so P_m
    ends as C^(-1/2) A_m^T A_m C^(-1/2).
    """
    A = (np.asarray(first) + np.swapaxes(np.asarray(last), -1, -2)) / 2
    each = np.swapaxes(A, -1, -2) @ A
    values, vectors = np.linalg.eigh(each.sum(axis=-3))
    root = (vectors / np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return np.asarray(root[..., None, :, :] @ each @ root[..., None, :, :])
