"""What a network has learned of each view: shares, coverage, winners, and intervals over seeds."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest, t

from neuralrace.errors import RangeError


class Interval(NamedTuple):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


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


def interval(values: Any) -> Interval:
    """The mean over seeds and its 95 % interval by Student's t; without spread for a single seed."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    if not numbers.size:
        raise RangeError("an interval needs at least one value; none came")
    mean = float(numbers.mean())
    if numbers.size < 2:
        return Interval(mean, mean, mean)
    half = float(t.ppf(0.975, numbers.size - 1) * numbers.std(ddof=1) / np.sqrt(numbers.size))
    return Interval(mean, mean - half, mean + half)


def proportion(hits: Any) -> Interval:
    """The fraction of successes and its 95 % interval (Wilson)."""
    outcomes = np.asarray(hits, dtype=bool).ravel()
    if not outcomes.size:
        raise RangeError("a proportion needs at least one outcome; none came")
    test = binomtest(int(outcomes.sum()), outcomes.size).proportion_ci(method="wilson")
    return Interval(float(outcomes.mean()), float(test.low), float(test.high))
