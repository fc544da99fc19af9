"""The method `closed_form`: formulas for the reduced system where it separates into single terms, no integration."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from neuralrace._engine.devices import bucket_size
from neuralrace.theory.aligned.method import Aligned, staying_diagonal
from neuralrace.theory.certificate import Assumption, first_failing
from neuralrace.theory.exact import Deep, Routing, Unbalanced
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.reduction.method import Reduced, Reduction, diagonalizability, listed_paths
from neuralrace.theory.reduction.path_table import Terms
from neuralrace.theory.reduction.system import StateCurves

Strengths = dict[int, np.ndarray]  # variable -> (times,)


@dataclass(frozen=True, eq=False)
class Formulas:
    """A reduced system, in shared bases or in the paths' own, and its solution."""

    reduced: Reduced
    own: bool
    states: StateCurves


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

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], Formulas | None]:
        """Gradient flow, a reduced system, and a formula for every term of it."""
        rate = request.descent or 0.0
        steps = f"descent in steps of {rate:g} was asked for" if rate else "no steps are taken"
        flow, listed = Assumption("gradient flow", rate, 0.0, steps), request.statistics.once(listed_paths)
        if not flow.holds or not listed.holds:
            return (flow, listed), None
        own = not self.force and not diagonalizability(request).holds
        rows, reduced = self._in_own_modes(request) if own else self._in_shared_bases(request)
        if reduced is None:
            return (flow, *rows), None
        missing, states = closed_form(reduced.system.terms, reduced.system.initial_state())
        row = Assumption("terms with a formula", len(missing), 0.0, missing[0] if missing else "every term")
        ground = None if missing else Formulas(reduced, own, states)
        return (flow, *rows, row), ground

    def solve(self, request: Request, ground: Formulas) -> Outcome:
        """Evaluate the formulas."""
        outcome = ground.reduced.outcome(request, ground.states)
        return staying_diagonal(request, outcome) if ground.own else outcome

    def _in_shared_bases(self, request: Request) -> tuple[tuple[Assumption, ...], Reduced | None]:
        method = Reduction(self.force, self.lump, self.symmetric, handover=False, small=self.small)
        rows, ground = method.setup(request)
        return rows, ground if isinstance(ground, Reduced) else None

    def _in_own_modes(self, request: Request) -> tuple[tuple[Assumption, ...], Reduced | None]:
        method = Aligned(lump=self.lump, small=self.small)
        rows, ground = method.setup(request)
        if ground is None or first_failing(rows) is not None:
            return rows, None
        return rows, method.reduced(request, ground)


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


def separate(terms: Terms) -> tuple[str, list[Separated]]:
    """Split the system into terms that share nothing; the first says where it does not split, if it does not."""
    found: list[Separated] = []
    owner: dict[int, int] = {}
    for k in range(len(terms.strengths)):
        row = terms.coupling.getrow(k).tocoo()
        if any(column != k for column in row.col):
            return f"term {k} is coupled to {int((row.col != k).sum())} other(s)", []
        factors = tuple(int(v) for v in terms.factors[k] if v < terms.variable_count)
        for v in set(factors):
            if owner.setdefault(v, k) != k:
                return f"variable {v} takes part in more than one term", []
        counts = {int(v): float(terms.counts[i]) for i, (v, term) in enumerate(terms.through) if term == k}
        variance = float(row.data.sum()) if len(row.data) else 0.0
        found.append(Separated(float(terms.strengths[k]), variance, factors, tuple(counts[v] for v in factors)))
    return "", found


class TermInDraw(NamedTuple):
    """A term in one draw, and where the variables of that draw start."""

    term: Separated
    draw: int
    start: np.ndarray


Formula = Callable[[np.ndarray, list[TermInDraw]], Iterable[Strengths]]  # times, terms -> strengths of each


