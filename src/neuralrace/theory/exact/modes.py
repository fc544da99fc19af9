"""One mode of a linear path: two equal layers, any number of equal layers, two unequal layers.

The formulas add positive terms only, so a plateau of 1e-12 and a remainder of 1e-300 keep their digits.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from scipy.special import exprel

from neuralrace.errors import RangeError
from neuralrace.theory.exact._base import STRENGTH_HINT, Positive, Real, Solution, Strength, invert, read_times, time_to


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

        return time_to(strength, a0, s / d, elapsed)


@dataclass(frozen=True, eq=False)
class Deep(Solution):
    """One mode of a balanced path of any depth L >= 1, whole or not.

    da/dt = L a^(2 - 2/L) (s - d a), where a is the product of L equal layers. L = 1 is the exponential, L = 2 the
    logistic curve. Fields as in `TwoLayer`; depth: L.
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
        """Return the scaled time after which the gap 1 - u, of u = d a/s, has shrunk by the factor e^(-w).

        It is the integral of u^(r-2)/(1-u) = u^(r-2) + u/(1-u) + (u^(r-1) - u)/(1-u) with r = 2/L. The first two terms
        are integrated in closed form and the last, which has no pole, by quadrature over log(u). From above the end it
        is the same integral over 1/u, with 3 - r for r.
        """
        u, r = np.broadcast_arrays(self.initial_strength / self._end, 2 / self.depth)
        step, above = -(1 - u) * np.expm1(-w), u > 1
        growth = np.log1p(step / u)
        with np.errstate(all="ignore"):  # where the end is not approached from above
            fallen = np.where(w < 1, -np.log1p(-step / (1 - u) / (u + step)), w + growth)
        w, step = np.where(above, fallen, w), np.where(above, -step / (u * (u + step)), step)
        u, r, growth = np.where(above, 1 / u, u), np.where(above, 3 - r, r), np.abs(growth)
        last = np.log(u + step)
        # below e^-37 the last term adds nothing to the first
        width = np.where(above, growth, np.minimum(growth, np.maximum(last + 37, 0)))
        nodes, weights = np.polynomial.legendre.leggauss(24)
        logs = last - width * (nodes.reshape(-1, *[1] * width.ndim) + 1) / 2
        x = np.exp(logs)
        rest = (np.exp(r * logs) - x**2) / np.where(x == 1, np.inf, 1 - x)
        return u ** (r - 1) * growth * exprel((r - 1) * growth) + w - step + width / 2 * np.tensordot(weights, rest, 1)

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
        return time_to(strength, a0, end, lambda a: self._clock(np.log1p((a - a0) / (end - a))) / self._speed)


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
    def _numbers(self) -> tuple[np.ndarray, ...]:
        """w1, w2, s, d, the imbalance w2^2 - w1^2, the rate k at which the end is approached, and k - 2 s."""
        w1, w2, s, d = self.first_layer, self.second_layer, self.singular_value, self.input_variance
        imbalance = (w2 - w1) * (w2 + w1)
        rate = np.hypot(2 * s, d * imbalance)
        return w1, w2, s, d, imbalance, rate, (d * imbalance) ** 2 / (rate + 2 * s)

    def _moved(self, times: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return e^(-kt), (1 - e^(-kt))/k and the two factors whose ratio is X(t)/X(0) = Z(0)/Z(t), Z = (w2 - w1)^2."""
        w1, w2, s, d, _, k, excess = self._numbers
        exponent = np.maximum(-k * read_times(times), -700.0)  # from w1 = -w2 factors of e^(-kt) cancel
        decay, grown = np.exp(exponent), -np.expm1(exponent) / k
        up = 2 * decay + (k + 2 * s + d * (w2 - w1) ** 2) * grown
        return decay, grown, up, 2 * decay + (excess + d * (w1 + w2) ** 2) * grown

    def strength(self, times: Any) -> np.ndarray:
        """Return w1(t) w2(t), which tends to s/d."""
        decay, grown, up, down = self._moved(times)
        w1, w2, s, d, imbalance, k, _ = self._numbers
        linear = k * w1 * w2 + s * (w1**2 + w2**2)
        square = k * (w1**2 + w2**2) + 4 * s * w1 * w2 + d * imbalance**2
        return (4 * decay**2 * w1 * w2 + 4 * decay * grown * linear + 2 * s * grown**2 * square) / (up * down)

    def layers(self, times: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return w1(t) and w2(t); the smaller one is computed by division to avoid cancellation."""
        _, _, up, down = self._moved(times)
        total = (self.first_layer + self.second_layer) * np.sqrt(up / down)
        difference = (self.second_layer - self.first_layer) * np.sqrt(down / up)
        first, second = 0.5 * (total - difference), 0.5 * (total + difference)
        second_larger = np.abs(second) >= np.abs(first)
        larger = np.where(second_larger, second, first)
        smaller = self.strength(times) / np.where(larger == 0, 1.0, larger)
        return np.where(second_larger, smaller, first), np.where(second_larger, second, smaller)

    def loss(self, times: Any) -> np.ndarray:
        """Return the loss still to be lost, half d times (s/d - w1 w2)^2, accurate in its tail."""
        decay, _, up, down = self._moved(times)
        w1, w2, s, d, _, k, _ = self._numbers
        end, minus = (k + 2 * s) / d, (w2 - w1) ** 2  # of X, and Z at the start
        gap = (s / d - w1 * w2) * 2 * decay / down * (end + minus * down / up) / (end + minus)
        return np.asarray(0.5 * d * gap**2)

    def time(self, strength: Any) -> np.ndarray:
        """Return when the product of the layers reaches a strength: 0 where it starts past it, inf if it never does."""
        w1, w2, s, d, imbalance, k, excess = self._numbers
        start, end, plus = w1 * w2, s / d, (w1 + w2) ** 2

        def elapsed(a: np.ndarray) -> np.ndarray:
            root = np.hypot(2 * a, imbalance)
            reached = np.where(a >= 0, 2 * a + root, imbalance**2 / (root - 2 * a))  # X at a
            travelled = 4 * (a - start) / (1 + (w2 - w1) ** 2 / reached)
            remaining = 4 * (end - a) / (1 + imbalance**2 / (reached * (k + 2 * s) / d))
            usual = np.log1p(2 * k / d * travelled / (remaining * (plus + excess / d))) / k
            valley = np.log1p(s * (a - start) / (-a * (s - d * start))) / (2 * s)  # from w1 = -w2
            return np.where(plus > 0, usual, valley)

        return time_to(strength, start, np.where(plus > 0, end, 0.0), elapsed)
