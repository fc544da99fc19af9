"""Parts of exact solutions: checked fields, roots of increasing functions, and the time along a learning curve."""

from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import numpy as np
from numpy.polynomial import legendre

from neuralrace.arrays import real_array
from neuralrace.errors import RangeError, bounds_in_words

STRENGTH_HINT = "a mode of zero strength sits on a saddle and never learns: start it above zero"
Evaluated = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # x -> value and slope
NODES, WEIGHTS = legendre.leggauss(20)

# the entries of a field, which are finite
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
    required = " and ".join(["finite", *bounds_in_words(above, least, most)])
    first = tuple(int(i) for i in np.argwhere(~good)[0])
    where = f" at position {first}" if first else ""
    raise RangeError(f"{name} must be {required}; it was {entries[first]:g}{where}{f'; {hint}' if hint else ''}")


def read_times(times: Any) -> np.ndarray:
    """Return times, none of them before the start."""
    return read("times", times, least=0.0, hint="time runs forward from the initial weights, t = learning_rate * step")


def together(**arrays: np.ndarray) -> list[np.ndarray]:
    """Broadcast arrays against each other, or raise an error with the shape of each."""
    try:
        return list(np.broadcast_arrays(*arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise RangeError(
            f"the shapes must broadcast; they are {shapes}: give one number or arrays of equal shapes, and add an axis "
            "with [:, None] for all combinations"
        ) from None


class Solution:
    """Base of the exact solutions: annotated fields are checked and stored as float64 arrays."""

    _shape: tuple[int, ...] = ()  # of the solutions, against which times and levels broadcast

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self), include_extras=True).items():
            if hasattr(kind, "__metadata__"):
                object.__setattr__(self, name, read(name, getattr(self, name), **kind.__metadata__[0]))

    def _times(self, times: Any) -> np.ndarray:
        """Return checked times that broadcast against the solutions."""
        found = read_times(times)
        together(times=found, solutions=np.broadcast_to(0.0, self._shape))
        return found


def time_to(level: Any, start: Any, end: Any, elapsed: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the time to a strength on the way from start to end: 0 where it is passed, inf where out of reach."""
    level, start, end = together(strength=read("strength", level), start=start, end=end)
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


class Clock:
    """The time along a learning curve that ends where its speed has a simple zero, and the inverse.

    left: v = |log(strength / end)| at the start. pace: v -> dt/du, where u = -log(e^v - 1) is the logit of the learned
    fraction. Every pace here is smooth on a scale of one: it has no singularity within pi/2 of the real line. So a
    polynomial through 20 nodes on each panel of that width holds the time to rounding, however long a plateau lasts.
    """

    def __init__(self, pace: Callable[[np.ndarray], np.ndarray], left: np.ndarray) -> None:
        self._pace, self._start = pace, _logit(np.maximum(left, 1e-300))  # at its end a curve stays
        count = max(int(np.ceil(40 - self._start.min(initial=40))), 1)  # then the pace is constant to rounding
        knots = self._start + np.arange(count + 1).reshape(-1, *[1] * self._start.ndim)
        fit = (WEIGHTS[:, None] * legendre.legvander(NODES, len(NODES) - 1) * (np.arange(len(NODES)) + 0.5)).T
        series = legendre.legint(np.tensordot(fit, self._paces(knots[:-1], 1.0), 1), scl=0.5, lbnd=-1)
        last = np.zeros((len(series), 1, *self._start.shape))  # after the last knot time is a straight line
        last[:2] = pace(_left(knots[-1])) / 2
        begins = np.cumsum(np.concatenate([0 * knots[:1], series.sum(axis=0)]), axis=0)
        series = np.concatenate([series, last], axis=1)
        series[0] += begins
        self._begins, self._series = np.moveaxis(begins, 0, -1), np.moveaxis(series, 1, -1)  # (..., panel)

    def elapsed(self, left: np.ndarray) -> np.ndarray:
        """Return the time at which v has come down to a value."""
        passed = _logit(left) - self._start
        panel = np.clip(np.floor(passed), 0, self._begins.shape[-1] - 1).astype(int)
        rest = passed - panel
        paces = self._paces(self._start + panel, rest)  # all positive: short times keep their digits
        return np.asarray(_at(self._begins, panel) + rest / 2 * np.tensordot(WEIGHTS, paces, 1))

    def left(self, times: np.ndarray) -> np.ndarray:
        """Return v at a time."""
        times, start = np.broadcast_arrays(times, self._start)
        panel = np.maximum((self._begins <= times[..., None]).sum(axis=-1) - 1, 0)
        series = np.array([_at(coefficients, panel) for coefficients in self._series])
        slopes = legendre.legder(series)

        def late(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return legendre.legval(x, series, tensor=False) - times, legendre.legval(x, slopes, tensor=False)

        x = increasing_root(late, np.where(series[2] == 0, (times - series[0]) / series[1], 0.0), tolerance=1e-9)
        return _left(start + panel + (x + 1) / 2)

    def _paces(self, first: np.ndarray, width: np.ndarray | float) -> np.ndarray:
        """Return dt/du at the nodes of an interval of u; (nodes, ...)."""
        nodes = NODES.reshape(-1, *[1] * first.ndim)
        return self._pace(_left(first + width * (nodes + 1) / 2))


def _at(table: np.ndarray, panel: np.ndarray) -> np.ndarray:
    """Return the entries of a table, (..., panel), at one panel for each of its rows."""
    shape = (*panel.shape, table.shape[-1])
    return np.asarray(np.take_along_axis(np.broadcast_to(table, shape), panel[..., None], -1)[..., 0])


def _logit(left: np.ndarray) -> np.ndarray:
    return np.asarray(-left - np.log(-np.expm1(-left)))


def _left(logit: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, -logit)
