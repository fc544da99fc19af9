"""The method `closed_form`: formulas for the reduced system where it separates into single terms, no integration."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from neuralrace.theory.certificate import Assumption
from neuralrace.theory.exact import Deep, Routing, Unbalanced
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.reduction.modes import listed_paths
from neuralrace.theory.reduction.setup import SMALL, reduced_outcome, reduced_system, shares_bases
from neuralrace.theory.reduction.system import ReducedSystem, StateCurves
from neuralrace.theory.reduction.terms import Terms


@dataclass(frozen=True, repr=False)
class ClosedForm(Method[tuple[ReducedSystem, StateCurves]]):
    """Formulas where the reduced system separates, in shared bases or else in the paths' own modes.

    small: tolerance of what holds in the limit of small initial weights. With `force` it starts as `Reduction` does;
    there must be a formula all the same.
    """

    name: ClassVar[str] = "closed_form"
    small: float = SMALL

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], tuple[ReducedSystem, StateCurves] | None]:
        """Gradient flow, a reduced system, and a formula for every term of it."""
        rate = request.descent or 0.0
        steps = f"descent in steps of {rate:g} was asked for" if rate else "no steps are taken"
        flow, listed = Assumption("gradient flow", rate, 0.0, steps), request.statistics.once(listed_paths)
        if not flow.holds or not listed.holds:
            return (flow, listed), None
        own = not self.force and not shares_bases(request).holds
        rows, system = reduced_system(request, self.small, own=own, force=self.force)
        if system is None:
            return (flow, *rows), None
        missing, states = closed_form(system.terms, system.state)
        row = Assumption("terms with a formula", len(missing), 0.0, missing[0] if missing else "every term")
        return (flow, *rows, row), None if missing else (system, states)

    def solve(self, request: Request, prepared: tuple[ReducedSystem, StateCurves]) -> Outcome:
        """Evaluate the formulas."""
        return reduced_outcome(request, *prepared)


class _Term(NamedTuple):
    """A term that shares nothing with others, in one draw.

    S, D, its variables with the repeated one first, how often each is a factor, how many terms run through one member
    of each, and where they start.
    """

    strength: float
    variance: float
    variables: list[int]
    powers: list[int]
    counts: np.ndarray
    start: np.ndarray
    draw: int


Formula = Callable[[np.ndarray, list[_Term]], Iterable[np.ndarray]]  # times, terms -> (times, variables) of each


def closed_form(terms: Terms, start: np.ndarray) -> tuple[list[str], StateCurves]:
    """Why some draws have no formula, one reason each, and the formula of the others; start: (draws, variables)."""
    missing = [_together(terms)] * len(start) if _together(terms) else []
    variances, chosen = terms.coupling.diagonal(), dict[Formula, list[_Term]]()
    for draw, values in enumerate([] if missing else start):
        for k in range(len(terms.strengths)):
            factors = terms.of(k)
            variables = sorted(set(factors), key=lambda v: -factors.count(v))
            powers, counts = [factors.count(v) for v in variables], terms.through.data[variables]
            term = _Term(terms.strengths[k], variances[k], variables, powers, counts, values[variables], draw)
            formula = _formula(term)
            if isinstance(formula, str):
                missing.append(f"term {k}: {formula}")
                break
            chosen.setdefault(formula, []).append(term)

    def states(times: np.ndarray) -> np.ndarray:
        values = np.zeros((len(times), *start.shape))
        for formula, cases in chosen.items():
            for case, strengths in zip(cases, formula(times, cases), strict=True):
                values[:, case.draw, case.variables] = strengths
        return values

    return missing, states


def _together(terms: Terms) -> str:
    """Where the system does not split into terms that share nothing; then every variable is in one term alone."""
    coupled = terms.coupling.tocoo()
    for k in coupled.row[coupled.row != coupled.col][:1]:
        others = int(((coupled.row == k) & (coupled.col != k)).sum())
        return f"term {k} is coupled to {others} other(s)"
    for variable in np.flatnonzero(np.diff(terms.through.indptr) > 1)[:1]:
        return f"variable {variable} takes part in more than one term"
    return ""


def _formula(term: _Term) -> Formula | str:
    """The formula of a term, or why there is none."""
    depth, values = sum(term.powers), term.start
    if sum(power for power, value in zip(term.powers, values, strict=True) if value == 0) >= 2:
        return _standing  # a saddle: nothing moves
    if term.variance <= 0:
        return "its input variance is zero"
    if depth == 1:
        return _one_layer
    if term.strength <= 0:
        return "its input-output correlation is not positive"
    if depth == 2:
        return _two_layers
    if (values <= 0).any():
        return "a layer does not start above zero"
    if len(values) == 1:
        return _equal_layers
    if depth == 3 and len(values) == 2 and term.counts[1] >= term.counts[0]:
        return _routing
    return f"{depth} layers of which {len(values)} differ"


def _standing(times: np.ndarray, cases: list[_Term]) -> Iterable[np.ndarray]:
    return (np.tile(case.start, (len(times), 1)) for case in cases)


def _one_layer(times: np.ndarray, cases: list[_Term]) -> Iterable[np.ndarray]:
    for case in cases:
        final, rate = case.strength / case.variance, case.counts[0] * case.variance
        yield case.start + (case.start - final) * np.expm1(-rate * times)[:, None]


def _two_layers(times: np.ndarray, cases: list[_Term]) -> Iterable[np.ndarray]:
    """b_i = sqrt(n_i) w_i turns the counts n_i into a common factor g = sqrt(n_1 n_2) of S and g^2 of D."""
    both = [slice(None) if len(case.start) == 2 else [0, 0] for case in cases]  # two equal layers are one variable
    roots = np.sqrt([case.counts[which] for case, which in zip(cases, both, strict=True)])  # (cases, 2)
    start = np.array([case.start[which] for case, which in zip(cases, both, strict=True)]) / roots
    scales = roots[:, 0] * roots[:, 1]
    strengths, variances = (scales * [one.strength for one in cases], scales**2 * [one.variance for one in cases])
    layers = Unbalanced(strengths, variances, start[:, 0], start[:, 1]).layers(times[:, None])
    found = roots * np.stack(layers, axis=2)  # (times, cases, 2)
    return (found[:, i, : len(case.start)] for i, case in enumerate(cases))


def _equal_layers(times: np.ndarray, cases: list[_Term]) -> Iterable[np.ndarray]:
    for case in cases:
        (depth,), (count,), (begin,) = case.powers, case.counts, case.start
        product = Deep(count * case.strength, count * case.variance, begin**depth, depth).strength(times)
        yield product[:, None] ** (1.0 / depth)


def _routing(times: np.ndarray, cases: list[_Term]) -> Iterable[np.ndarray]:
    """P1 eqs 13-14 with M = ratio: the counts of the repeated factor go into S and D."""
    for case in cases:
        scale, ratio, (outer, hidden) = case.counts[1], case.counts[1] / case.counts[0], map(float, case.start)
        routing = Routing(scale * case.strength, scale * case.variance, outer, hidden, ratio)
        yield np.stack(routing.layers(times), axis=1)
