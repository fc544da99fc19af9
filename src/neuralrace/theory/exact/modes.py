"""One mode of a linear path: two equal layers, any number of equal layers, two unequal layers.

The formulas add positive terms only, so a plateau of 1e-12 and a remainder of 1e-300 keep their digits.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from scipy.special import digamma, exprel, hyp2f1

from neuralrace.errors import RangeError
from neuralrace.theory.exact._base import (
    STRENGTH_HINT,
    Positive,
    Real,
    Solution,
    Strength,
    invert,
    read,
    read_times,
    time_to,
)

FAR = 1.6  # learned fractions above this use powers of 1/u
NODES, WEIGHTS = np.polynomial.legendre.leggauss(14)


@dataclass(frozen=True, eq=False)
class TwoLayer(Solution):
    """One mode of a balanced two-layer path: the logistic curve of Saxe et al. (P2 eq. 7, P1 eq. 21).

    da/dt = 2 a (s - d a), a(0) = a0. singular_value: s > 0 (S or lambda). input_variance: d > 0 (D or delta).
    initial_strength: a0 > 0, the singular value of W2 W1 at the start (pi_0). They broadcast against each other and
    against times.
    """

    singular_value: Positive
    input_variance: Positive
    initial_strength: Strength

    def _decay(self, times: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return e^(-2st) and the denominator e^(-2st) + (a0 d/s) (1 - e^(-2st))."""
        exponent = -2 * self.singular_value * read_times(times)
        start = self.initial_strength * self.input_variance / self.singular_value
        return np.exp(exponent), np.exp(exponent) - start * np.expm1(exponent)

    def strength(self, times: Any) -> np.ndarray:
        """Return a(t), which tends to s/d."""
        return np.asarray(self.initial_strength / self._decay(times)[1])

    def loss(self, times: Any) -> np.ndarray:
        """Return the loss still to be lost, half d times (s/d - a)^2, accurate in its tail."""
        decay, denominator = self._decay(times)
        gap = (self.singular_value / self.input_variance - self.initial_strength) * decay / denominator
        return np.asarray(0.5 * self.input_variance * gap**2)

    def time(self, strength: Any) -> np.ndarray:
        """Return when a mode reaches a strength: 0 where it starts past it, inf at s/d and beyond."""
        s, d, a0 = self.singular_value, self.input_variance, self.initial_strength

        def elapsed(a: np.ndarray) -> np.ndarray:
            return np.asarray(np.log1p(s * (a - a0) / (a0 * (s - d * a))) / (2 * s))

        return time_to(read("strength", strength), a0, s / d, elapsed)


