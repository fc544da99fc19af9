"""The method `closed_form`: formulas for the reduced system where it separates into single terms, no integration."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from neuralrace.theory.certificate import Assumption, first_failing
from neuralrace.theory.exact import Mode, TwoLayer
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.reduction.method import SMALL, reduced_outcome, reduced_system, shares_bases
from neuralrace.theory.reduction.system import ReducedSystem, StateCurves
from neuralrace.theory.reduction.terms import Terms, listed_paths


@dataclass(frozen=True, repr=False)
class ClosedForm(Method[tuple[ReducedSystem, StateCurves]]):
    """Formulas where the reduced system separates, in shared bases or else in the paths' own modes.

    small: tolerance of what holds in the limit of small initial weights. With `force` it starts as `Reduction` does;
    there must be a formula all the same.
    """

    name: ClassVar[str] = "closed_form"
    small: float = SMALL

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], tuple[ReducedSystem, StateCurves] | None]:
        """Require gradient flow, a reduced system, and a formula for each of its terms."""
        rate = request.descent or 0.0
        steps = f"descent in steps of {rate:g} was requested" if rate else "no steps are taken"
        flow, listed = Assumption("gradient flow", rate, 0.0, steps), request.statistics.once(listed_paths)
        if not flow.holds or not listed.holds:
            return (flow, listed), None
        own = not self.force and not shares_bases(request).holds
        rows, system = reduced_system(request, self.small, own=own, force=self.force)
        if system is None or (first_failing(rows) is not None and not self.force):
            return (flow, *rows), None
        missing, states = closed_form(system.terms, system.state)
        row = Assumption("terms with a formula", len(missing), 0.0, missing[0] if missing else "every term")
        return (flow, *rows, row), None if missing else (system, states)

    def solve(self, request: Request, prepared: tuple[ReducedSystem, StateCurves]) -> Outcome:
        """Evaluate the formulas."""
        return reduced_outcome(request, *prepared)


def closed_form(terms: Terms, start: np.ndarray) -> tuple[list[str], StateCurves]:
    """Return reasons why terms have no formula, and the solution for all terms; start: (draws, variables)."""
    missing, curves = [_together(terms)] if _together(terms) else [], []
    for k, (strength, variance) in enumerate(zip(terms.strengths, terms.coupling.diagonal(), strict=True)):
        variables, powers = np.unique(terms.of(k), return_counts=True)
        if not missing:
            formula = _formula(strength, variance, powers, terms.through.data[variables], start[:, variables])
            if isinstance(formula, str):
                missing.append(f"term {k}: {formula}")
            else:
                curves.append((variables, formula))

    def states(times: np.ndarray) -> np.ndarray:
        values = np.zeros((len(times), *start.shape))
        for variables, formula in curves:
            values[:, :, variables] = formula(times)
        return values

    return missing, states


def _together(terms: Terms) -> str:
    """Say where terms are coupled or share a variable; empty if every variable is in one uncoupled term."""
    coupled = terms.coupling.tocoo()
    for k in coupled.row[coupled.row != coupled.col][:1]:
        others = int(((coupled.row == k) & (coupled.col != k)).sum())
        return f"term {k} is coupled to {others} other(s)"
    for variable in np.flatnonzero(np.diff(terms.through.indptr) > 1)[:1]:
        return f"variable {variable} takes part in more than one term"
    return ""


def _formula(
    S: float, D: float, powers: np.ndarray, counts: np.ndarray, start: np.ndarray
) -> Callable[[np.ndarray], np.ndarray] | str:
    """The layers of a term over time, (times, draws, layers), or why there is no formula.

        db_i/dt = n_i (a / b_i) (S - D a),   a = b_1^k_1 b_2^k_2 ...

    powers: k_i. counts: n_i. start: (draws, layers).
    """
    depth, moves = powers.sum(), (powers * (start == 0)).sum(axis=1) < 2  # else on a saddle, where nothing moves
    begin = start[moves]
    if len(begin) and D <= 0:
        return "its input variance is zero"
    if len(begin) and depth > 1 and S <= 0:
        return "its input-output correlation is not positive"
    if depth > 1 and (np.prod(begin**powers, axis=1) <= 0).any():
        return "the product of its layers does not start above zero"

    def layers(times: np.ndarray) -> np.ndarray:
        if depth == 1:
            return begin + (begin - S / D) * np.expm1(-counts * D * times[:, None, None])
        if depth == 2 and len(powers) == 1:
            sizes = np.sqrt(TwoLayer(counts * S, counts * D, begin**2).strength(times[:, None, None]))
        else:
            sizes = np.stack(Mode(S, D, np.abs(begin), powers, counts).layers(times[:, None]), axis=-1)
        return np.sign(begin) * sizes  # the product is positive: signs cancel in it, and none changes

    def states(times: np.ndarray) -> np.ndarray:
        values = np.tile(start, (len(times), 1, 1))
        values[:, moves] = layers(times)
        return values

    return states if len(begin) else lambda times: np.tile(start, (len(times), 1, 1))
