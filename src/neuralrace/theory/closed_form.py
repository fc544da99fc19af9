"""The method `closed_form`: formulas for the reduced system where it separates into single terms, no integration."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from neuralrace.theory.aligned.method import Aligned, staying_diagonal
from neuralrace.theory.certificate import Assumption, first_failing
from neuralrace.theory.exact.depth import deep_mode
from neuralrace.theory.exact.routing import routing_layers
from neuralrace.theory.exact.unbalanced import unbalanced_layers
from neuralrace.theory.method import Examined, Method, Outcome, Request
from neuralrace.theory.reduction.method import Reduced, Reduction, diagonalisability, listed_paths
from neuralrace.theory.reduction.path_table import Terms
from neuralrace.theory.reduction.system import States

Strengths = dict[int, np.ndarray]  # variable -> (times, draws)


@dataclass(frozen=True)
class NoFormula:
    """Why there is none, and for how many draws."""

    reason: str
    draws: int = 1


@dataclass(frozen=True, eq=False)
class Formulas:
    """A reduced system, in shared bases or in the paths' own, and its solution."""

    reduced: Reduced
    own: bool
    states: States


@dataclass(frozen=True, repr=False)
class ClosedForm(Method[Formulas]):
    """Formulas where the reduced system separates, in shared bases or else in the paths' own modes.

    lump, symmetric, small: as for Reduction. With `force` it goes on as that does; there must be a formula all the
    same.
    """

    name: ClassVar[str] = "closed_form"
    lump: bool = True
    symmetric: bool = False
    small: float = 1e-2

    def assumptions(self, request: Request) -> Examined[Formulas]:
        """Gradient flow, a reduced system, and a formula for every term of it."""
        rate = 0.0 if request.descent is None else request.descent.learning_rate
        steps = f"descent in steps of {rate:g} was asked for" if rate else "no steps are taken"
        flow, listed = Assumption("gradient flow", rate, 0.0, steps), request.statistics.once(listed_paths)
        if not flow.holds or not listed.holds:
            return Examined((flow, listed), None)
        own = not self.force and not diagonalisability(request).holds
        rows, reduced = self._in_own_modes(request) if own else self._in_shared_bases(request)
        if reduced is None:
            return Examined((flow, *rows), None)
        solution = closed_form(reduced.system.terms, reduced.system.initial_state())
        if isinstance(solution, NoFormula):
            row = Assumption("terms with a formula", solution.draws, 0.0, solution.reason)
            return Examined((flow, *rows, row), None)
        row = Assumption("terms with a formula", 0, 0.0, "every term")
        return Examined((flow, *rows, row), Formulas(reduced, own, solution), certain=not own)

    def solve(self, request: Request, ground: Formulas) -> Outcome:
        """Evaluate the formulas."""
        outcome = ground.reduced.outcome(request, ground.states)
        return staying_diagonal(request, outcome) if ground.own else outcome

    def _in_shared_bases(self, request: Request) -> tuple[tuple[Assumption, ...], Reduced | None]:
        method = Reduction(self.force, self.lump, self.symmetric, handover=False, small=self.small)
        examined = method.assumptions(request)
        return examined.assumptions, examined.ground if isinstance(examined.ground, Reduced) else None

    def _in_own_modes(self, request: Request) -> tuple[tuple[Assumption, ...], Reduced | None]:
        method = Aligned(lump=self.lump, small=self.small)
        examined = method.assumptions(request)
        if examined.ground is None or first_failing(examined.assumptions) is not None:
            return examined.assumptions, None
        return examined.assumptions, method.reduced(request, examined.ground)


@dataclass(frozen=True)
class Separated:
    """One term on its own: S, D, its factors, and how many terms run through each factor."""

    strength: float
    variance: float
    factors: tuple[int, ...]
    counts: tuple[float, ...]

    @property
    def distinct(self) -> tuple[int, ...]:
        """The variables among the factors, the repeated one first."""
        return tuple(sorted(set(self.factors), key=lambda v: -self.factors.count(v)))

    def count(self, variable: int) -> float:
        """How many terms run through a variable."""
        return self.counts[self.factors.index(variable)]


def separate(terms: Terms) -> list[Separated] | NoFormula:
    """Split the system into terms that share nothing, or say where it does not split."""
    found: list[Separated] = []
    owner: dict[int, int] = {}
    for k in range(len(terms.strengths)):
        row = terms.coupling.getrow(k).tocoo()
        if any(column != k for column in row.col):
            return NoFormula(f"term {k} is coupled to {int((row.col != k).sum())} other(s)")
        factors = tuple(int(v) for v in terms.factors[k] if v < terms.variable_count)
        for v in set(factors):
            if owner.setdefault(v, k) != k:
                return NoFormula(f"variable {v} takes part in more than one term")
        counts = {int(v): float(terms.counts[i]) for i, (v, term) in enumerate(terms.through) if term == k}
        variance = float(row.data.sum()) if len(row.data) else 0.0
        found.append(Separated(float(terms.strengths[k]), variance, factors, tuple(counts[v] for v in factors)))
    return found


