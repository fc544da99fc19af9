"""One mode of a linear path: two equal layers in elementary functions, any layers by quadrature.

Only positive terms are added, so a plateau of 1e-12 and a remainder of 1e-300 keep their digits.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.theory.exact._base import (
    STRENGTH_HINT,
    Clock,
    Positive,
    Solution,
    Strength,
    increasing_root,
    read,
    time_to,
    together,
)


@dataclass(frozen=True, eq=False)
class TwoLayer(Solution):
    """One mode of a balanced two-layer path: the logistic curve of Saxe et al. (P2 eq. 7, P1 eq. 21).

    da/dt = 2 a (s - d a), a(0) = a0. singular_value: s > 0 (S or lambda). input_variance: d > 0 (D or delta).
    initial_strength: a0 > 0, the singular value of W2 W1 at the start (pi_0). They broadcast against each other and
    against times. For layers that differ see `Mode`.
    """

    singular_value: Positive
    input_variance: Positive
    initial_strength: Strength

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_shape", together(**vars(self))[0].shape)

    def _decay(self, times: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return e^(-2st) and the denominator e^(-2st) + (a0 d/s) (1 - e^(-2st))."""
        exponent = -2 * self.singular_value * self._times(times)
        start = self.initial_strength * self.input_variance / self.singular_value
        return np.exp(exponent), np.exp(exponent) - start * np.expm1(exponent)

    def strength(self, times: Any) -> np.ndarray:
        """Return a(t), which tends to s/d."""
        return np.asarray(self.initial_strength / self._decay(times)[1])

    def loss(self, times: Any) -> np.ndarray:
        """Return the loss above its limit, half d times (s/d - a)^2, accurate in its tail."""
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
class Mode(Solution):
    """One mode of a path of any depth from any positive layers.

        db_i/dt = n_i (a / b_i) (s - d a),   a = b_1^k_1 b_2^k_2 ...

    singular_value: s > 0. input_variance: d > 0. start: b_i(0) > 0, layer last. powers: k_i, the number of layers that
    equal layer i. counts: n_i, the number of paths that share such a layer. The fields broadcast against each other and
    against times; start, powers and counts have the layers as an axis of their own. Derived in docs/theory/exact.md.
    """

    singular_value: Positive
    input_variance: Positive
    start: Strength
    powers: Any = 1.0
    counts: Positive = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        powers = read("powers", self.powers, least=0.0)
        start, powers, counts = together(start=np.atleast_1d(self.start), powers=powers, counts=self.counts)
        read("depth, the sum of powers,", powers.sum(axis=-1), least=1.0, hint="a path has at least one layer")
        one = together(singular_value=self.singular_value, input_variance=self.input_variance, start=start[..., 0])[0]
        for name, values in (("start", start), ("powers", powers), ("counts", counts), ("_shape", one.shape)):
            object.__setattr__(self, name, values)

    @classmethod
    def deep(cls, singular_value: Any, input_variance: Any, initial_strength: Any, depth: Any = 2) -> "Mode":
        """One mode of a path of L equal layers, L >= 1, whole or not: da/dt = L a^(2 - 2/L) (s - d a).

        L = 1 is the exponential, L = 2 the logistic curve. initial_strength: a(0) > 0. depth: L.
        """
        depth = read("depth", depth, least=1.0, hint="a path has at least one layer")
        strength = read("initial_strength", initial_strength, above=0.0, hint=STRENGTH_HINT)
        together(initial_strength=strength, depth=depth)
        return cls(singular_value, input_variance, (strength ** (1 / depth))[..., None], depth[..., None])

    @classmethod
    def routing(
        cls, singular_value: Any, input_variance: Any, outer: Any, hidden: Any, domains: Any, paths: Any = None
    ) -> "Mode":
        """One mode of P1's routing network (eqs 13-17), whose outer and shared hidden layers are two in `layers`.

            dB1/dt = g B2 B1 (S - B2 B1^2 D),  dB2/dt = g m B1^2 (S - B2 B1^2 D),  m = sqrt(P),  g = sqrt(P)/M^2

        singular_value: S, and input_variance: D of the task's own data set. outer: B1(0), of each input and output
        matrix. hidden: B2(0), of the shared matrix. domains: M. paths: P through each hidden layer (default: M^2, full
        sharing; fewer require that all routes are trained and, for a real network, that sqrt(P) divides M).
        """
        routes = read("domains", domains, least=1.0) ** 2
        paths = routes if paths is None else read("paths", paths, least=1.0)
        together(domains=routes, paths=paths)
        hint = "no more paths can share a hidden layer than there are routes"
        shared = read("paths / domains^2", paths / routes, most=1.0, hint=hint)
        layers = {n: read(n, b, above=0.0, hint=STRENGTH_HINT) for n, b in (("outer", outer), ("hidden", hidden))}
        start = np.stack(together(**layers), axis=-1)
        counts = np.stack(np.broadcast_arrays(np.sqrt(paths) / routes, shared), axis=-1)
        return cls(singular_value, input_variance, start, [2.0, 1.0], counts)

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log a(0), log s/d, and the sign of the way from the end back to the start."""
        end = np.log(self.singular_value / self.input_variance)
        first, end = np.broadcast_arrays(np.sum(self.powers * np.log(self.start), axis=-1), end)
        return first, end, np.where(first > end, 1.0, -1.0)

    def _layers_at(self, log_strength: np.ndarray) -> np.ndarray:
        """Return the layers at a strength: all b_i^2/n_i have moved by the same amount."""
        squares = self.start**2 / self.counts
        least = squares.min(axis=-1, keepdims=True)
        apart = squares - least

        def mismatch(log_least: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            moved = np.exp(log_least)[..., None]
            value = 0.5 * np.sum(self.powers * np.log(self.counts * (moved + apart)), axis=-1) - log_strength
            return value, 0.5 * np.sum(self.powers * moved / (moved + apart), axis=-1)

        change = 2 / self.powers.sum(axis=-1) * (log_strength - self._ends[0])
        root = increasing_root(mismatch, np.log(least[..., 0]) + change, tolerance=1e-9)
        return np.asarray(np.sqrt(self.counts * (np.exp(root)[..., None] + apart)))

    @cached_property
    def _clock(self) -> Clock:
        first, end, sign = self._ends

        def pace(left: np.ndarray) -> np.ndarray:
            now = end + sign * left
            rate = np.sum(self.powers * self.counts / self._layers_at(now) ** 2, axis=-1)
            return np.asarray(np.exp(-now - np.maximum(now, end)) / (self.input_variance * rate))

        return Clock(pace, np.abs(first - end))

    @property
    def final(self) -> tuple[np.ndarray, ...]:
        """The layers at the end of learning, where their product is s/d."""
        return tuple(np.moveaxis(self._layers_at(self._ends[1]), -1, 0))

    def _log_strength(self, times: Any) -> np.ndarray:
        _, end, sign = self._ends
        return np.asarray(end + sign * self._clock.left(self._times(times)))

    def strength(self, times: Any) -> np.ndarray:
        """Return a(t), which tends to s/d."""
        return np.asarray(np.exp(self._log_strength(times)))

    def layers(self, times: Any) -> tuple[np.ndarray, ...]:
        """Return every b_i(t)."""
        return tuple(np.moveaxis(self._layers_at(self._log_strength(times)), -1, 0))

    def loss(self, times: Any) -> np.ndarray:
        """Return the loss above its limit, half d times (s/d - a)^2, accurate in its tail.

        For the routing network it is averaged over the trained routes, and the sum over modes is the loss of the
        network.
        """
        gap = np.exp(self._ends[1]) * np.expm1(self._ends[2] * self._clock.left(self._times(times)))
        return np.asarray(0.5 * self.input_variance * gap**2)

    def time(self, strength: Any) -> np.ndarray:
        """Return when a mode reaches a strength: 0 where it starts past it, inf at s/d and beyond."""
        first, end, _ = self._ends
        target = self.singular_value / self.input_variance

        def elapsed(level: np.ndarray) -> np.ndarray:
            return self._clock.elapsed(np.abs(np.log(level) - end))

        return time_to(strength, np.exp(first), np.broadcast_to(target, first.shape), elapsed)
