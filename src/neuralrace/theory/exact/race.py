"""The race of views: paths of depth L >= 2 that feed one output and share the error.

Every view runs on one clock T, dT/dt = 1 - sum_n a_n^L / A^L, that stops at the end of the race, a scalar root; so the
end is exact. The clock is y = -log(1 - (L-2) x T)/(L-2), with x the largest r_m a_m(0)^(L-2): the logarithm of the
growth that a view with that x has made. It stays of order log(A/a) where T runs into a blow-up.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from scipy.special import logsumexp, softmax

from neuralrace.errors import RangeError
from neuralrace.theory.exact._base import Clock, Positive, Solution, Strength, increasing_root, read, together


@dataclass(frozen=True, eq=False)
class Race(Solution):
    """A race between views that always occur together, or several races at once, derived in docs/theory/exact.md.

        da_m/dt = r_m a_m^(L-1) (1 - sum_n a_n^L / A^L)

    strengths: layer amplitudes a_m(0) > 0 (P3's s_m at depth two), view last. rates: r_m > 0 (sigma_m), one number or
    one per view. depth: L >= 2. saturation: A (s_max). Leading axes of strengths and rates are races, against which
    depth and saturation broadcast.
    """

    strengths: Strength
    rates: Positive
    depth: Annotated[Any, {"least": 2.0, "hint": "one layer has no race: its views add linearly"}] = 2
    saturation: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        views = self.strengths.shape[-1] if self.strengths.ndim else 1
        if views < 2:
            raise RangeError(
                f"a race needs at least two views; strengths has {views}: one view learns alone, theory.exact.Mode"
            )
        try:
            shape = np.broadcast_shapes(self.strengths.shape, self.rates.shape)
            batch = np.broadcast_shapes(shape[:-1], self.depth.shape, self.saturation.shape)
            np.broadcast_shapes(shape, (views,))
        except ValueError:
            raise RangeError(
                f"rates must be one number or one per view, {views}, and depth and saturation one number or one per "
                f"race; their shapes were {self.rates.shape}, {self.depth.shape} and {self.saturation.shape}"
            ) from None
        object.__setattr__(self, "_shape", batch)
        object.__setattr__(self, "strengths", np.broadcast_to(self.strengths, (*batch, views)))
        object.__setattr__(self, "rates", np.broadcast_to(self.rates, (*batch, views)))
        for name in ("depth", "saturation"):
            object.__setattr__(self, name, np.broadcast_to(getattr(self, name), batch))

    @cached_property
    def _log_speeds(self) -> np.ndarray:
        """log r_m a_m(0)^(L-2), in logarithms so that it does not underflow at large depth."""
        return np.asarray(np.log(self.rates) + (self.depth - 2)[..., None] * np.log(self.strengths))

    @cached_property
    def _behind(self) -> np.ndarray:
        """log rho_m, the view's speed over the largest."""
        return np.asarray(self._log_speeds - self._log_speeds.max(axis=-1, keepdims=True))

    def _log_growth(self, y: np.ndarray) -> np.ndarray:
        """Return log(a_m/a_m(0)) = -log(1 - rho_m + rho_m e^(-q y))/q."""
        q, y = (self.depth - 2)[..., None], y[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):  # the fastest view has no lag: log 0
            logs = -np.logaddexp(np.log(-np.expm1(self._behind)), self._behind - q * y) / q
        return np.where(q == 0, np.exp(self._behind) * y, logs)

    def _clock_at(self, level: np.ndarray) -> np.ndarray:
        """Return y where the learned fraction is a level; negative where the race starts above it."""

        def excess(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            logs = self._log_growth(y)
            powers = self.depth[..., None] * (np.log(self.strengths) + logs)
            value = logsumexp(powers, axis=-1) - self.depth * np.log(self.saturation) - np.log(level)
            # d log(a_m)/dy = rho_m (a_m/a_m(0))^q e^(-q y)
            slopes = np.exp(self._behind + (self.depth - 2)[..., None] * (logs - y[..., None]))
            return value, self.depth * (softmax(powers, axis=-1) * slopes).sum(axis=-1)

        guess = np.log(self.saturation) - np.log(self.strengths).max(axis=-1)
        return increasing_root(excess, together(level=level, races=guess)[1])

    @cached_property
    def _end(self) -> np.ndarray:
        return self._clock_at(np.ones(self.depth.shape))

    @cached_property
    def final(self) -> np.ndarray:
        """a_m at the end."""
        return np.asarray(self.strengths * np.exp(self._log_growth(self._end)))

    @cached_property
    def shares(self) -> np.ndarray:
        """a_m^L at the end, normalized to one."""
        return np.asarray(softmax(self.depth[..., None] * np.log(self.final), axis=-1))

    @property
    def winner(self) -> np.ndarray:
        """The view with the largest amplitude at the end; the first of several equal ones."""
        return np.asarray(self.final.argmax(axis=-1))

    @cached_property
    def _sign(self) -> np.ndarray:
        """1 where the race starts below its end, -1 above."""
        return np.where(self._end < 0, -1.0, 1.0)

    @cached_property
    def _clock(self) -> Clock:
        """The time in units of 1/x, by L times the distance of y from its end: all views change within 1/L of y."""
        L, end, sign = self.depth, self._end, self._sign
        q = (L - 2)[..., None]
        k = np.exp(self._behind + q * (self._log_growth(end) - end[..., None]))

        def pace(left: np.ndarray) -> np.ndarray:
            to_go = sign * left / L
            x = q * to_go[..., None]
            with np.errstate(divide="ignore", invalid="ignore"):  # where q is 0
                growth = (np.log1p(k * np.expm1(np.minimum(x, 700.0))) + np.maximum(x - 700.0, 0.0)) / q
            growth = np.where(q == 0, k * to_go[..., None], growth)  # log(a_m(end)/a_m)
            missing = -(self.shares * np.expm1(-L[..., None] * growth)).sum(axis=-1)  # 1 - G
            return np.asarray(np.exp((2 - L) * (end - to_go)) * sign * -np.expm1(-left) / L / missing)

        return Clock(pace, L * np.abs(end))

    def strength(self, times: Any) -> np.ndarray:
        """Return a_m(t), view last; times broadcast against the races."""
        scaled = self._times(times) * np.exp(self._log_speeds.max(axis=-1))
        y = self._end - self._sign * self._clock.left(scaled) / self.depth
        return np.asarray(self.strengths * np.exp(self._log_growth(y)))

    def time(self, level: Any) -> np.ndarray:
        """Return when the learned fraction G first reaches a level between 0 and 1; 0 where it starts there."""
        wanted = read("level", level, above=0.0)
        if (wanted >= 1).any():
            raise RangeError(
                f"level must be below 1, which is reached only after infinite time; it was {wanted.max():g}"
            )
        y = np.maximum(self._clock_at(wanted), 0.0)
        with np.errstate(over="ignore", invalid="ignore"):  # inf where no double holds the time
            elapsed = self._clock.elapsed(self.depth * np.abs(self._end - y)) * np.exp(-self._log_speeds.max(axis=-1))
        return np.where(y > 0, elapsed, 0.0)

    def phases(self, low: float = 0.1, high: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Return when P3's growth (every view as if alone, until G = low) and competition (until G = high) end."""
        return self.time(low), self.time(high)
