"""Formulas for the reduced system where it separates into single terms: no integration at all."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neuralrace.theory.exact.depth import deep_mode
from neuralrace.theory.exact.routing import routing_layers
from neuralrace.theory.exact.unbalanced import unbalanced_layers
from neuralrace.theory.reduction.polynomial import Terms

Solution = Callable[[np.ndarray], dict[int, np.ndarray]]  # times -> variable -> values


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


def separate(terms: Terms) -> tuple[list[Separated], str]:
    """Split the system into terms that share nothing, or say where it does not split."""
    found: list[Separated] = []
    owner: dict[int, int] = {}
    for k in range(len(terms.strengths)):
        row = terms.coupling.getrow(k).tocoo()
        if any(column != k for column in row.col):
            return [], f"term {k} is coupled to {int((row.col != k).sum())} other(s)"
        factors = tuple(int(v) for v in terms.factors[k] if v < terms.variable_count)
        for v in set(factors):
            if owner.setdefault(v, k) != k:
                return [], f"variable {v} takes part in more than one term"
        counts = {int(v): float(terms.counts[i]) for i, (v, term) in enumerate(terms.through) if term == k}
        variance = float(row.data.sum()) if len(row.data) else 0.0
        found.append(Separated(float(terms.strengths[k]), variance, factors, tuple(counts[v] for v in factors)))
    return found, ""


def closed_form(terms: Terms, start: np.ndarray) -> tuple[Solution | None, str]:
    """A formula for all variables, or None and why there is none; start: (variables,)."""
    separated, reason = separate(terms)
    if reason:
        return None, reason
    pieces = []
    for number, term in enumerate(separated):
        piece, reason = _solution(term, start)
        if piece is None:
            return None, f"term {number}: {reason}"
        pieces.append(piece)

    def solve(times: np.ndarray) -> dict[int, np.ndarray]:
        return {v: values for piece in pieces for v, values in piece(times).items()}

    return solve, ""


def _solution(term: Separated, start: np.ndarray) -> tuple[Solution | None, str]:
    values = start[list(term.factors)]
    if np.count_nonzero(values == 0.0) >= 2:  # a saddle: nothing moves
        return lambda times: {v: np.full(len(times), start[v]) for v in term.distinct}, ""
    if term.variance <= 0:
        return None, "its input variance is zero"
    if len(term.factors) == 1:
        return _one_layer(term, float(start[term.factors[0]])), ""
    if term.strength <= 0:
        return None, "its input-output correlation is not positive"
    if len(term.factors) == 2:
        return _two_layers(term, start), ""
    if (values <= 0).any():
        return None, "a layer does not start above zero"
    if len(term.distinct) == 1:
        return _equal_layers(term, float(values[0])), ""
    ratio = term.count(term.distinct[1]) / term.count(term.distinct[0])
    if len(term.factors) == 3 and len(term.distinct) == 2 and ratio >= 1:
        return _routing(term, start, ratio), ""
    return None, f"no formula for {len(term.factors)} layers of which {len(term.distinct)} differ"


def _one_layer(term: Separated, start: float) -> Solution:
    final, rate = term.strength / term.variance, term.counts[0] * term.variance
    return lambda times: {term.factors[0]: start + (start - final) * np.expm1(-rate * times)}


def _two_layers(term: Separated, start: np.ndarray) -> Solution:
    """b_i = sqrt(n_i) w_i turns the counts n_i into a common factor g = sqrt(n_1 n_2) of S and g^2 of D."""
    first, second = term.factors
    roots = np.sqrt(term.counts)
    scale = float(roots[0] * roots[1])

    def solve(times: np.ndarray) -> dict[int, np.ndarray]:
        layers = unbalanced_layers(
            times,
            scale * term.strength,
            scale**2 * term.variance,
            float(start[first] / roots[0]),
            float(start[second] / roots[1]),
        )
        return {v: root * np.asarray(w) for v, root, w in zip((first, second), roots, layers, strict=True)}

    return solve


def _equal_layers(term: Separated, start: float) -> Solution:
    depth, count = len(term.factors), term.counts[0]

    def solve(times: np.ndarray) -> dict[int, np.ndarray]:
        strength = deep_mode(times, count * term.strength, count * term.variance, start**depth, depth)
        return {term.factors[0]: np.asarray(strength) ** (1.0 / depth)}

    return solve


def _routing(term: Separated, start: np.ndarray, ratio: float) -> Solution:
    """P1 eqs 13-14 with M = ratio: the counts of the repeated factor go into S and D."""
    outer, hidden = term.distinct
    scale = term.count(outer) * ratio

    def solve(times: np.ndarray) -> dict[int, np.ndarray]:
        layers = routing_layers(
            times,
            scale * term.strength,
            scale * term.variance,
            float(start[outer]),
            float(start[hidden]),
            ratio,
        )
        return {outer: np.asarray(layers.outer), hidden: np.asarray(layers.hidden)}

    return solve
