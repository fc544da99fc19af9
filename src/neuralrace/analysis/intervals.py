"""Means and proportions with their 95 % intervals over seeds."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from neuralrace.errors import RangeError

UPPER = 0.975  # what lies below the upper end of an interval; scipy.stats, which knows the rest, imports for 0.4 s


class Interval(NamedTuple):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return format(self)

    def __format__(self, form: str) -> str:
        form = form or ".3g"
        return f"{self.mean:{form}} [{self.low:{form}}, {self.high:{form}}]"


def interval(values: Any) -> Interval:
    """The mean over seeds and its 95 % interval by Student's t; without spread for a single seed."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    if not numbers.size:
        raise RangeError("an interval needs at least one value; none came")
    mean = float(numbers.mean())
    if numbers.size < 2:
        return Interval(mean, mean, mean)
    half = float(stdtrit(numbers.size - 1, UPPER) * numbers.std(ddof=1) / np.sqrt(numbers.size))
    return Interval(mean, mean - half, mean + half)


def proportion(hits: Any) -> Interval:
    """The fraction of successes and its 95 % interval (Wilson)."""
    outcomes = np.asarray(hits, dtype=bool).ravel()
    if not outcomes.size:
        raise RangeError("a proportion needs at least one outcome; none came")
    count, share, z = outcomes.size, float(outcomes.mean()), float(ndtri(UPPER))
    middle, spread, whole = 2 * count * share + z**2, 4 * count * share * (1 - share) + z**2, 2 * (count + z**2)
    low, high = (middle / whole + sign * z / whole * float(np.sqrt(spread)) for sign in (-1, 1))
    return Interval(share, low if share > 0 else 0.0, high if share < 1 else 1.0)
