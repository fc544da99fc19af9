"""The lumped system written out for a reader, with multiplicities and conserved quantities."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

from neuralrace.architecture import edge_name
from neuralrace.axes import Edge
from neuralrace.theory.reduction.terms import Terms

Symbol = tuple[str, str]  # in plain text and in LaTeX


@dataclass(frozen=True)
class Variable:
    """A scalar of the lumped system: the strength that these edges share in these modes."""

    name: str
    edges: tuple[Edge, ...]
    modes: tuple[int, ...]

    def symbol(self, power: int = 1) -> Symbol:
        """Its name with the first of its modes, raised to a power."""
        plain, latex = f"{self.name}[{self.modes[0]}]", f"B_{{{self.name[1:]}}}^{{({self.modes[0]})}}"
        return (plain, latex) if power == 1 else (f"{plain}^{power}", rf"\left({latex}\right)^{{{power}}}")

    def __str__(self) -> str:
        shown = ", ".join(edge_name(edge) for edge in self.edges[:4]) + (", ..." if len(self.edges) > 4 else "")
        modes = ", ".join(map(str, self.modes))
        return f"{self.symbol()[0]}: {len(self.edges)} edge(s) x {len(self.modes)} mode(s) ({shown}; modes {modes})"


@dataclass(frozen=True)
class Equations:
    """A lumped system in words and in LaTeX; conserved: sums of squares that do not change."""

    text: str
    latex: str
    conserved: tuple[str, ...]

    def __str__(self) -> str:
        return self.text


def write_equations(terms: Terms, variables: tuple[Variable, ...]) -> Equations:
    """Write one equation per variable, then what each variable is and what is conserved."""

    def product(factors: list[int]) -> list[Symbol]:
        return [variables[v].symbol(factors.count(v)) for v in dict.fromkeys(factors)]

    text, latex = [], []
    for number, variable in enumerate(variables):
        drives = []
        through = terms.through[[number]].tocoo()
        for term, count in zip(through.col, through.data, strict=True):  # count * (other factors) * [S - couplings]
            others = terms.of(term)
            others.remove(number)
            coupled = terms.coupling[[term]].tocoo()
            inside = [_number(terms.strengths[term])]
            for other, value in zip(coupled.col, coupled.data, strict=True):
                sign = "-" if value >= 0 else "+"
                inside += [(sign, sign), _number(abs(value)), *product(terms.of(other))]
            lead = [*([_number(count)] if count != 1 else []), *product(others)]
            (plain, tex), (bracket, bracket_tex) = _joined(lead), _joined(inside)
            drives.append((f"{plain} [{bracket}]".strip(), rf"{tex} \left[ {bracket_tex} \right]".strip()))
        (left, left_tex), right = variable.symbol(), [" + ".join(parts) or "0" for parts in zip(*drives, strict=True)]
        text.append(f"d {left}/dt = {right[0]}")
        latex.append(rf"\frac{{d}}{{dt}} {left_tex} &= {right[1]}")
    invariants = _invariants(terms, variables) if len(variables) <= 200 else []  # exact elimination takes long
    text += [f"  {variable}" for variable in variables] + [f"conserved: {plain}" for plain, _ in invariants]
    body = " \\\\\n".join(latex + [rf"\text{{const.}} &= {tex}" for _, tex in invariants])
    conserved = tuple(plain for plain, _ in invariants)
    return Equations("\n".join(text), f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}", conserved)


def _number(value: float) -> Symbol:
    mantissa, power, exponent = (plain := f"{value:.6g}").partition("e")
    return plain, rf"{mantissa} \times 10^{{{int(exponent)}}}" if power else mantissa


def _joined(symbols: Iterable[Symbol]) -> Symbol:
    plain, latex = [[symbol[kind] for symbol in symbols] for kind in (0, 1)]
    return " ".join(plain), " ".join(latex)


def _invariants(terms: Terms, variables: tuple[Variable, ...]) -> list[Symbol]:
    """Combinations of squares whose derivatives cancel: d(b_v^2)/dt = 2 sum_k count_vk a_k E_k.

    Their coefficients c solve c^T count = 0 in whole numbers, by exact elimination.
    """
    rows = [[Fraction(round(x)) for x in row] for row in terms.through.toarray().T]
    size, pivots = len(variables), list[int]()
    for column in range(size):
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
    for free in (column for column in range(size) if column not in pivots):
        vector = [Fraction(column == free) for column in range(size)]
        for row, pivot in enumerate(pivots):
            vector[pivot] = -rows[row][free]
        scale = lcm(*(x.denominator for x in vector))
        whole = [int(x * scale) for x in vector]
        shared = gcd(*whole) * (-1 if next(x for x in whole if x) < 0 else 1)
        symbols: list[Symbol] = []
        for variable, coefficient in zip(variables, (x // shared for x in whole), strict=True):
            if coefficient:
                symbols += [("-", "-")] if coefficient < 0 else [("+", "+")] * bool(symbols)
                symbols += [_number(abs(coefficient))] * (abs(coefficient) != 1) + [variable.symbol(2)]
        found.append(_joined(symbols))
    return found
