"""The neural race reduction: one scalar per edge and mode (P1 eq. 10), lumped where symmetry allows; its solution."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from neuralrace._engine.devices import bucket_size, compiled, shard
from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.theory.alignment import Alignment
from neuralrace.theory.evolution import Evolution
from neuralrace.theory.integration.integrate import Solution
from neuralrace.theory.integration.system import System, velocity_of
from neuralrace.theory.reduction.equations import Equations, Variable, write_equations
from neuralrace.theory.reduction.path_table import (
    Lumping,
    PathTable,
    Terms,
    coarsest_lumping,
    lumped_terms,
    nothing_lumped,
)

StateCurves = Callable[[np.ndarray], np.ndarray]  # times -> (times, draws, variables)
DENSE_TERMS = 1500  # up to here the best strengths are found by least squares


class Polynomial(System):
    """Velocity and loss of the reduced system for a batch of draws, (draws, variables)."""

    factors: jax.Array
    strengths: jax.Array
    coupling: jax.Array | None  # dense where it is small
    rows: jax.Array
    columns: jax.Array
    values: jax.Array
    multiplicity: jax.Array
    variable: jax.Array
    term: jax.Array
    place: jax.Array  # where the variable stands among the factors of the term
    counts: jax.Array
    best: jax.Array  # strengths at which the loss is least
    least: jax.Array  # that loss

    def products(self, state: jax.Array) -> jax.Array:
        """a_k, the product of the factors of each term."""
        return jnp.prod(self._factors(state), axis=-1)

    def velocity(self, state: jax.Array) -> jax.Array:
        """db/dt."""
        factors = self._factors(state)
        error = self.strengths - self._coupled(jnp.prod(factors, axis=-1))
        longest = factors.shape[-1]
        others = jnp.stack(
            [jnp.prod(jnp.delete(factors, i, axis=-1, assume_unique_indices=True), axis=-1) for i in range(longest)],
            axis=-1,
        )
        drive = self.counts * others[:, self.term, self.place] * error[:, self.term]
        return jnp.zeros_like(state).at[:, self.variable].add(drive)

    def loss(self, state: jax.Array) -> jax.Array:
        """(draws,)."""
        gap = self.products(state) - self.best
        return self.least + 0.5 * jnp.sum(self.multiplicity * gap * self._quadratic(gap), axis=-1)

    def modes(self, state: jax.Array) -> list[jax.Array]:
        """Every variable is one."""
        return [jnp.abs(state)]

    def _factors(self, state: jax.Array) -> jax.Array:
        extended = jnp.concatenate([state, jnp.ones((len(state), 1))], axis=1)
        return extended[:, self.factors]

    def _coupled(self, products: jax.Array) -> jax.Array:
        if self.coupling is not None:
            return products @ self.coupling.T
        return jnp.zeros_like(products).at[:, self.rows].add(self.values * products[:, self.columns])

    def _quadratic(self, gap: jax.Array) -> jax.Array:
        # with no least-squares solution at hand best is zero and the linear part is added here
        return self._coupled(gap) if self.best.ndim else self._coupled(gap) - 2 * self.strengths


@compiled
def _losses(polynomial: Polynomial, states: np.ndarray) -> jax.Array:
    return polynomial.loss(jnp.asarray(states))


def _polynomial(terms: Terms) -> Polynomial:
    """Bring the system to JAX."""
    coupling = terms.coupling.tocoo()
    best, least = _least(terms)
    place = np.array([int(np.argmax(terms.factors[k] == v)) for v, k in terms.through], dtype=int)
    small = len(terms.strengths) <= 256
    arrays = {
        "factors": terms.factors,
        "strengths": terms.strengths,
        "coupling": terms.coupling.toarray() if small else None,
        "rows": coupling.row,
        "columns": coupling.col,
        "values": np.asarray(coupling.data, dtype=float),
        "multiplicity": terms.multiplicity,
        "variable": terms.through[:, 0],
        "term": terms.through[:, 1],
        "place": place,
        "counts": terms.counts,
        "best": best,
        "least": np.asarray(least),
    }
    return Polynomial(**jax.device_put(arrays))


def _least(terms: Terms) -> tuple[np.ndarray, float]:
    """The best strengths and their loss, so that the loss near them is not a difference of large numbers."""
    energy = terms.target_energy
    diagonal = terms.coupling.diagonal()
    if (terms.coupling - sparse.diags(diagonal)).count_nonzero() == 0:
        best = np.divide(terms.strengths, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    elif len(terms.strengths) <= DENSE_TERMS:
        best = np.linalg.lstsq(terms.coupling.toarray(), terms.strengths, rcond=1e-12)[0]
    else:
        return np.zeros(()), 0.5 * energy
    least = 0.5 * energy - 0.5 * float(np.sum(terms.multiplicity * best * terms.strengths))
    return best, least if least > 1e-14 * energy else 0.0


@dataclass(frozen=True, eq=False)
class ReducedSystem:
    """The reduced system of a problem and a set of initial strengths, start: (draws, edges, modes)."""

    table: PathTable
    lumping: Lumping
    start: np.ndarray

    @cached_property
    def terms(self) -> Terms:
        """The lumped system in plain arrays."""
        return lumped_terms(self.table, self.lumping)

    @cached_property
    def polynomial(self) -> Polynomial:
        """The lumped system in JAX."""
        return _polynomial(self.terms)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The scalars of the system, each with the edges and modes that it stands for."""
        members: list[list[tuple[Edge, int]]] = [[] for _ in range(self.lumping.variable_count)]
        for i, j in zip(*np.nonzero(self.lumping.variables >= 0), strict=True):
            members[self.lumping.variables[i, j]].append((self.table.edges[i], int(self.table.first_mode[i] + j)))
        names: dict[frozenset[Edge], int] = {}
        found = []
        for listed in members:
            edges = tuple(dict.fromkeys(edge for edge, _ in listed))
            modes = tuple(sorted({mode for _, mode in listed}))
            number = names.setdefault(frozenset(edges), len(names) + 1)
            found.append(Variable(f"B{number}", edges, modes))
        return tuple(found)

    def equations(self) -> Equations:
        """The lumped system as text and as LaTeX, with its multiplicities and conserved quantities."""
        return write_equations(self.terms, self.variables)

    def initial_state(self) -> np.ndarray:
        """(draws, variables); the mean over each class."""
        labels = self.lumping.variables
        there = labels >= 0
        counts = np.bincount(labels[there], minlength=self.lumping.variable_count)
        totals = [np.bincount(labels[there], weights=values[there], minlength=len(counts)) for values in self.start]
        return np.array(totals) / counts

    @property
    def asymmetry(self) -> float:
        """The relative spread of the initial strengths within a class; rounding, unless it is one of symmetry alone."""
        there = self.lumping.variables >= 0
        mean = self.initial_state()[:, self.lumping.variables[there]]
        scale = max(float(np.abs(self.start).max(initial=0.0)), np.finfo(float).tiny)
        return float(np.abs(self.start[:, there] - mean).max(initial=0.0)) / scale

    def solve(self, rtol: float, max_steps: int, descent: float | None = None) -> StateCurves:
        """The variables at any increasing times, under the flow or under descent in steps of a width."""
        start = self.initial_state()
        if not start.size:
            return lambda times: np.zeros((len(times), *start.shape))
        followed = Solution(self.polynomial, shard(start), rtol, max_steps, 0, descent)
        return lambda times: np.asarray(followed.at(times))

    def velocity(self) -> np.ndarray:
        """The velocity of the initial state; (draws, variables)."""
        return np.asarray(velocity_of(self.polynomial, self.initial_state()))

    def loss(self, states: np.ndarray) -> np.ndarray:
        """The loss of states (times, draws, variables); (times, draws)."""
        rows = states.reshape(-1, states.shape[-1])
        found = _losses(self.polynomial, np.pad(rows, ((0, bucket_size(len(rows)) - len(rows)), (0, 0))))
        return np.asarray(found)[: len(rows)].reshape(states.shape[:-1])

    def spread_out(self, states: np.ndarray, draw: int = 0) -> dict[Edge, np.ndarray]:
        """States (..., variables) of a draw as strengths of every edge, (..., modes).

        A mode without dynamics keeps what it started with.
        """
        rows: dict[Edge, list[np.ndarray]] = {}
        for edge, labels, start in zip(self.table.edges, self.lumping.variables, self.start[draw], strict=True):
            values = np.array(np.broadcast_to(start, (*states.shape[:-1], len(start))))
            moving = labels >= 0
            values[..., moving] = states[..., labels[moving]]
            rows.setdefault(edge, []).append(values)
        return {edge: np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0] for edge, parts in rows.items()}


