"""The race of views: P3's equation derived from a network and solved, for views always or partly together."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np

from neuralrace import initial
from neuralrace.errors import AssumptionError, NeuralRaceError, ProblemError, RangeError, require_count, require_kind
from neuralrace.problem import Problem
from neuralrace.theory import predict
from neuralrace.theory.exact import Race
from neuralrace.theory.exact._base import Positive, Real, Solution, Strength, read_times

__all__ = ["CoupledRace", "Race", "RaceEquation", "derive", "race"]


race = Race  # of views that always occur together, solved exactly


@dataclass(frozen=True, eq=False)
class CoupledRace(Solution):
    """A race between views that occur together only in part: da_m/dt = a_m^(L-1) (S_m - sum_n D_mn a_n^L).

    strengths: a_m(0) > 0. drive: S_m > 0, the correlation of each view with the target (P3's sigma_m for features of
    length one). coupling: D_mn, the correlation of views m and n; for features of length one the chance that both are
    present, over the number of classes. depth: L >= 2.

    It lies between views that are always together (D_mn = S_m c_n: the race of `race`) and views that never are (D
    diagonal: every view learns alone). Where D is positive definite the end does not depend on the start.
    """

    strengths: Strength
    drive: Positive
    coupling: Real
    depth: Annotated[Any, {"least": 2.0}] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        count, D = self.strengths.size, self.coupling
        if count < 2 or self.strengths.shape != self.drive.shape or D.shape != (count, count):
            raise RangeError(
                "a race needs strengths and drive of at least two views, (M,), and a coupling (M, M); their shapes "
                f"were {self.strengths.shape}, {self.drive.shape} and {D.shape}"
            )
        if not np.allclose(D, D.T, rtol=1e-9, atol=0) or np.linalg.eigvalsh(D)[0] < -1e-9 * np.abs(D).max():
            raise RangeError("coupling must be symmetric with no negative eigenvalue: it holds second moments of views")

    def strength(self, times: Any) -> np.ndarray:
        """Return a_m at increasing times, (T, M), by integrating the logarithms."""
        from scipy.integrate import solve_ivp

        t = read_times(times)
        if t.ndim != 1 or not t.size or (np.diff(t) < 0).any():
            raise RangeError("times must be one axis of increasing numbers; sort them")

        def rates(_: float, logs: np.ndarray) -> np.ndarray:
            powers = np.exp((self.depth - 2) * logs)
            return np.asarray(powers * (self.drive - np.exp(self.depth * logs) @ self.coupling))

        span = (0.0, max(float(t[-1]), np.finfo(float).eps))  # LSODA does not end on a span near the smallest number
        solved = solve_ivp(rates, span, np.log(self.strengths), "LSODA", t, rtol=1e-10, atol=1e-10)
        if not solved.success:
            raise NeuralRaceError(f"the race could not be integrated to time {t[-1]:g}: {solved.message}")
        return np.asarray(np.exp(solved.y.T))

    @cached_property
    def final(self) -> np.ndarray:
        """a_m at the end, (M,): the least squares fit of the target with no negative strength."""
        from scipy.optimize import nnls

        values, vectors = np.linalg.eigh(self.coupling)
        if values[0] < 1e-9 * values[-1]:
            raise AssumptionError(
                f"the end is the least-squares solution only where the coupling is positive definite; its smallest "
                f"eigenvalue is {values[0]:.2g}: views that are always together end by their start, use race"
            )
        strengths, _ = nnls((vectors * np.sqrt(values)).T, (vectors / np.sqrt(values)).T @ self.drive)
        return np.asarray(strengths ** (1 / self.depth))

    @property
    def shares(self) -> np.ndarray:
        """a_m^L at the end, normalized to one, (M,)."""
        return np.asarray(self.final**self.depth / np.sum(self.final**self.depth))


class RaceEquation(NamedTuple):
    """da_m/dt = a_m^(L-1) (S_m - sum_n D_mn a_n^L), the lumped equations of parallel pathways in one mode.

    drive: S, (M,). coupling: D, (M, M). depth: L. text: the equations as the reduction writes them, a line for each.
    `CoupledRace(strengths, drive, coupling, depth)` solves it; where views are always together and their features have
    length one, `race(strengths, drive, depth)` does so exactly.
    """

    drive: np.ndarray
    coupling: np.ndarray
    depth: int
    text: str


def derive(problem: Problem, mode: int = 0) -> RaceEquation:
    """Derive the equation of M parallel pathways by the reduction, without assuming its form.

    Every pathway gets one amplitude for all its layers, different from the others', and the reduction lumps variables
    that stay equal. mode: which of the modes of the statistics (for one-hot targets they are the classes, all alike).
    """
    require_kind("problem", problem, Problem, ProblemError)
    pathways = problem.architecture.paths()
    owner = {edge: m for m, path in enumerate(pathways) for edge in path.edges}
    depths = {len(path.edges) for path in pathways}
    if len(pathways) < 2 or len(depths) > 1 or len(owner) != sum(len(path.edges) for path in pathways):
        raise AssumptionError(
            f"a race needs at least two pathways of equal depth that share no edge; there are {len(pathways)} of "
            f"depths {sorted(depths)}: use the gating 'views' of tasks.views"
        )
    distinct = initial.decoupled({edge: 0.01 * (m + 1) for edge, m in owner.items()})
    reduction = predict(problem, distinct, [0.0], "reduction", progress=False).reduction
    assert reduction is not None  # the method that was chosen
    terms, place, mode = reduction.terms, {}, require_count("mode", mode, least=0)
    for k, factors in enumerate(terms.factors):
        variable = reduction.variables[int(factors[0])]
        if mode in variable.modes and abs(terms.strengths[k]) > 1e-9 * np.abs(terms.strengths).max():
            place[owner[variable.edges[0]]] = k
    if len(place) < len(pathways):
        raise AssumptionError(
            f"every pathway must learn mode {mode}; {len(pathways) - len(place)} of {len(pathways)} do not: their "
            "views carry no information about it; choose another mode"
        )
    order = [place[m] for m in range(len(pathways))]
    coupling = terms.coupling.toarray()[np.ix_(order, order)]
    return RaceEquation(terms.strengths[order], coupling, depths.pop(), reduction.equations().text)
