"""The lumped system written out for a reader, with multiplicities and conserved quantities."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from neuralrace.architecture import edge_name
from neuralrace.axes import Edge
from neuralrace.theory.reduction.terms import Terms

EXACT_VARIABLES = 200  # above this many, conserved quantities are not computed

# A symbol of a formula: a number, a sign or bracket, or a variable with its power.
Symbol = float | str | tuple["Variable", int]


@dataclass(frozen=True)
class Variable:
    """A scalar of the lumped system: the strength that these edges share in these modes."""

    name: str
    edges: tuple[Edge, ...]
    modes: tuple[int, ...]

    @property
    def symbol(self) -> str:
        """Its name in plain text, with the first of its modes."""
        return f"{self.name}[{self.modes[0]}]"

    @property
    def latex(self) -> str:
        """Its name in LaTeX."""
        return f"B_{{{self.name[1:]}}}^{{({self.modes[0]})}}"

    def __str__(self) -> str:
        shown = ", ".join(edge_name(edge) for edge in self.edges[:4]) + (", ..." if len(self.edges) > 4 else "")
        modes = ", ".join(map(str, self.modes))
        return f"{self.symbol}: {len(self.edges)} edge(s) x {len(self.modes)} mode(s) ({shown}; modes {modes})"


@dataclass(frozen=True)
class Equations:
    """The lumped system as symbols, which print as text and as LaTeX.

    derivatives: the right-hand side of each variable. invariants: sums of squares that do not change.
    """

    variables: tuple[Variable, ...]
    derivatives: tuple[tuple[Symbol, ...], ...]
    invariants: tuple[tuple[Symbol, ...], ...]

    @property
    def conserved(self) -> tuple[str, ...]:
        """The invariants as text."""
        return tuple(plain(symbols) for symbols in self.invariants)

    @property
    def text(self) -> str:
        """One equation per variable, then what each variable is and what is conserved."""
        pairs = zip(self.variables, self.derivatives, strict=True)
        lines = [f"d {variable.symbol}/dt = {plain(symbols) or '0'}" for variable, symbols in pairs]
        lines += [f"  {variable}" for variable in self.variables]
        return "\n".join(lines + [f"conserved: {quantity}" for quantity in self.conserved])

    @property
    def latex(self) -> str:
        """The equations and invariants, aligned."""
        pairs = zip(self.variables, self.derivatives, strict=True)
        lines = [f"\\frac{{d}}{{dt}} {variable.latex} &= {_latex(symbols) or '0'}" for variable, symbols in pairs]
        lines += [f"\\text{{const.}} &= {_latex(symbols)}" for symbols in self.invariants]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def __str__(self) -> str:
        return self.text


def write_equations(terms: Terms, variables: tuple[Variable, ...]) -> Equations:
    """Write count * (other factors) * [S - couplings] for every term through a variable."""

    def product(factors: list[int]) -> list[Symbol]:
        return [(variables[v], factors.count(v)) for v in dict.fromkeys(factors)]

    def drive(variable: int, term: int, count: float) -> list[Symbol]:
        others = terms.of(term)
        others.remove(variable)
        row = terms.coupling[[term]].tocoo()
        inside: list[Symbol] = [float(terms.strengths[term])]
        for other, value in zip(row.col, row.data, strict=True):
            inside += ["-" if value >= 0 else "+", abs(float(value)), *product(terms.of(other))]
        return [*([] if count == 1 else [float(count)]), *product(others), "[", *inside, "]"]

    derivatives = []
    for variable in range(len(variables)):
        row = terms.through[[variable]].tocoo()
        found: list[Symbol] = []
        for term, count in zip(row.col, row.data, strict=True):
            found += [*(["+"] if found else []), *drive(variable, int(term), count)]
        derivatives.append(tuple(found))
    invariants = [] if len(variables) > EXACT_VARIABLES else _invariants(terms.through.toarray(), variables)
    return Equations(variables, tuple(derivatives), tuple(invariants))


def _invariants(through: np.ndarray, variables: tuple[Variable, ...]) -> list[tuple[Symbol, ...]]:
    """Combinations of squares whose derivatives cancel: d(b_v^2)/dt = 2 sum_k count_vk a_k E_k.

    Their coefficients c solve c^T count = 0 in whole numbers, by exact elimination.
    """
    rows = [[Fraction(round(x)) for x in row] for row in through.T]
    pivots: list[int] = []
    for column in range(len(variables)):
        at = len(pivots)
        best = next((r for r in range(at, len(rows)) if rows[r][column] != 0), None)
        if best is None:
            continue
        rows[at], rows[best] = rows[best], rows[at]
        rows[at] = [x / rows[at][column] for x in rows[at]]
        for r in range(len(rows)):
            if r != at and rows[r][column] != 0:
                rows[r] = [x - rows[r][column] * y for x, y in zip(rows[r], rows[at], strict=True)]
        pivots.append(column)
    found = []
    for free in (column for column in range(len(variables)) if column not in pivots):
        vector = [Fraction(column == free) for column in range(len(variables))]
        for row, pivot in enumerate(pivots):
            vector[pivot] = -rows[row][free]
        whole = [int(x * lcm(*(x.denominator for x in vector))) for x in vector]
        shared = gcd(*whole) * (-1 if next(x for x in whole if x) < 0 else 1)
        symbols: list[Symbol] = []
        for variable, coefficient in zip(variables, (x // shared for x in whole), strict=True):
            if coefficient:
                sign = ["-"] if coefficient < 0 else ["+"] if symbols else []
                symbols += [*sign, *([float(abs(coefficient))] if abs(coefficient) != 1 else []), (variable, 2)]
        found.append(tuple(symbols))
    return found


def plain(symbols: Iterable[Symbol]) -> str:
    """Symbols as text."""
    return _joined(symbols, lambda value: value, lambda v, power: v.symbol if power == 1 else f"{v.symbol}^{power}")


def _latex(symbols: Iterable[Symbol]) -> str:
    def number(value: str) -> str:
        mantissa, power, exponent = value.partition("e")
        return f"{mantissa} \\times 10^{{{int(exponent)}}}" if power else mantissa

    def raised(variable: Variable, power: int) -> str:
        return variable.latex if power == 1 else f"\\left({variable.latex}\\right)^{{{power}}}"

    written = _joined(symbols, number, raised)
    return written.replace("[", "\\left[ ").replace("]", " \\right]")


def _joined(symbols: Iterable[Symbol], number: Callable[[str], str], raised: Callable[[Variable, int], str]) -> str:
    parts = []
    for symbol in symbols:
        if isinstance(symbol, str):
            parts.append(symbol)
        else:
            parts.append(number(f"{symbol:.6g}") if isinstance(symbol, float) else raised(*symbol))
    return " ".join(parts).replace("[ ", "[").replace(" ]", "]")
