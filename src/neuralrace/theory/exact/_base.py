"""Checked fields and roots of increasing functions, which all exact solutions share."""

from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import numpy as np

from neuralrace.arrays import real_array
from neuralrace.errors import RangeError, bounds_told

STRENGTH_HINT = "a mode of zero strength sits on a saddle and never learns: start it above zero"
Evaluated = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # x -> value and slope

# what a field holds; entries are finite
Real = Annotated[Any, {}]
Positive = Annotated[Any, {"above": 0.0}]
Strength = Annotated[Any, {"above": 0.0, "hint": STRENGTH_HINT}]


def read(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    hint: str = "",
) -> np.ndarray:
    """Return finite float64 numbers within the bounds, or raise an error that names the first one outside."""
    entries = real_array(name, value, RangeError)
    good = np.isfinite(entries)
    good &= (above is None or entries > above) & (least is None or entries >= least) & (most is None or entries <= most)
    if good.all():
        return entries
    required = " and ".join(["finite", *bounds_told(above, least, most)])
    first = tuple(int(i) for i in np.argwhere(~good)[0])
    where = f" at position {first}" if first else ""
    raise RangeError(f"{name} must be {required}; it was {entries[first]:g}{where}{f'; {hint}' if hint else ''}")


def read_times(times: Any) -> np.ndarray:
    """Return times, none of them before the start."""
    return read("times", times, least=0.0, hint="time runs forward from the initial weights, t = learning_rate * step")


class Solution:
    """Base of the exact solutions: annotated fields are checked and stored as float64 arrays."""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self), include_extras=True).items():
            if hasattr(kind, "__metadata__"):
                object.__setattr__(self, name, read(name, getattr(self, name), **kind.__metadata__[0]))


def time_to(level: Any, start: Any, end: Any, elapsed: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the time to a strength on the way from start to end: 0 where it is passed, inf where out of reach."""
    level, start, end = np.broadcast_arrays(read("strength", level), start, end)
    forward = (level - start) * (end - start) > 0
    reached = forward & ((end - level) * (end - start) > 0)
    with np.errstate(all="ignore"):  # of the levels that are not reached
        return np.where(reached, elapsed(np.where(reached, level, start)), np.where(forward, np.inf, 0.0))


def increasing_root(function: Evaluated, guess: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
    """Return the root of an increasing function, elementwise, by Newton's method in a bracket found on the way.

    While one side is open, a step is at most a width that doubles; once both are closed, a step that leaves the bracket
    is a bisection, and so is every fourth. A search ends when a Newton step, which squares the error, is below
    `tolerance` or rounding.
    """
    x, epsilon = np.array(guess, dtype=float), float(np.finfo(float).eps)
    lower, upper, done = np.full(x.shape, -np.inf), np.full(x.shape, np.inf), np.zeros(x.shape, dtype=bool)
    with np.errstate(all="ignore"):  # infinite brackets, and steps that are not taken
        for count in range(200):
            value, slope = function(x)
            lower, upper = np.where(value <= 0, x, lower), np.where(value >= 0, x, upper)
            is_open, width = np.isinf(lower) | np.isinf(upper), 2.0 ** min(count, 60)
            newton = x - value / slope
            inside = (newton >= lower) & (newton <= upper)
            inside &= np.where(is_open, np.abs(newton - x) <= width, count % 4 != 3)
            safe = np.where(is_open, x - np.sign(value) * width, 0.5 * (lower + upper))
            following = np.where(done | (value == 0), x, np.where(inside, newton, safe))
            close = np.abs(following - x) <= np.maximum(2 * epsilon * np.abs(x), tolerance)
            done |= (value == 0) | (inside & close) | (upper - lower <= epsilon * np.abs(x))
            x = following
            if done.all():
                break
    return x


def invert(elapsed: Evaluated, time: np.ndarray) -> np.ndarray:
    """Return x >= 0 with elapsed(x) = time, for an increasing function with elapsed(0) = 0.

    It is solved in log(x) against log(time), where a plateau and the long tail are both nearly straight, and polished
    by one Newton step in x itself.
    """
    after = np.where(time > 0, time, 1.0)

    def mismatch(log_x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = np.exp(log_x)
        value, slope = elapsed(x)
        return np.log(value) - np.log(after), x * slope / value

    x = np.exp(increasing_root(mismatch, np.log(after), tolerance=1e-7))
    with np.errstate(all="ignore"):
        value, slope = elapsed(x)
        polished = x - (value - after) / slope
    return np.where(time > 0, np.where(polished > 0, polished, x), 0.0)
