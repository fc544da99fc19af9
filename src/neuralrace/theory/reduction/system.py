"""The neural race reduction (P1 eq. 10): its lumped system, solved, and written out for a reader."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd, lcm

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse
from scipy.linalg import qr, solve_triangular

from neuralrace._engine.devices import bucket_size, compiled, shard
from neuralrace.architecture import Path, edge_name
from neuralrace.axes import Edge
from neuralrace.statistics import PathStatistics
from neuralrace.theory.alignment import Alignment
from neuralrace.theory.evolution import Evolution
from neuralrace.theory.integration.solution import Solution
from neuralrace.theory.integration.system import System
from neuralrace.theory.reduction.terms import Terms, lump, path_terms

StateCurves = Callable[[np.ndarray], np.ndarray]  # times -> (times, draws, variables)


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
    """A lumped system as text and as LaTeX.

    lines: one equation per variable. where: what each variable is. conserved: sums of squares that do not change.
    latex_lines, latex_conserved: the left and right sides of the same.
    """

    lines: tuple[str, ...]
    where: tuple[str, ...]
    conserved: tuple[str, ...]
    latex_lines: tuple[tuple[str, str], ...]
    latex_conserved: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The equations, what the variables are, and what is conserved."""
        where = (f"  {line}" for line in self.where)
        return "\n".join([*self.lines, *where, *(f"conserved: {line}" for line in self.conserved)])

    @property
    def latex(self) -> str:
        """The equations and what is conserved, as one aligned block."""
        rows = (f"{left} &= {right}" for left, right in (*self.latex_lines, *self.latex_conserved))
        body = " \\\\\n".join(rows)
        return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"

    def __str__(self) -> str:
        return self.text


class Polynomial(System):
    """Velocity and loss of the reduced system for a batch of draws, (draws, variables)."""

    factors: jax.Array
    strengths: jax.Array
    coupling: jax.Array | None  # dense where it is small
    entries: tuple[jax.Array, jax.Array, jax.Array]  # its rows, columns and values
    multiplicity: jax.Array
    members: jax.Array  # of each class of variables
    best: jax.Array  # strengths at which the loss is least
    least: jax.Array  # that loss

    def velocity(self, state: jax.Array) -> jax.Array:
        """db/dt: the members of a class share the gradient of the loss."""
        products, pull = jax.vjp(self._products, state)
        (slope,) = pull(self.multiplicity * (self.strengths - self._coupled(products)))
        return slope / self.members

    def loss(self, state: jax.Array) -> jax.Array:
        """(draws,)."""
        gap = self._products(state) - self.best
        # without a least-squares solution best is zero, and the linear part is added here
        pull = self._coupled(gap) if self.best.ndim else self._coupled(gap) - 2 * self.strengths
        return self.least + 0.5 * jnp.sum(self.multiplicity * gap * pull, axis=-1)

    def modes(self, state: jax.Array) -> list[jax.Array]:
        """Treat each variable as a mode."""
        return [jnp.abs(state)]

    def _products(self, state: jax.Array) -> jax.Array:
        return jnp.prod(jnp.concatenate([state, jnp.ones((len(state), 1))], axis=1)[:, self.factors], axis=-1)

    def _coupled(self, products: jax.Array) -> jax.Array:
        if self.coupling is not None:
            return products @ self.coupling.T
        rows, columns, values = self.entries
        return jnp.zeros_like(products).at[:, rows].add(values * products[:, columns])


@compiled
def _losses(polynomial: Polynomial, states: np.ndarray) -> jax.Array:
    return polynomial.loss(jnp.asarray(states))


