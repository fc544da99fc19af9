"""The law of the race, read off a problem by the neural race reduction: P3's equation as a case of P1 eq. 10."""

from dataclasses import dataclass, field

import numpy as np

from neuralrace import initial
from neuralrace.architecture import Path, check_weights
from neuralrace.axes import Edge, Weights
from neuralrace.errors import AssumptionError, ProblemError, require_count, require_kind
from neuralrace.problem import Problem
from neuralrace.theory import ReducedSystem, predict
from neuralrace.theory.reduction.equations import Equations
from neuralrace.views.coupled import CoupledRace, coupled_race
from neuralrace.views.race import Race, race

SHARED = 1e-9  # relative


@dataclass(frozen=True, eq=False)
class Law:
    """da_m/dt = a_m^(L-1) (S_m - sum_n D_mn a_n^L), the lumped equations of parallel pathways in one mode.

    pathways: the M paths. drive: S, (M,). coupling: D, (M, M). depth: L. equations: as the reduction writes them.
    """

    pathways: tuple[Path, ...] = field(repr=False)
    drive: np.ndarray
    coupling: np.ndarray
    depth: int
    equations: Equations = field(repr=False)

    @property
    def separateness(self) -> float:
        """How far the bracket is from being common to all views: 0 where they are always together (P3), else above."""
        brackets = self.coupling / self.drive[:, None]
        return float(np.abs(brackets - brackets.mean(axis=0)).max() / np.abs(brackets).max())

    @property
    def weights_in_sum(self) -> np.ndarray:
        """c_n of the common bracket 1 - sum_n c_n a_n^L, where it is common; |phi_n| for one-hot targets, (M,)."""
        return np.asarray((self.coupling / self.drive[:, None]).mean(axis=0))

    def race(self, strengths: np.ndarray) -> Race:
        """The exact race from layer amplitudes a_m(0); its amplitudes are b_m = c_m^(1/L) a_m, for unit features a_m.

        In b the law is db_m/dt = r_m b_m^(L-1) (1 - sum_n b_n^L) with r_m = S_m c_m^((2-L)/L): P3's equation at L = 2.
        """
        if self.separateness > SHARED:
            raise AssumptionError(
                f"the exact race needs views that are always together; their brackets differ by "
                f"{self.separateness:.2g}: use Law.coupled, which integrates"
            )
        c = self.weights_in_sum
        rates = self.drive * c ** ((2 - self.depth) / self.depth)
        return race(np.asarray(strengths) * c ** (1 / self.depth), rates, self.depth)

    def coupled(self, strengths: np.ndarray) -> CoupledRace:
        """The race with these statistics, whatever they are."""
        return coupled_race(strengths, self.drive, self.coupling, self.depth)

    def velocity(self, strengths: np.ndarray) -> np.ndarray:
        """da_m/dt by the law at amplitudes (..., M)."""
        return CoupledRace(strengths, self.drive, self.coupling, self.depth).velocity(strengths)


def derive(problem: Problem, mode: int = 0) -> Law:
    """Derive the law of M parallel pathways with the reduction: nothing of it is written down beforehand.

    Every pathway gets one amplitude for all its layers, different from the others', and the reduction lumps what stays
    alike. mode: which of the modes of the statistics (for one-hot targets they are the classes, all alike).
    """
    require_kind("problem", problem, Problem, ProblemError)
    pathways = problem.architecture.paths()
    owner: dict[Edge, int] = {edge: m for m, path in enumerate(pathways) for edge in path.edges}
    depths = {len(path.edges) for path in pathways}
    if len(pathways) < 2 or len(depths) > 1 or len(owner) != sum(len(path.edges) for path in pathways):
        raise AssumptionError(
            f"the race is that of at least two pathways of equal depth that share no edge; there are "
            f"{len(pathways)} of depths {', '.join(map(str, sorted(depths)))}: use the gating 'views' of tasks.views"
        )
    distinct = initial.decoupled({edge: 0.01 * (m + 1) for edge, m in owner.items()})
    reduction = predict(problem, distinct, [0.0], "reduction").reduction
    assert reduction is not None  # the method that was asked for
    drive, coupling = _of_mode(reduction, owner, len(pathways), require_count("mode", mode, least=0))
    return Law(pathways, drive, coupling, depths.pop(), reduction.equations())


def _of_mode(reduction: ReducedSystem, owner: dict[Edge, int], count: int, mode: int) -> tuple[np.ndarray, np.ndarray]:
    """S and D of one mode, in the order of the pathways, from the terms of the lumped system."""
    terms, place = reduction.terms, {}
    for k, factors in enumerate(terms.factors):
        variable = reduction.variables[int(factors[0])]
        if mode in variable.modes:
            place[owner[variable.edges[0]]] = k
    order = [place[m] for m in range(count) if m in place]
    drive = np.abs(terms.strengths[order])
    silent = count - len(order) + int((drive <= SHARED * np.abs(terms.strengths).max(initial=0.0)).sum())
    if silent:
        raise AssumptionError(
            f"every pathway must learn mode {mode}; {silent} of {count} do not: their views tell nothing about it, "
            f"choose another mode"
        )
    return terms.strengths[order], terms.coupling.toarray()[np.ix_(order, order)]


def path_strengths(pathways: tuple[Path, ...], weights: Weights) -> np.ndarray:
    """B_km, the response of output k to feature k of view m, (K, M), for one-hot targets."""
    return np.stack([np.diagonal(path.product(weights)) for path in pathways], axis=1)


def error_term(problem: Problem, law: Law, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """P3's E_km: what the true flow leaves over from the law, and the law's own velocity; (K, M) each.

    For one-hot targets and orthogonal features, whose modes are the classes. The amplitude is a_km = B_km^(1/L); its
    true velocity follows from the gradient at the weights. NaN where B_km is not positive. It comes from layers that
    are not balanced and from modes that are not decoupled.
    """
    checked = check_weights(problem.architecture, weights)
    downhill = {edge: -slope for edge, slope in problem.gradient(checked).items()}
    strengths = path_strengths(law.pathways, checked)
    turned = [[path.product({**checked, edge: downhill[edge]}) for edge in path.edges] for path in law.pathways]
    change = np.stack([np.diagonal(sum(products)) for products in turned], axis=1)  # of W_L ... W_1, edge by edge
    amplitudes = np.where(strengths > 0, strengths, np.nan) ** (1 / law.depth)
    predicted = law.velocity(amplitudes)
    return amplitudes * change / (law.depth * np.where(strengths > 0, strengths, np.nan)) - predicted, predicted