@dataclass(frozen=True, eq=False)
class Deep(Solution):
    """One mode of a balanced path of any depth L >= 1, whole or not.

    da/dt = L a^(2 - 2/L) (s - d a), where a is the product of L equal layers. L = 1 is the exponential, L = 2 the
    logistic curve. Fields as in `TwoLayer`; depth: L.

    With the learned fraction u = d a/s and r = 2/L, the time in units of 1/(L s (s/d)^(1-r)) is the integral of
    u^(r-2)/(1-u). Its singular parts are split off,

        u^(r-2)/(1-u) = u^(r-2) + u^(r-1) + 1/(1-u) - (1-u^r)/(1-u),

    which leaves H(u), the integral of (1-u^r)/(1-u); for u > 1.6 the integral is taken over 1/u.
    """

    singular_value: Positive
    input_variance: Positive
    initial_strength: Strength
    depth: Annotated[Any, {"least": 1.0, "hint": "a path has at least one layer"}] = 2

    @cached_property
    def _end(self) -> np.ndarray:
        return np.asarray(self.singular_value / self.input_variance)

    @cached_property
    def _speed(self) -> np.ndarray:
        return np.asarray(self.depth * self.singular_value * self._end ** (1 - 2 / self.depth))

    def _clock(self, w: np.ndarray) -> np.ndarray:
        """Return the scaled time after which the gap 1 - u has shrunk by the factor e^(-w)."""
        u0, r = np.broadcast_arrays(self.initial_strength / self._end, 2 / self.depth)
        above = np.log(np.maximum(u0 - 1, FAR - 1) / (FAR - 1))  # the part of w that is spent above 1.6
        near_u0, near_w = np.minimum(u0, FAR), np.maximum(w - above, 0.0)
        travelled = -(1 - near_u0) * np.expm1(-near_w)
        growth = np.log1p(travelled / near_u0)
        powers = near_u0 ** (r - 1) * growth * (exprel((r - 1) * growth) + near_u0 * exprel(r * growth))
        now = _regular_part(near_u0 + travelled, (1 - near_u0) * np.exp(-near_w), r)
        near = powers + near_w - (now - _regular_part(near_u0, 1 - near_u0, r))
        if (u0 <= FAR).all():
            return near
        far_u0 = np.maximum(u0, FAR)
        u, p = far_u0 + (far_u0 - 1) * np.expm1(-np.minimum(w, above)), 2 - r
        fall = np.log(far_u0 / u)
        return near + _tail(1 / u, p) - _tail(1 / far_u0, p) + far_u0**-p * fall * exprel(p * fall)

    def _log_gap(self, times: Any) -> np.ndarray:
        """Return w, by how much log(s/d - a) has fallen."""
        scaled = read_times(times) * self._speed
        scaled, start, _ = np.broadcast_arrays(scaled, self.initial_strength / self._end, self.depth)

        def elapsed(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return self._clock(w), (start - (1 - start) * np.expm1(-w)) ** (2 / self.depth - 2)

        return invert(elapsed, scaled)

    def strength(self, times: Any) -> np.ndarray:
        """Return a(t)."""
        a0 = self.initial_strength
        return np.asarray(a0 - (self._end - a0) * np.expm1(-self._log_gap(times)))

    def loss(self, times: Any) -> np.ndarray:
        """Return the loss still to be lost, half d times (s/d - a)^2."""
        gap = (self._end - self.initial_strength) * np.exp(-self._log_gap(times))
        return np.asarray(0.5 * self.input_variance * gap**2)

    def time(self, strength: Any) -> np.ndarray:
        """Return when a mode reaches a strength: 0 where it starts past it, inf at s/d and beyond."""
        a0, end, _ = np.broadcast_arrays(self.initial_strength, self._end, self.depth)

        def elapsed(a: np.ndarray) -> np.ndarray:
            return np.asarray(self._clock(np.log1p((a - a0) / (end - a))) / self._speed)

        return time_to(read("strength", strength), a0, end, elapsed)


def _tail(z: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the integral from 0 to z of x^p/(1 - x), for z at most 0.625, where the power series is short."""
    return np.asarray(z ** (1 + p) / (1 + p) * hyp2f1(1, 1 + p, 2 + p, z))


def _regular_part(u: np.ndarray, gap: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Return H(u), the integral from 0 to u of (1 - x^r)/(1 - x), for 0 < u <= 1.6; gap is 1 - u."""
    low, high = np.minimum(u, 0.5), np.clip(gap, 1 - FAR, 0.5)
    about_zero = -np.log1p(-low) - _tail(low, r)
    # the integrand is analytic around u = 1, up to u = 0: the rule is exact to rounding
    g = np.where(high == 0, 1e-300, high)[..., None] * (NODES + 1) / 2
    integral = high * ((-np.expm1(r[..., None] * np.log1p(-g)) / g) @ WEIGHTS) / 2
    about_one = digamma(1 + r) + np.euler_gamma - integral
    return np.where(u < 0.5, about_zero, about_one)


@dataclass(frozen=True, eq=False)
class Unbalanced(Solution):
    """One mode of a two-layer path whose layers differ: from rich to lazy.

    dw1/dt = w2 (s - d w1 w2), dw2/dt = w1 (s - d w1 w2). first_layer and second_layer: w1(0) and w2(0) of either sign,
    not both zero. w2^2 - w1^2 is conserved (Fukumizu 1998; Saxe et al. 2014), X = (w1 + w2)^2 obeys a scalar Riccati
    equation, and the rest follows from it. From exactly w1 = -w2 the mode runs into its saddle.
    """

    singular_value: Positive
    input_variance: Positive
    first_layer: Real
    second_layer: Real

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.all(self.first_layer**2 + self.second_layer**2 > 0):
            raise RangeError(f"first_layer and second_layer must not both be 0; {STRENGTH_HINT}")

    @cached_property
    def _imbalance(self) -> np.ndarray:
        return np.asarray((self.second_layer - self.first_layer) * (self.second_layer + self.first_layer))

    @cached_property
    def _rate(self) -> np.ndarray:
        """The rate k at which the end is approached."""
        return np.asarray(np.hypot(2 * self.singular_value, self.input_variance * self._imbalance))

    @cached_property
    def _excess(self) -> np.ndarray:
        """k - 2 s, without cancellation."""
        return np.asarray((self.input_variance * self._imbalance) ** 2 / (self._rate + 2 * self.singular_value))

    @property
    def laziness(self) -> np.ndarray:
        """The dial d |w2^2 - w1^2| / k from rich (0, balanced layers) to lazy (1, one layer outweighs the task).

        Near 0 the curve is the logistic one, near 1 an exponential of rate k, as in a kernel machine.
        """
        return np.asarray(self.input_variance * np.abs(self._imbalance) / self._rate)

    def _moved(self, times: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return e^(-kt), (1 - e^(-kt))/k and the two factors whose ratio is X(t)/X(0) = Z(0)/Z(t), Z = (w2 - w1)^2."""
        exponent, d = -self._rate * read_times(times), self.input_variance
        plus, minus = (self.first_layer + self.second_layer) ** 2, (self.second_layer - self.first_layer) ** 2
        decay, grown = np.exp(exponent), -np.expm1(exponent) / self._rate
        up = 2 * decay + (self._rate + 2 * self.singular_value + d * minus) * grown
        return decay, grown, up, 2 * decay + (self._excess + d * plus) * grown

    def strength(self, times: Any) -> np.ndarray:
        """Return w1(t) w2(t), which tends to s/d."""
        decay, grown, up, down = self._moved(times)
        w1, w2, k, s, d = self.first_layer, self.second_layer, self._rate, self.singular_value, self.input_variance
        linear = k * w1 * w2 + s * (w1**2 + w2**2)
        square = k * (w1**2 + w2**2) + 4 * s * w1 * w2 + d * self._imbalance**2
        total = 4 * decay**2 * w1 * w2 + 4 * decay * grown * linear + 2 * s * grown**2 * square
        valley = w1 + w2 == 0  # the terms with `grown` cancel, and a factor of 2 decay with them
        return np.where(valley, 2 * decay * w1 * w2 / up, total / (up * np.where(valley, 1.0, down)))

    def layers(self, times: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return w1(t) and w2(t); the smaller one is computed by division to avoid cancellation."""
        _, _, up, down = self._moved(times)
        valley = self.first_layer + self.second_layer == 0
        total = (self.first_layer + self.second_layer) * np.sqrt(up / np.where(valley, 1.0, down))
        difference = (self.second_layer - self.first_layer) * np.sqrt(down / up)
        first, second = 0.5 * (total - difference), 0.5 * (total + difference)
        second_larger = np.abs(second) >= np.abs(first)
        larger = np.where(second_larger, second, first)
        smaller = self.strength(times) / np.where(larger == 0, 1.0, larger)
        return np.where(second_larger, smaller, first), np.where(second_larger, second, smaller)

    def loss(self, times: Any) -> np.ndarray:
        """Return the loss still to be lost, half d times (s/d - w1 w2)^2, accurate in its tail."""
        decay, _, up, down = self._moved(times)
        w1, w2, s, d = self.first_layer, self.second_layer, self.singular_value, self.input_variance
        end = (self._rate + 2 * s) / d  # of X
        valley, minus = w1 + w2 == 0, (w2 - w1) ** 2
        shrunk = np.where(valley, 1.0, 2 * decay / np.where(valley, 1.0, down))
        gap = (s / d - w1 * w2) * shrunk * (end + minus * down / up) / (end + minus)
        return np.asarray(0.5 * d * gap**2)

    def time(self, strength: Any) -> np.ndarray:
        """Return when the product of the layers reaches a strength: 0 where it starts past it, inf if it never does."""
        w1, w2, s, d, k, lam = (
            self.first_layer, self.second_layer, self.singular_value, self.input_variance, self._rate, self._imbalance,
        )  # fmt: skip
        start, end, plus = w1 * w2, s / d, (w1 + w2) ** 2

        def elapsed(a: np.ndarray) -> np.ndarray:
            root = np.hypot(2 * a, lam)
            reached = np.where(a >= 0, 2 * a + root, lam**2 / (root - 2 * a))  # X at a
            travelled = 4 * (a - start) / (1 + (w2 - w1) ** 2 / reached)
            remaining = 4 * (end - a) / (1 + lam**2 / (reached * (k + 2 * s) / d))
            usual = np.log1p(2 * k / d * travelled / (remaining * (plus + self._excess / d))) / k
            valley = np.log1p(s * (a - start) / (-a * (s - d * start))) / (2 * s)  # from w1 = -w2
            return np.where(plus > 0, usual, valley)

        return time_to(read("strength", strength), start, np.where(plus > 0, end, 0.0), elapsed)
