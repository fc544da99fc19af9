"""The routing network of P1: a hidden layer that many routes share outgrows the outer layers."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from neuralrace.theory.exact._base import (
    Positive,
    Solution,
    Strength,
    increasing_root,
    invert,
    read,
    read_times,
    time_to,
)


@dataclass(frozen=True, eq=False)
class Routing(Solution):
    """One mode of the routing network from any positive start (P1 eqs 13-17), derived in docs/theory/exact.md.

        dB1/dt = g B2 B1 (S - B2 B1^2 D),  dB2/dt = g m B1^2 (S - B2 B1^2 D),  m = sqrt(P),  g = sqrt(P)/M^2

    singular_value: S > 0 and input_variance: D > 0 of the task's own data set. outer: B1(0), of each input and output
    matrix. hidden: B2(0), of the shared matrix. domains: M. paths: P through each hidden layer (default: M^2, full
    sharing; fewer require that all routes are trained and, for a real network, that sqrt(P) divides M). All broadcast
    against each other and against times.
    """

    singular_value: Positive
    input_variance: Positive
    outer: Strength
    hidden: Strength
    domains: Annotated[Any, {"least": 1.0}]
    paths: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        routes = self.domains**2
        paths = routes if self.paths is None else read("paths", self.paths, least=1.0)
        object.__setattr__(self, "paths", paths)
        hint = "no more paths can share a hidden layer than there are routes"
        read("paths / domains^2", paths / routes, most=1.0, hint=hint)

    @cached_property
    def invariant(self) -> np.ndarray:
        """C = sqrt(P) B1^2 - B2^2, the same at all times."""
        return np.asarray(np.sqrt(self.paths) * self.outer**2 - self.hidden**2)

    @cached_property
    def _constant(self) -> np.ndarray:
        return np.asarray(np.sqrt(self.paths) * self.singular_value / self.input_variance)

    @cached_property
    def final(self) -> tuple[np.ndarray, np.ndarray]:
        """B1 and B2 at the end of learning, where B2 B1^2 = S/D and the invariant still holds."""
        hidden = self._hidden_at(self._constant)
        return np.sqrt(self.singular_value / self.input_variance / hidden), hidden

    def _hidden_at(self, constant: np.ndarray) -> np.ndarray:
        """Return the one positive root of x^3 + C x = constant, sought in the logarithm of x."""
        scale = np.cbrt(constant)
        linear = self.invariant / scale**2

        def cubic(log_x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            x = np.exp(log_x)
            return x**3 + linear * x - 1, 3 * x**3 + linear * x

        return np.asarray(scale * np.exp(increasing_root(cubic, np.zeros_like(linear))))

    def _clock(self, w: np.ndarray) -> np.ndarray:
        """Return the time, in units of m/(g D), until the gap b - B2 has shrunk by the factor e^(-w)."""
        hidden, constant, final = self.hidden, self._constant, self.final[1]
        step = -(final - hidden) * np.expm1(-w)
        q = constant / final
        square = np.sqrt(self.paths) * self.outer**2  # x^2 + C at the start
        quadratic = hidden**2 + final * hidden + q
        growth = np.log1p(step * (2 * hidden + step + final) / quadratic)
        inner = _reciprocal_square_integral(hidden, step, self.invariant, square)
        outer = _reciprocal_square_integral(hidden + final / 2, step, 0.75 * final**2 + self.invariant, quadratic)
        weight = 1 / (q * (2 * final**2 + q))
        return np.asarray(weight * (w + growth / 2 - (q / final + final / 2) * outer) + inner / constant)

    def _at(self, times: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return w, by how much log(b - B2) has fallen, and B2 - B2(0)."""
        final = self.final[1]
        scaled = np.broadcast_arrays(read_times(times) * self.input_variance / self.domains**2, final)[0]

        def elapsed(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            x = self.hidden - (final - self.hidden) * np.expm1(-w)
            return self._clock(w), 1 / ((x**2 + self.invariant) * (x**2 + final * x + self._constant / final))

        w = invert(elapsed, scaled)
        return w, -(final - self.hidden) * np.expm1(-w)

    def layers(self, times: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return B1(t) and B2(t)."""
        step = self._at(times)[1]
        outer_square = self.outer**2 + step * (2 * self.hidden + step) / np.sqrt(self.paths)
        return np.sqrt(outer_square), self.hidden + step

    def strength(self, times: Any) -> np.ndarray:
        """Return the strength B2 B1^2 of a path, which tends to S/D."""
        outer, hidden = self.layers(times)
        return np.asarray(hidden * outer**2)

    def loss(self, times: Any) -> np.ndarray:
        """Return the loss still to be lost, half D times (S/D - B2 B1^2)^2, averaged over the trained routes.

        The sum over modes is the loss of the network.
        """
        (w, step), final = self._at(times), self.final[1]
        now = self.hidden + step
        quadratic = now**2 + final * now + self._constant / final
        gap = (final - self.hidden) * np.exp(-w) * quadratic / np.sqrt(self.paths)
        return np.asarray(0.5 * self.input_variance * gap**2)

    def time(self, strength: Any) -> np.ndarray:
        """Return when a path reaches a strength, by eq. 15: 0 where it starts past it, inf at S/D and beyond."""
        final = self.final[1]

        def elapsed(level: np.ndarray) -> np.ndarray:
            hidden = self._hidden_at(np.sqrt(self.paths) * level)
            clock = self._clock(np.log1p((hidden - self.hidden) / (final - hidden)))
            return np.asarray(clock * self.domains**2 / self.input_variance)

        end = final * 0 + self.singular_value / self.input_variance  # in the shape of all parameters
        return time_to(strength, self.hidden * self.outer**2, end, elapsed)


def _reciprocal_square_integral(
    start: np.ndarray, step: np.ndarray, constant: np.ndarray, square: np.ndarray
) -> np.ndarray:
    """Return the integral of 1/(x^2 + constant) from start to start + step, for a constant of either sign.

    `square` is start^2 + constant, given separately so that a small one keeps its digits.
    """
    with np.errstate(all="ignore"):  # of the cases that are not chosen
        ratio, root = step / (square + start * step), np.sqrt(np.abs(constant))
        logarithm = np.log1p(2 * root * step * (start + root) / (square * (start + step + root))) / (2 * root)
        angle = np.arctan(root * ratio) / root
    return np.where(constant > 0, angle, np.where(constant < 0, logarithm, ratio))
