"""Means and proportions with their 95 % intervals over seeds."""

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
    half = float(t.ppf(0.975, numbers.size - 1) * numbers.std(ddof=1) / np.sqrt(numbers.size))
    return Interval(mean, mean - half, mean + half)


def proportion(hits: Any) -> Interval:
    """The fraction of successes and its 95 % interval (Wilson)."""
    outcomes = np.asarray(hits, dtype=bool).ravel()
    if not outcomes.size:
        raise RangeError("a proportion needs at least one outcome; none came")
    test = binomtest(int(outcomes.sum()), outcomes.size).proportion_ci(method="wilson")
    return Interval(float(outcomes.mean()), float(test.low), float(test.high))
