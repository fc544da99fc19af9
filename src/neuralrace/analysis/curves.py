"""Learning curves: when one reaches a level, where it rests, which of several runs is typical, means over seeds."""

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from neuralrace.arrays import real_array
from neuralrace.errors import RangeError


def time_to(time: ArrayLike, values: ArrayLike, level: ArrayLike) -> np.ndarray:
    """Find when values first come down to a level, between two times by interpolation; infinite if they never do.

    time: (T,). values: (..., T). level: a number, or one for each curve, (...,). Returns (...,), a number's own shape
    for one curve. A curve that starts at the level or below has the first time. For values that rise to a level, give
    both with their sign changed. NaN is not below any level.
    """
    times, curves = real_array("time", time, RangeError), real_array("values", values, RangeError)
    levels = real_array("level", level, RangeError)
    try:
        wanted = np.broadcast_to(levels, curves.shape[:-1])[..., None]
    except ValueError:
        raise RangeError(
            f"level must be a number, or one for each curve, shape {curves.shape[:-1]}; it has shape {levels.shape}"
        ) from None
    below = curves <= wanted
    after = below.argmax(axis=-1)[..., None]
    before = np.maximum(after - 1, 0)
    high, low = np.take_along_axis(curves, before, -1), np.take_along_axis(curves, after, -1)
    share = np.divide(high - wanted, high - low, out=np.ones_like(high), where=(after > before) & np.isfinite(high))
    found = times[before] + share * (times[after] - times[before])
    return np.where(below.any(axis=-1), found[..., 0], np.inf)


class Plateau(NamedTuple):
    """A period in which a loss hardly falls. place: the record at which it falls least; time, loss: there."""

    place: int
    time: float
    loss: float


def plateaus(time: ArrayLike, loss: ArrayLike, slope: float, lasts: float, fallen: float = 0.01) -> list[Plateau]:
    """Find the periods in which log loss falls by less than `slope` per unit of time for at least `lasts`.

    time, loss: (T,). fallen: plateaus before the loss has come down by this share of its initial value are left out.
    """
    times, curve = np.asarray(time, dtype=float), np.asarray(loss, dtype=float)
    steep = np.abs(np.diff(np.log(curve)) / np.diff(times))
    found = []
    for flat, group in itertools.groupby(range(len(steep)), lambda i: bool(steep[i] < slope)):
        places = list(group)
        place = min(places, key=lambda i: float(steep[i]))
        if flat and times[places[-1] + 1] - times[places[0]] >= lasts and curve[place] < (1 - fallen) * curve[0]:
            found.append(Plateau(place, float(times[place]), float(curve[place])))
    return found


def typical(losses: ArrayLike) -> int:
    """Find the run with the least L2 distance to the mean run over all records, as in P2 Fig 6; losses: (runs, T)."""
    curves = np.asarray(losses, dtype=float)
    return int(np.argmin(np.sum((curves - curves.mean(axis=0)) ** 2, axis=1)))


class Interval(NamedTuple):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def interval(values: Any) -> Interval:
    """Compute the mean over seeds and its 95 % interval by Student's t; without spread for a single seed."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    if not numbers.size:
        raise RangeError("an interval needs at least one value; got none")
    mean = float(numbers.mean())
    spread = float(numbers.std(ddof=1) / np.sqrt(numbers.size)) if numbers.size > 1 else 0.0
    half = float(stdtrit(numbers.size - 1, 0.975)) * spread if spread else 0.0
    return Interval(mean, mean - half, mean + half)


def proportion(hits: Any) -> Interval:
    """Compute the fraction of successes and its 95 % interval (Wilson)."""
    from scipy.stats import binomtest  # 0.4 s of imports

    outcomes = np.asarray(hits, dtype=bool).ravel()
    if not outcomes.size:
        raise RangeError("a proportion needs at least one outcome; got none")
    found = binomtest(int(outcomes.sum()), outcomes.size).proportion_ci(method="wilson")
    return Interval(float(outcomes.mean()), float(found.low), float(found.high))