@dataclass(frozen=True, eq=False)
class ReducedSystem:
    """The reduced system of a problem from initial strengths: `variables`, `equations()` and, as arrays, `terms`.

    starts: bases and initial strengths of every draw. own: every path is in its own modes, otherwise all share bases.
    """

    statistics: PathStatistics
    starts: tuple[Alignment, ...]
    own: bool = False

    @cached_property
    def unlumped(self) -> tuple[Terms, tuple[tuple[Edge, int], ...]]:
        """The system before lumping, and the edge and mode of each of its variables."""
        return self.statistics.once(path_terms, self.own)

    @cached_property
    def initial(self) -> np.ndarray:
        """The initial strengths before lumping, (draws, variables)."""
        names = self.unlumped[1]
        values = [[start.strengths[edge][mode] for edge, mode in names] for start in self.starts]
        return np.array(values, dtype=float).reshape(len(self.starts), len(names))

    @cached_property
    def _lumped(self) -> tuple[Terms, np.ndarray]:
        return lump(self.unlumped[0], self.initial)

    @property
    def terms(self) -> Terms:
        """The lumped system in plain arrays."""
        return self._lumped[0]

    @cached_property
    def _members(self) -> list[list[tuple[Edge, int]]]:
        """The edges and modes that share each variable."""
        members: list[list[tuple[Edge, int]]] = [[] for _ in range(self.terms.through.shape[0])]
        for name, label in zip(self.unlumped[1], self._lumped[1], strict=True):
            members[label].append(name)
        return members

    @cached_property
    def _labels(self) -> dict[Edge, np.ndarray]:
        """The variable of every mode of an edge, -1 for those without dynamics."""
        labels = {edge: np.full(len(strengths), -1) for edge, strengths in self.starts[0].strengths.items()}
        for label, members in enumerate(self._members):
            for edge, mode in members:
                labels[edge][mode] = label
        return labels

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The scalars of the system, each with the edges and modes that share it."""
        order = {edge: number for number, edge in enumerate(self.statistics.architecture.parameters)}
        numbers: dict[tuple[Edge, ...], int] = {}
        found = []
        for members in self._members:
            edges = tuple(sorted({edge for edge, _ in members}, key=order.__getitem__))
            number = numbers.setdefault(edges, len(numbers) + 1)
            found.append(Variable(f"B{number}", edges, tuple(sorted({mode for _, mode in members}))))
        return tuple(found)

    def equations(self) -> Equations:
        """The lumped system as text and as LaTeX, with its multiplicities and conserved quantities."""
        return write_equations(self.terms, self.variables)

    @cached_property
    def state(self) -> np.ndarray:
        """The initial values of the variables, (draws, variables)."""
        first = np.unique(self._lumped[1], return_index=True)[1]
        return self.initial[:, first]

    @cached_property
    def polynomial(self) -> Polynomial:
        """The lumped system in JAX."""
        terms = self.terms
        coupling, members = terms.coupling.tocoo(), np.array([float(len(members)) for members in self._members])
        energy, diagonal = terms.target_energy, terms.coupling.diagonal()
        # The best strengths, so that the loss near them is not a difference of large numbers.
        best, least = np.zeros(()), 0.5 * energy
        if (terms.coupling - sparse.diags(diagonal)).count_nonzero() == 0:
            best = np.divide(terms.strengths, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
        elif len(terms.strengths) <= 1500:  # by least squares where that is affordable
            best = np.linalg.lstsq(terms.coupling.toarray(), terms.strengths, rcond=1e-12)[0]
        if best.ndim:
            least -= 0.5 * float(np.sum(terms.multiplicity * best * terms.strengths))
            least = least if least > 1e-14 * energy else 0.0
        dense = terms.coupling.toarray() if len(terms.strengths) <= 256 else None
        entries = (coupling.row, coupling.col, coupling.data)
        arrays = (terms.factors, terms.strengths, dense, entries, terms.multiplicity, members, best)
        return Polynomial(*jax.device_put((*arrays, np.asarray(least))))

    def solve(self, rtol: float, max_steps: int, descent: float | None = None) -> StateCurves:
        """Solve for the variables at increasing times, under the flow or under descent with a step size."""
        if not self.state.size:
            return lambda times: np.zeros((len(times), *self.state.shape))
        solution = Solution(self.polynomial, shard(self.state), rtol, max_steps, 0, descent)
        return lambda times: np.asarray(solution.at(times))

    def loss(self, states: np.ndarray) -> np.ndarray:
        """The loss of states (times, draws, variables); (times, draws)."""
        rows = states.reshape(-1, states.shape[-1])
        found = _losses(self.polynomial, np.pad(rows, ((0, bucket_size(len(rows)) - len(rows)), (0, 0))))
        return np.asarray(found)[: len(rows)].reshape(states.shape[:-1])

    def evolution(self, states: StateCurves, draw: int = 0) -> Evolution:
        """The strengths of one draw, and its weights W_e = R_t B_e R_s^T in the bases of its start."""
        start = self.starts[draw]

        def strengths(times: np.ndarray) -> dict[Edge, np.ndarray]:
            """Strengths of every edge, (times, modes); those without dynamics are constant."""
            found = np.concatenate([states(times)[:, draw], np.zeros((len(times), 1))], axis=1)
            first = start.strengths
            return {edge: np.where(label < 0, first[edge], found[:, label]) for edge, label in self._labels.items()}

        def weights(times: np.ndarray) -> list[dict[Edge, np.ndarray]]:
            found = strengths(times)
            return [start.weights({edge: values[i] for edge, values in found.items()}) for i in range(len(times))]

        key = self.statistics.architecture.key

        def edges(wanted: Sequence[Edge], times: np.ndarray) -> list[np.ndarray]:
            found = strengths(times)
            return [found[key(edge)] for edge in wanted]

        def paths(wanted: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
            found = strengths(times)
            return [np.prod([found[key(edge)] for edge in path.edges], axis=0) for path in wanted]

        return Evolution(weights, edges, paths)


def write_equations(terms: Terms, variables: tuple[Variable, ...]) -> Equations:
    """Write one equation per variable, then what each variable is and what is conserved, as text and as LaTeX."""
    invariants = _invariants(terms) if len(variables) <= 200 else []  # a longer list is of no use

    def number(value: float, tex: bool) -> str:
        mantissa, _, exponent = f"{value:.6g}".partition("e")
        return rf"{mantissa} \times 10^{{{int(exponent)}}}" if tex and exponent else f"{value:.6g}"

    def power(variable: Variable, times: int, tex: bool) -> str:
        symbol = rf"{variable.name[0]}_{{{variable.name[1:]}}}^{{({variable.modes[0]})}}" if tex else variable.symbol
        if times == 1:
            return symbol
        return rf"\left({symbol}\right)^{{{times}}}" if tex else f"{symbol}^{times}"

    def product(value: float, factors: list[int], tex: bool, times: int = 1) -> str:
        """A number, unless it is one, times variables."""
        symbols = [power(variables[v], times * factors.count(v), tex) for v in dict.fromkeys(factors)]
        return " ".join([number(value, tex), *symbols] if value != 1 or not factors else symbols)

    def equation(variable: int, tex: bool) -> tuple[str, str]:
        opened, closed, drives = (r"\left[ ", r" \right]", []) if tex else ("[", "]", [])
        through = terms.through[[variable]].tocoo()
        for term, count in zip(through.col, through.data, strict=True):  # count * (other factors) * [S - couplings]
            others, coupled = terms.of(term), terms.coupling[[term]].tocoo()
            others.remove(variable)
            inside = number(terms.strengths[term], tex)
            for other, value in zip(coupled.col, coupled.data, strict=True):
                inside += f" {'-' if value >= 0 else '+'} {number(abs(value), tex)} {product(1, terms.of(other), tex)}"
            lead = product(count, others, tex) if others or count != 1 else ""
            drives.append(f"{lead} {opened}{inside}{closed}".strip())
        symbol = power(variables[variable], 1, tex)
        return rf"\frac{{d}}{{dt}} {symbol}" if tex else f"d {symbol}/dt", " + ".join(drives) or "0"

    def conserved(invariant: list[int], tex: bool) -> str:
        parts = [("- " if c < 0 else "+ ") + product(abs(c), [v], tex, 2) for v, c in enumerate(invariant) if c]
        return " ".join(parts).removeprefix("+ ")

    plain, latex = ([equation(v, tex) for v in range(len(variables))] for tex in (False, True))
    return Equations(
        lines=tuple(f"{left} = {right}" for left, right in plain),
        where=tuple(map(str, variables)),
        conserved=tuple(conserved(invariant, False) for invariant in invariants),
        latex_lines=tuple(latex),
        latex_conserved=tuple((r"\text{const.}", conserved(invariant, True)) for invariant in invariants),
    )


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
