"""The race of views in exact form: shares, winner, amplitudes over time, and P3's three phases."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from neuralrace.arrays import real_array
from neuralrace.errors import RangeError, require_number
from neuralrace.theory.exact import RaceEnd, race_amplitudes, race_end

BLOCK = 64  # times that are solved together; one shape, so that one program serves any number of them


class Phases(NamedTuple):
    """When the phases of P3 end, by the filled fraction G = sum_n a_n^L / A^L."""

    growth: float  # G reaches `low`: until then every view grows as if alone
    competition: float  # G reaches `high`: from here the shares are all but final


@dataclass(frozen=True, eq=False)
class Race:
    """One race of M views, da_m/dt = r_m a_m^(L-1) (1 - sum_n a_n^L / A^L).

    strengths: a_m(0), (M,). rates: r_m (P3's sigma_m), (M,). depth: L. saturation: A (P3's s_max).
    """

    strengths: np.ndarray
    rates: np.ndarray
    depth: float
    saturation: float

    @cached_property
    def _end(self) -> RaceEnd:
        return race_end(self.strengths, self.rates, self.depth, self.saturation)

    @property
    def final(self) -> np.ndarray:
        """a_m at the end, (M,)."""
        return np.asarray(self._end.amplitudes)

    @property
    def shares(self) -> np.ndarray:
        """a_m^L at the end, normalized to one, (M,)."""
        return np.asarray(self._end.shares)

    @property
    def winner(self) -> int:
        """The view with the largest amplitude at the end; the first of several equal ones."""
        return int(self._end.winner)

    def amplitudes(self, times: Any) -> np.ndarray:
        """a_m at the given times, view last."""
        moments = real_array("times", times, RangeError)
        flat = np.zeros(-(-max(moments.size, 1) // BLOCK) * BLOCK)
        flat[: moments.size] = moments.ravel()
        solved = [
            race_amplitudes(block, self.strengths, self.rates, self.depth, self.saturation)
            for block in flat.reshape(-1, BLOCK)
        ]
        return np.concatenate(solved)[: moments.size].reshape(*moments.shape, len(self.strengths))

    def filled(self, times: Any) -> np.ndarray:
        """G = sum_n a_n^L / A^L, the part of the target that is explained."""
        return np.asarray(np.sum((self.amplitudes(times) / self.saturation) ** self.depth, axis=-1))

    def time_to(self, level: float) -> float:
        """When the filled fraction G first reaches a level between 0 and 1; 0 if it starts there."""
        wanted = require_number("level", level, above=0)
        if wanted >= 1:
            raise RangeError(f"level must be below 1, which is reached only after infinite time; it was {wanted:g}")
        if self._filled_at(0.0) >= wanted:
            return 0.0
        high = 1.0
        while self._filled_at(high) < wanted:
            high *= 2
        end = brentq(lambda y: self._filled_at(y) - wanted, 0.0, high, xtol=1e-14, rtol=1e-14)
        elapsed = quad(
            lambda y: np.exp(-(self.depth - 2) * y) / (1 - self._filled_at(y)),
            0.0,
            end,
            epsabs=0,
            epsrel=1e-10,
            limit=500,
        )[0]
        with np.errstate(over="ignore"):
            return float(elapsed * np.exp(-self._log_speeds.max()))  # inf where no double holds the time

    @property
    def _log_speeds(self) -> np.ndarray:
        """log r_m a_m(0)^(L-2), which no depth brings below the smallest double."""
        return np.asarray(np.log(self.rates) + (self.depth - 2) * np.log(self.strengths))

    def _filled_at(self, y: float) -> float:
        """G when the fastest view has grown e^y-fold: T = (1 - e^(-(L-2) y)) / ((L-2) x), x its r a(0)^(L-2)."""
        q, lead = self.depth - 2, self._log_speeds - self._log_speeds.max()
        with np.errstate(divide="ignore"):  # the fastest has no lag: log 0
            logs = np.exp(lead) * y if q == 0 else -np.logaddexp(np.log(-np.expm1(lead)), lead - q * y) / q
        return float(np.sum(np.exp(np.minimum(self.depth * (np.log(self.strengths / self.saturation) + logs), 300.0))))

    def phases(self, low: float = 0.1, high: float = 0.9) -> Phases:
        """Locate the phases of P3 in time: growth until G = low, competition until G = high, then settling."""
        if not low < high:
            raise RangeError(f"low must be below high; they were {low:g} and {high:g}")
        return Phases(self.time_to(low), self.time_to(high))


def race(strengths: Any, rates: Any, depth: float = 2, saturation: float = 1.0) -> Race:
    """Set up a race between views and solve it exactly.

    strengths: layer amplitudes a_m(0) > 0, one per view. rates: r_m > 0, one number or one per view.
    da_m/dt = r_m a_m^(L-1) (1 - sum_n a_n^L / A^L) with L = depth >= 2 and A = saturation; at depth two this is P3's
    equation in s_m = a_m.
    """
    start = _one_per_view("strengths", strengths)
    if start.size < 2:
        raise RangeError(
            f"a race needs at least two views; strengths has {start.size}: one view learns alone, exact.deep_mode"
        )
    speed = _one_per_view("rates", rates)
    if speed.size not in (1, start.size):
        raise RangeError(f"rates must be one number or one per view, {start.size}; {speed.size} came")
    checked = Race(
        start,
        np.broadcast_to(speed, start.shape),
        require_number("depth", depth),
        require_number("saturation", saturation),
    )
    _ = checked.winner  # the exact solver refuses what is no race: zero strength, negative rate, depth one
    return checked


def _one_per_view(name: str, value: Any) -> np.ndarray:
    entries = np.atleast_1d(real_array(name, value, RangeError))
    if entries.ndim != 1:
        raise RangeError(f"{name} must have one axis, the view; its shape was {entries.shape}: call race once per race")
    return entries
