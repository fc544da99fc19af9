"""Views that occur together only in part: the reduced race with a matrix of co-occurrence in place of one bracket.

    da_m/dt = a_m^(L-1) (S_m - sum_n D_mn a_n^L)

Between views that are always together (D_mn = S_m c_n: one shared bracket, the race of `race`) and views that never are
(D diagonal: every view learns alone). Where D is positive definite the end does not depend on the start.

Integrated by scipy, not by diffrax: a race of three views takes 4 ms, and in diffrax 2 ms after 0.9 s of compiling; to
times of 1e7, where it is stiff, it takes 0.03 to 0.07 s and there 0.06 to 0.9 s after 2.3 s.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import nnls

from neuralrace.arrays import real_array
from neuralrace.errors import AssumptionError, NeuralRaceError, RangeError, require_count, require_number

TOLERANCE = 1e-10  # relative, per step, in the logarithm of an amplitude
DEFINITE = 1e-9  # smallest eigenvalue of D over the largest


@dataclass(frozen=True, eq=False)
class CoupledRace:
    """One race with drive S_m = Sigma_yx of each view and coupling D_mn = Sigma_x between the views.

    strengths: a_m(0), (M,). drive: S, (M,). coupling: D, (M, M), symmetric and positive semi-definite. depth: L.
    """

    strengths: np.ndarray
    drive: np.ndarray
    coupling: np.ndarray
    depth: float

    def velocity(self, amplitudes: np.ndarray) -> np.ndarray:
        """da/dt at amplitudes (..., M)."""
        powers = amplitudes ** (self.depth - 1)
        return np.asarray(powers * (self.drive - (powers * amplitudes) @ self.coupling))

    def amplitudes(self, times: Any) -> np.ndarray:
        """a_m at increasing times, (T, M), by integrating the logarithms."""
        moments = real_array("times", times, RangeError)
        if moments.ndim != 1 or not moments.size or (moments < 0).any() or (np.diff(moments) < 0).any():
            raise RangeError("times must be one axis of increasing numbers, none negative; sort them")

        def field(_: float, logs: np.ndarray) -> np.ndarray:
            return self.velocity(np.exp(logs)) / np.exp(logs)

        span = (0.0, max(float(moments[-1]), np.finfo(float).eps))  # over a span near the least number LSODA never ends
        solved = solve_ivp(field, span, np.log(self.strengths), "LSODA", moments, rtol=TOLERANCE, atol=TOLERANCE)
        if not solved.success:
            raise NeuralRaceError(f"the race could not be integrated to time {moments[-1]:g}: {solved.message}")
        return np.asarray(np.exp(solved.y.T))

    @cached_property
    def final(self) -> np.ndarray:
        """a_m at the end, (M,): the least squares fit of the target with no negative strength."""
        values, vectors = np.linalg.eigh(self.coupling)
        if values[0] < DEFINITE * values[-1]:
            raise AssumptionError(
                f"the end is that of the least squares only where the coupling is positive definite; its smallest "
                f"eigenvalue is {values[0]:.2g}: views that are always together end by their start, use race"
            )
        root = (vectors * np.sqrt(values)).T
        strengths, _ = nnls(root, (vectors / np.sqrt(values)).T @ self.drive)
        return np.asarray(strengths ** (1 / self.depth))

    @property
    def shares(self) -> np.ndarray:
        """a_m^L at the end, normalized to one, (M,)."""
        strengths = self.final**self.depth
        return np.asarray(strengths / strengths.sum())

    @property
    def winner(self) -> int:
        """The view with the largest amplitude at the end; the first of several equal ones."""
        return int(np.argmax(self.final))


def coupled_race(strengths: Any, drive: Any, coupling: Any, depth: float = 2) -> CoupledRace:
    """Set up a race between views that occur together only in part.

    strengths: a_m(0) > 0. drive: S_m > 0, the correlation of each view with the target (P3's sigma_m for features of
    length one). coupling: D_mn, the correlation of views m and n; for features of length one the chance that both are
    present, over the number of classes. depth: L >= 2.
    """
    start, S = real_array("strengths", strengths, RangeError), real_array("drive", drive, RangeError)
    D, layers = real_array("coupling", coupling, RangeError), require_number("depth", depth, least=2)
    if start.ndim != 1 or start.size < 2:
        raise RangeError(f"a race needs strengths of at least two views on one axis; their shape was {start.shape}")
    if S.shape != start.shape or D.shape != (start.size, start.size):
        raise RangeError(
            f"drive must have shape {start.shape} and coupling {(start.size, start.size)}; they have {S.shape} and "
            f"{D.shape}"
        )
    for name, values in (("strengths", start), ("drive", S)):
        if not np.isfinite(values).all() or (values <= 0).any():
            raise RangeError(f"{name} must be finite and above 0 for every view; the least was {values.min():g}")
    if not np.isfinite(D).all() or not np.allclose(D, D.T, rtol=1e-9, atol=0):
        raise RangeError("coupling must be finite and symmetric: it holds the second moments of the views")
    if np.linalg.eigvalsh(D)[0] < -DEFINITE * np.abs(D).max():
        raise RangeError("coupling must have no negative eigenvalue: no views have such second moments")
    return CoupledRace(start, S, D, layers)


def co_occurrence(views: int, together: float, rate: float = 1.0) -> np.ndarray:
    """D for equal views: rate on the diagonal and rate * together beside it; together = chance of n given m, 0 to 1."""
    q = require_number("together", together, least=0, most=1)
    count = require_count("views", views)
    D: np.ndarray = require_number("rate", rate, above=0) * ((1 - q) * np.eye(count) + q)
    return D