def closed_form(terms: Terms, start: np.ndarray) -> tuple[list[str], StateCurves]:
    """Why some draws have no formula, one reason each, and the formula of the others; start: (draws, variables)."""
    together, separated = separate(terms)
    chosen: dict[Formula, list[TermInDraw]] = {}
    missing = [together] * len(start) if together else []
    for draw, values in enumerate(start):
        for number, term in enumerate(separated):
            formula = _formula(term, values[list(term.factors)])
            if isinstance(formula, str):
                missing.append(f"term {number}: {formula}")
                break
            chosen.setdefault(formula, []).append(TermInDraw(term, draw, values))

    def states(times: np.ndarray) -> np.ndarray:
        values = np.zeros((len(times), *start.shape))
        asked = np.append(times, np.zeros(bucket_size(len(times)) - len(times)))
        for formula, cases in chosen.items():
            for case, strengths in zip(cases, formula(asked, cases), strict=True):
                for variable, strength in strengths.items():
                    values[:, case.draw, variable] = strength[: len(times)]
        return values

    return missing, states


def _formula(term: Separated, values: np.ndarray) -> Formula | str:
    """The formula of a term whose factors start at these values, or why there is none."""
    if np.count_nonzero(values == 0.0) >= 2:  # a saddle: nothing moves
        return _standing
    if term.variance <= 0:
        return "its input variance is zero"
    if len(term.factors) == 1:
        return _one_layer
    if term.strength <= 0:
        return "its input-output correlation is not positive"
    if len(term.factors) == 2:
        return _two_layers
    if (values <= 0).any():
        return "a layer does not start above zero"
    if len(term.distinct) == 1:
        return _equal_layers
    if len(term.factors) == 3 and len(term.distinct) == 2 and _ratio(term) >= 1:
        return _routing
    return f"{len(term.factors)} layers of which {len(term.distinct)} differ"


def _standing(times: np.ndarray, cases: list[TermInDraw]) -> Iterable[Strengths]:
    for case in cases:
        yield {v: np.full(len(times), case.start[v]) for v in case.term.distinct}


def _one_layer(times: np.ndarray, cases: list[TermInDraw]) -> Iterable[Strengths]:
    for term, _, start in cases:
        final, rate, (variable,) = term.strength / term.variance, term.counts[0] * term.variance, term.factors
        yield {variable: start[variable] + (start[variable] - final) * np.expm1(-rate * times)}


def _two_layers(times: np.ndarray, cases: list[TermInDraw]) -> Iterable[Strengths]:
    """b_i = sqrt(n_i) w_i turns the counts n_i into a common factor g = sqrt(n_1 n_2) of S and g^2 of D."""
    terms = [case.term for case in cases]
    roots = np.sqrt([term.counts for term in terms])  # (cases, 2)
    scales = (roots[:, 0] * roots[:, 1]).tolist()
    start = np.array([case.start[list(case.term.factors)] for case in cases]) / roots
    strengths = np.array([scale * term.strength for scale, term in zip(scales, terms, strict=True)])
    variances = np.array([scale**2 * term.variance for scale, term in zip(scales, terms, strict=True)])
    layers = Unbalanced(strengths, variances, start[:, 0], start[:, 1]).layers(times[:, None])
    found = roots * np.stack(layers, axis=2)  # (times, cases, 2)
    return [dict(zip(term.factors, found[:, i].T, strict=True)) for i, term in enumerate(terms)]


def _equal_layers(times: np.ndarray, cases: list[TermInDraw]) -> Iterable[Strengths]:
    for term, _, start in cases:
        depth, count, begin = len(term.factors), term.counts[0], float(start[term.factors[0]])
        strength = Deep(count * term.strength, count * term.variance, begin**depth, depth).strength(times)
        yield {term.factors[0]: strength ** (1.0 / depth)}


def _routing(times: np.ndarray, cases: list[TermInDraw]) -> Iterable[Strengths]:
    """P1 eqs 13-14 with M = ratio: the counts of the repeated factor go into S and D."""
    for term, _, start in cases:
        (outer, hidden), ratio = term.distinct, _ratio(term)
        scale = term.count(outer) * ratio
        start_outer, start_hidden = float(start[outer]), float(start[hidden])
        route = Routing(scale * term.strength, scale * term.variance, start_outer, start_hidden, ratio)
        layers = route.layers(times)
        yield {outer: layers.outer, hidden: layers.hidden}


def _ratio(term: Separated) -> float:
    """How many terms run through the other factor for each through the repeated one."""
    return term.count(term.distinct[1]) / term.count(term.distinct[0])
