"""What an integration recorded, drawn between its steps."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, eq=False)
class Curve:
    """The record and the state, or None in its place, as polynomials of degree four in each step.

    times: of the ends of the steps, the start among them. records, rates: pairs, leaves (steps + 1, ...). middles: half
    way, leaves (steps, ...).
    """

    times: np.ndarray
    records: Any
    rates: Any
    middles: Any
    last: Any  # the state at the end

    def at(self, times: ArrayLike, *, states: bool = False) -> Any:
        """The record at increasing times, or the state; leaves (times, ...)."""
        times = np.asarray(times, dtype=np.float64)
        step = np.clip(np.searchsorted(self.times[1:], times, side="left"), 0, max(len(self.times) - 2, 0))
        width = np.diff(self.times, append=self.times[-1])[step]
        x = np.clip(np.divide(times - self.times[step], width, out=np.zeros(len(times)), where=width > 0), 0.0, 1.0)
        bump = 16 * x**2 * (1 - x) ** 2
        slopes = x * (1 - x) ** 2 - bump / 8, -(x**2) * (1 - x) + bump / 8
        ends = (1 + 2 * x) * (1 - x) ** 2 - bump / 2, x**2 * (3 - 2 * x) - bump / 2
        weights = np.stack([ends[0], bump, ends[1], width * slopes[0], width * slopes[1]], axis=1)
        used, first = np.unique(step, return_index=True)  # the steps that hold times, and the first time in each
        bounds = np.append(first, len(times))

        def drawn(records: np.ndarray, rates: np.ndarray, middles: np.ndarray) -> np.ndarray:
            parts = np.stack([records[used], middles[used], records[used + 1], rates[used], rates[used + 1]], axis=1)
            parts, found = parts.reshape(len(used), 5, records[0].size), np.empty((len(times), records[0].size))
            for part, inside in zip(parts, map(slice, bounds[:-1], bounds[1:]), strict=True):
                np.matmul(weights[inside], part, out=found[inside])
            return found.reshape(len(times), *records.shape[1:])

        return jax.tree.map(drawn, self.records[states], self.rates[states], self.middles[states])
