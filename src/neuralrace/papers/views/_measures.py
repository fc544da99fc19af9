"""What a network has learned of each view: shares, the winner's share, coverage, and what P3 assumes of its gates."""

from typing import Any

import numpy as np

from neuralrace.errors import RangeError


def shares(responses: Any) -> np.ndarray:
    """The part of each view in what a class knows, summing to one; a response below zero counts as none.

    responses: the answer for the right class to a view that is shown alone, (..., M). A class that answers no view at
    all counts as even; one that has diverged has shares of NaN.
    """
    known = np.maximum(np.asarray(responses, dtype=np.float64), 0.0)
    if known.ndim < 1 or known.shape[-1] < 2:
        raise RangeError(f"responses must have at least two views on the last axis; their shape was {known.shape}")
    total = known.sum(axis=-1, keepdims=True)
    even = np.full_like(known, 1.0 / known.shape[-1])
    return np.divide(known, total, out=even, where=~(total <= 0))


def winner_share(responses: Any) -> np.ndarray:
    """The largest share, from 1/M (even) to 1 (the winner takes all)."""
    return np.asarray(shares(responses).max(axis=-1))


def coverage(responses: Any) -> np.ndarray:
    """P3's C(f) without a threshold: the effective number of views, 1 / sum of squared shares, over M; 1/M to 1."""
    parts = shares(responses)
    return np.asarray(1.0 / (parts**2).sum(axis=-1) / parts.shape[-1])


def gates_apart(alone: np.ndarray, together: np.ndarray) -> np.ndarray:
    """A4: of the units that any of two views opens, the part that only one of them does; the mean over pairs.

    Activity of units for each view shown alone, (..., M, units), and for all together, (..., units). A unit counts by
    the most that it does in any of these rows, so that units that learned nothing count for nothing.
    """
    first, second = np.triu_indices(alone.shape[-2], 1)
    one, other = alone[..., first, :] > 0, alone[..., second, :] > 0
    weight = _most(alone, together)[..., None, :]
    return np.asarray(((one ^ other) * weight).sum(axis=-1) / ((one | other) * weight).sum(axis=-1)).mean(axis=-1)


def gates_added(alone: np.ndarray, together: np.ndarray) -> np.ndarray:
    """A5: the part of units that are open for all views together just where some view alone opens them."""
    weight = _most(alone, together)
    same = (alone > 0).any(axis=-2) == (together > 0)
    return np.asarray((same * weight).sum(axis=-1) / weight.sum(axis=-1))


def _most(alone: np.ndarray, together: np.ndarray) -> np.ndarray:
    return np.maximum(alone.max(axis=-2), together)
