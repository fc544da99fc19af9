"""What a learning curve looks like: when it comes down to a level, where it rests, which of several runs is typical."""

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from neuralrace.arrays import real_array
from neuralrace.errors import RangeError


class Plateau(NamedTuple):
    """A stretch in which a loss hardly falls. place: the record at which it falls least; time, loss: there."""

    place: int
    time: float
    loss: float


def time_to(time: ArrayLike, values: ArrayLike, level: ArrayLike) -> np.ndarray:
    """When values first come down to a level, between two times by interpolation; infinite if they never do.

    time: (T,). values: (..., T). level: a number, or one for each curve, (...,). Returns (...,), a number's own shape
    for one curve. A curve that starts at the level or below has the first time. For values that rise to a level, give
    both with their sign changed. NaN is not below any level.
    """
    moments, curves = real_array("time", time, RangeError), real_array("values", values, RangeError)
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
    found = moments[before] + share * (moments[after] - moments[before])
    return np.where(below.any(axis=-1), found[..., 0], np.inf)


def plateaus(time: ArrayLike, loss: ArrayLike, slope: float, lasts: float, fallen: float = 0.01) -> list[Plateau]:
    """The stretches of a curve in which log loss falls by less than `slope` per unit of time for at least `lasts`.

    time, loss: (T,). fallen: plateaus before the loss has come down by this share of the first are left out, so the
    silent start is none.
    """
    moments, curve = np.asarray(time, dtype=float), np.asarray(loss, dtype=float)
    steep = np.abs(np.diff(np.log(curve)) / np.diff(moments))
    found = []
    for flat, group in itertools.groupby(range(len(steep)), lambda i: bool(steep[i] < slope)):
        places = list(group)
        place = min(places, key=lambda i: float(steep[i]))
        if flat and moments[places[-1] + 1] - moments[places[0]] >= lasts and curve[place] < (1 - fallen) * curve[0]:
            found.append(Plateau(place, float(moments[place]), float(curve[place])))
    return found


def typical(losses: ArrayLike) -> int:
    """The run with the least L2 distance to the mean run over all records, as in P2 Fig 6; losses: (runs, T)."""
    curves = np.asarray(losses, dtype=float)
    return int(np.argmin(np.sum((curves - curves.mean(axis=0)) ** 2, axis=1)))
