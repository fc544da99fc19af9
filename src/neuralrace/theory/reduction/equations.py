"""The lumped system written out for a reader, with multiplicities and conserved quantities."""

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from neuralrace.architecture import edge_name
from neuralrace.axes import Edge
from neuralrace.theory.reduction.path_table import Terms

EXACT_VARIABLES = 200  # above this many, conserved quantities are not searched for


@dataclass(frozen=True)
class Variable:
    """A scalar of the lumped system: the strength that these edges share in these modes."""

    name: str
    edges: tuple[Edge, ...]
    modes: tuple[int, ...]

    @property
    def multiplicity(self) -> int:
        """How many strengths it stands for, where every edge carries every mode."""
        return len(self.edges) * len(self.modes)

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
    """A lumped system in words and in LaTeX; conserved: sums of squares that do not change."""

    text: str
    latex: str
    conserved: tuple[str, ...]

    def __str__(self) -> str:
        return self.text


def write_equations(terms: Terms, variables: tuple[Variable, ...]) -> Equations:
    """Write one equation per variable, then what each stands for and what is conserved."""
    text, latex = [], []
    for number, variable in enumerate(variables):
        parts = [(k, terms.counts[i]) for i, (v, k) in enumerate(terms.through) if v == number]
        plain = " + ".join(_drive(terms, variables, number, int(k), count, latex=False) for k, count in parts)
        tex = " + ".join(_drive(terms, variables, number, int(k), count, latex=True) for k, count in parts)
        text.append(f"d {variable.symbol}/dt = {plain or '0'}")
        latex.append(f"\\frac{{d}}{{dt}} {variable.latex} &= {tex or '0'}")
    conserved, conserved_latex = _conserved(terms, variables)
    text += [f"  {variable}" for variable in variables]
    text += [f"conserved: {quantity}" for quantity in conserved]
    latex += [f"\\text{{const.}} &= {quantity}" for quantity in conserved_latex]
    body = " \\\\\n".join(latex)
    return Equations("\n".join(text), f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}", conserved)


def _drive(terms: Terms, variables: tuple[Variable, ...], number: int, k: int, count: float, *, latex: bool) -> str:
    """count * (other factors) * [S - couplings]."""
    factors = [int(v) for v in terms.factors[k] if v < terms.variable_count]
    others = factors.copy()
    others.remove(number)
    row = terms.coupling.getrow(k).tocoo()
    inside = _number(terms.strengths[k], latex=latex)
    for column, value in zip(row.col, row.data, strict=True):
        product = _product([int(v) for v in terms.factors[column] if v < terms.variable_count], variables, latex=latex)
        inside += f" {'-' if value >= 0 else '+'} {_number(abs(value), latex=latex)} {product}"
    lead = " ".join(
        filter(None, ["" if count == 1 else _number(count, latex=latex), _product(others, variables, latex=latex)])
    )
    return f"{lead} \\left[ {inside} \\right]".strip() if latex else f"{lead} [{inside}]".strip()


def _product(factors: list[int], variables: tuple[Variable, ...], *, latex: bool) -> str:
    written = []
    for v in dict.fromkeys(factors):
        power = factors.count(v)
        name = variables[v].latex if latex else variables[v].symbol
        raised = f"\\left({name}\\right)^{{{power}}}" if latex else f"{name}^{power}"
        written.append(name if power == 1 else raised)
    return " ".join(written)


def _number(value: float, *, latex: bool) -> str:
    mantissa, power, exponent = f"{value:.6g}".partition("e")
    return f"{mantissa} \\times 10^{{{int(exponent)}}}" if latex and power else mantissa + power + exponent


def _conserved(terms: Terms, variables: tuple[Variable, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Combinations of squares whose derivatives cancel: d(b_v^2)/dt = 2 sum_k count_vk a_k E_k."""
    if len(variables) > EXACT_VARIABLES:
        return (), ()
    table = np.zeros((len(variables), len(terms.strengths)), dtype=int)
    table[terms.through[:, 0], terms.through[:, 1]] = np.rint(terms.counts).astype(int)
    plain, latex = [], []
    for coefficients in _left_null_space(table):
        used = [(c, variables[v]) for v, c in enumerate(coefficients) if c != 0]
        plain.append(_sum([(c, f"{variable.symbol}^2") for c, variable in used]))
        latex.append(_sum([(c, f"\\left({variable.latex}\\right)^2") for c, variable in used]))
    return tuple(plain), tuple(latex)


def _sum(parts: list[tuple[int, str]]) -> str:
    written = ""
    for coefficient, name in parts:
        sign = ("-" if coefficient < 0 else "") if not written else (" - " if coefficient < 0 else " + ")
        written += sign + ("" if abs(coefficient) == 1 else f"{abs(coefficient)} ") + name
    return written


def _left_null_space(table: np.ndarray) -> list[list[int]]:
    """Integer vectors c with c^T table = 0, by exact elimination."""
    rows = [[Fraction(int(x)) for x in row] for row in table.T]  # equations over the variables
    size = table.shape[0]
    pivots: list[int] = []
    for column in range(size):
        at = len(pivots)
        best = next((r for r in range(at, len(rows)) if rows[r][column] != 0), None)
        if best is None:
            continue
        rows[at], rows[best] = rows[best], rows[at]
        rows[at] = [x / rows[at][column] for x in rows[at]]
        for r in range(len(rows)):
            if r != at and rows[r][column] != 0:
                factor = rows[r][column]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[at], strict=True)]
        pivots.append(column)
    found = []
    for free in (column for column in range(size) if column not in pivots):
        vector = [Fraction(0)] * size
        vector[free] = Fraction(1)
        for row, pivot in enumerate(pivots):
            vector[pivot] = -rows[row][free]
        scale = lcm(*(x.denominator for x in vector))
        whole = [int(x * scale) for x in vector]
        shrink = gcd(*whole) * (-1 if next(x for x in whole if x) < 0 else 1)
        found.append([x // shrink for x in whole])
    return found