def closed_form(terms: Terms, start: np.ndarray) -> States | NoFormula:
    """A formula for all variables, or why there is none; start: (draws, variables)."""
    separated = separate(terms)
    if isinstance(separated, NoFormula):
        return NoFormula(separated.reason, len(start))
    chosen: dict[tuple[int, Formula], list[int]] = {}  # term and formula -> the draws that it is for
    missing: dict[int, str] = {}
    for draw, values in enumerate(start):
        for number, term in enumerate(separated):
            formula = _formula(term, values[list(term.factors)])
            if isinstance(formula, NoFormula):
                missing[draw] = f"term {number}: {formula.reason}"
                break
            chosen.setdefault((number, formula), []).append(draw)
    if missing:
        return NoFormula(next(iter(missing.values())), len(missing))

    def states(times: np.ndarray) -> np.ndarray:
        values = np.zeros((len(times), *start.shape))
        for (number, formula), draws in chosen.items():
            for variable, strength in formula(separated[number], times, start[draws]).items():
                values[:, draws, variable] = strength
        return values

    return states


Formula = Callable[[Separated, np.ndarray, np.ndarray], Strengths]  # term, times, start of some draws


def _formula(term: Separated, values: np.ndarray) -> Formula | NoFormula:
    """The formula of a term whose factors start at these values."""
    if np.count_nonzero(values == 0.0) >= 2:  # a saddle: nothing moves
        return _standing
    if term.variance <= 0:
        return NoFormula("its input variance is zero")
    if len(term.factors) == 1:
        return _one_layer
    if term.strength <= 0:
        return NoFormula("its input-output correlation is not positive")
    if len(term.factors) == 2:
        return _two_layers
    if (values <= 0).any():
        return NoFormula("a layer does not start above zero")
    if len(term.distinct) == 1:
        return _equal_layers
    if len(term.factors) == 3 and len(term.distinct) == 2 and _ratio(term) >= 1:
        return _routing
    return NoFormula(f"{len(term.factors)} layers of which {len(term.distinct)} differ")


def _standing(term: Separated, times: np.ndarray, start: np.ndarray) -> Strengths:
    return {v: np.tile(start[:, v], (len(times), 1)) for v in term.distinct}


def _one_layer(term: Separated, times: np.ndarray, start: np.ndarray) -> Strengths:
    final, rate = term.strength / term.variance, term.counts[0] * term.variance
    begin = start[:, term.factors[0]]
    return {term.factors[0]: begin + (begin - final) * np.expm1(-rate * times)[:, None]}


def _two_layers(term: Separated, times: np.ndarray, start: np.ndarray) -> Strengths:
    """b_i = sqrt(n_i) w_i turns the counts n_i into a common factor g = sqrt(n_1 n_2) of S and g^2 of D."""
    roots = np.sqrt(term.counts)
    scale = float(roots[0] * roots[1])
    first, second = (start[:, v] / root for v, root in zip(term.factors, roots, strict=True))
    layers = unbalanced_layers(times[:, None], scale * term.strength, scale**2 * term.variance, first, second)
    return {v: root * np.asarray(w) for v, root, w in zip(term.factors, roots, layers, strict=True)}


def _equal_layers(term: Separated, times: np.ndarray, start: np.ndarray) -> Strengths:
    depth, count = len(term.factors), term.counts[0]
    strengths = [
        deep_mode(times, count * term.strength, count * term.variance, float(begin) ** depth, depth)
        for begin in start[:, term.factors[0]]
    ]
    return {term.factors[0]: np.stack([np.asarray(strength) ** (1.0 / depth) for strength in strengths], axis=1)}


def _routing(term: Separated, times: np.ndarray, start: np.ndarray) -> Strengths:
    """P1 eqs 13-14 with M = ratio: the counts of the repeated factor go into S and D."""
    outer, hidden = term.distinct
    ratio = _ratio(term)
    scale = term.count(outer) * ratio
    layers = [
        routing_layers(times, scale * term.strength, scale * term.variance, float(w[outer]), float(w[hidden]), ratio)
        for w in start
    ]
    return {
        outer: np.stack([np.asarray(each.outer) for each in layers], axis=1),
        hidden: np.stack([np.asarray(each.hidden) for each in layers], axis=1),
    }


def _ratio(term: Separated) -> float:
    """How many terms run through the other factor for each through the repeated one."""
    return term.count(term.distinct[1]) / term.count(term.distinct[0])
