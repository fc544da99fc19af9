"""The lumped system written out for a reader, with multiplicities and conserved quantities."""

import re
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import numpy as np
from scipy.linalg import qr, solve_triangular

from neuralrace.architecture import edge_name
from neuralrace.axes import Edge
from neuralrace.theory.reduction.terms import Terms

# from plain text to LaTeX
LATEX = (
    (r"^d (\S+)/dt =", r"\\frac{d}{dt} \1 &="),
    (r"^conserved:", r"\\text{const.} &="),
    (r"B(\d+)\[(\d+)\]\^(\d+)", r"\\left(B_{\1}^{(\2)}\\right)^{\3}"),
    (r"B(\d+)\[(\d+)\]", r"B_{\1}^{(\2)}"),
    (r"\[", r"\\left[ "),
    (r"\]", r" \\right]"),
    (r"(\d)e([+-])0*(\d+)", r"\1 \\times 10^{\2\3}"),
)


@dataclass(frozen=True)
class Variable:
    """A scalar of the lumped system: the strength that these edges share in these modes."""

    name: str
    edges: tuple[Edge, ...]
    modes: tuple[int, ...]

    def __str__(self) -> str:
        shown = ", ".join(edge_name(edge) for edge in self.edges[:4]) + (", ..." if len(self.edges) > 4 else "")
        modes = ", ".join(map(str, self.modes))
        return f"{self.symbol}: {len(self.edges)} edge(s) x {len(self.modes)} mode(s) ({shown}; modes {modes})"

    @property
    def symbol(self) -> str:
        """Its name with the first of its modes."""
        return f"{self.name}[{self.modes[0]}]"


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

    def product(number: float, factors: list[int], power: int = 1) -> str:
        """A number, unless it is one, times variables."""
        powers = {v: power * factors.count(v) for v in factors}
        symbols = [variables[v].symbol + (f"^{power}" if power > 1 else "") for v, power in powers.items()]
        return " ".join([f"{number:.6g}", *symbols] if number != 1 or not factors else symbols)

    lines = []
    for number, variable in enumerate(variables):
        drives = []
        through = terms.through[[number]].tocoo()
        for term, count in zip(through.col, through.data, strict=True):  # count * (other factors) * [S - couplings]
            others, coupled = terms.of(term), terms.coupling[[term]].tocoo()
            others.remove(number)
            inside = f"{terms.strengths[term]:.6g}"
            for other, value in zip(coupled.col, coupled.data, strict=True):
                inside += f" {'-' if value >= 0 else '+'} {abs(value):.6g} " + product(1, terms.of(other))
            lead = product(count, others) if others or count != 1 else ""
            drives.append(f"{lead} [{inside}]".strip())
        lines.append(f"d {variable.symbol}/dt = {' + '.join(drives) or 0}")
    conserved = []
    for invariant in _invariants(terms) if len(variables) <= 200 else []:  # a longer list is of no use
        parts = [("- " if c < 0 else "+ ") + product(abs(c), [v], 2) for v, c in enumerate(invariant) if c]
        conserved.append(" ".join(parts).removeprefix("+ "))
    shown = [f"conserved: {one}" for one in conserved]
    latex = [*lines, *shown]
    for plain, tex in LATEX:
        latex = [re.sub(plain, tex, line) for line in latex]
    body = " \\\\\n".join(latex)
    text = "\n".join([*lines, *(f"  {variable}" for variable in variables), *shown])
    return Equations(text, f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}", tuple(conserved))


def _invariants(terms: Terms) -> list[list[int]]:
    """Find whole coefficients of squares whose derivatives cancel: d(b_v^2)/dt = 2 sum_k count_vk a_k E_k."""
    counts = terms.through.toarray().T
    triangle, order = qr(counts, mode="r", pivoting=True)
    rank = int(np.sum(np.abs(np.diagonal(triangle)) > 1e-9 * np.abs(counts).max(initial=0.0)))
    bound, found = solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:]), []
    for free, column in zip(order[rank:], bound.T, strict=True):
        vector = [Fraction(int(v == free)) for v in range(counts.shape[1])]
        for v, x in zip(order[:rank], column, strict=True):
            vector[v] = -Fraction(x).limit_denominator(10_000)
        scale = lcm(*(x.denominator for x in vector))
        whole = [int(x * scale) for x in vector]
        divisor = gcd(*whole) * (-1 if next(x for x in whole if x) < 0 else 1)
        found.append([x // divisor for x in whole])
    return sorted(found, key=lambda vector: [x == 0 for x in vector])