def reduced_system(
    table: PathTable, strengths: Sequence[Mapping[Edge, np.ndarray]], *, lump: bool = True, symmetric: bool = False
) -> ReducedSystem:
    """Set up the reduced system.

    strengths: for each draw, edge -> (modes,). lump: keep one scalar per class. symmetric: let classes be those of
    the statistics alone and start each at the mean of its members.
    """
    rows, width = list(zip(table.edges, table.first_mode, strict=True)), table.modes
    start = np.array([[draw[edge][mode : mode + width] for edge, mode in rows] for draw in strengths])
    start = start.reshape(len(strengths), len(table.edges), width)
    lumping = coarsest_lumping(table, None if symmetric else start) if lump else nothing_lumped(table)
    return ReducedSystem(table, lumping, start)


def reduced_evolution(system: ReducedSystem, states: StateCurves, draw: int, start: Alignment) -> Evolution:
    """Strengths of one draw of the reduced system; its weights are W_e = R_t B_e R_s^T in the bases of the start."""

    def strengths(times: np.ndarray) -> dict[Edge, np.ndarray]:
        return system.spread_out(states(times)[:, draw], draw)

    def weights(times: np.ndarray) -> list[dict[Edge, np.ndarray]]:
        found = strengths(times)
        return [start.weights({edge: values[i] for edge, values in found.items()}) for i in range(len(times))]

    def edges(wanted: Sequence[Edge], times: np.ndarray) -> list[np.ndarray]:
        found = strengths(times)
        return [found[edge] for edge in wanted]

    def paths(wanted: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
        found = strengths(times)
        return [np.prod([found[edge] for edge in path.edges], axis=0) for path in wanted]

    return Evolution(weights, edges, paths)
