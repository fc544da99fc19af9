"""The neural race reduction: one scalar per edge and mode (P1 eq. 10), lumped where symmetry allows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.axes import Edge
from neuralrace.theory.integration.integrate import integrate
from neuralrace.theory.reduction.equations import Equations, Variable, write_equations
from neuralrace.theory.reduction.lumping import Partition, refine_partition, trivial_partition
from neuralrace.theory.reduction.path_table import PathTable
from neuralrace.theory.reduction.polynomial import Polynomial, Terms, lumped_terms, make_polynomial

Label = tuple[Edge, int]  # an edge and the number of a mode


@dataclass(frozen=True, eq=False)
class Reduction:
    """The reduced system of a problem and a set of initial strengths.

    start: (draws, edges, modes). asymmetry: the relative spread of the initial strengths within a class; zero unless
    symmetric classes were asked for and their members averaged.
    """

    table: PathTable
    partition: Partition
    start: np.ndarray
    asymmetry: float
    atol: float = 0.0  # absolute error of a strength that is always allowed

    @cached_property
    def terms(self) -> Terms:
        """The lumped system in plain arrays."""
        return lumped_terms(self.table, self.partition)

    @cached_property
    def polynomial(self) -> Polynomial:
        """The lumped system in JAX."""
        return make_polynomial(self.terms, self.atol)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The scalars of the system, each with the edges and modes that it stands for."""
        members: list[list[Label]] = [[] for _ in range(self.partition.variable_count)]
        for i, j in zip(*np.nonzero(self.partition.variables >= 0), strict=True):
            members[self.partition.variables[i, j]].append(self.label(int(i), int(j)))
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

    def label(self, row: int, column: int) -> Label:
        """The edge and the mode of an entry of the table."""
        edge: Any = self.table.edges[row]
        return edge if self.table.own_modes else (edge, column)

    def initial_state(self) -> np.ndarray:
        """(draws, variables); the mean over each class."""
        labels = self.partition.variables
        there = labels >= 0
        counts = np.bincount(labels[there], minlength=self.partition.variable_count)
        totals = [np.bincount(labels[there], weights=values[there], minlength=len(counts)) for values in self.start]
        return np.array(totals) / counts

    def solve(self, times: np.ndarray, *, rtol: float, max_steps: int) -> np.ndarray:
        """The variables under the flow at increasing times; (times, draws, variables)."""
        state = jnp.asarray(self.initial_state())
        if not state.size:
            return np.zeros((len(times), len(self.start), 0))
        curve = integrate(self.polynomial, state, float(times[-1]), rtol=rtol, max_steps=max_steps)
        return np.asarray(curve.at(times))

    def descend(self, learning_rate: float, steps: np.ndarray) -> np.ndarray:
        """The variables under gradient descent at increasing step numbers; (times, draws, variables)."""
        counts = jnp.asarray(np.diff(steps, prepend=0))
        return np.asarray(_descend(self.polynomial, jnp.asarray(self.initial_state()), learning_rate, counts))

    def velocity(self) -> np.ndarray:
        """The velocity of the initial state; (draws, variables)."""
        return np.asarray(_velocity(self.polynomial, jnp.asarray(self.initial_state())))

    def loss(self, states: np.ndarray) -> np.ndarray:
        """The loss of states (times, draws, variables); (times, draws)."""
        return np.asarray(_losses(self.polynomial, jnp.asarray(states)))

    def spread_out(self, states: np.ndarray) -> dict[Edge, np.ndarray]:
        """States (..., variables) as strengths of every edge, (..., modes); a mode without dynamics keeps its own."""
        found: dict[Edge, np.ndarray] = {}
        lead = states.shape[:-1]
        still = np.broadcast_to(self.start, (*lead[:-1], *self.start.shape))
        labels = self.partition.variables
        for i, edge in enumerate(self.table.edges):
            values = np.array(still[..., i, :])
            there = labels[i] >= 0
            values[..., there] = states[..., labels[i][there]]
            found[edge] = values
        return _regrouped(found) if self.table.own_modes else found


def make_reduction(
    table: PathTable,
    strengths: Sequence[Mapping[Any, np.ndarray]],
    *,
    lump: bool = True,
    symmetric: bool = False,
    atol: float = 0.0,
) -> Reduction:
    """Set up the reduced system.

    strengths: for each draw, edge -> (modes,). lump: keep one scalar per class. symmetric: let classes be those of
    the statistics alone and start each at the mean of its members.
    """
    start = np.array([[draw[edge] for edge in table.edges] for draw in strengths])
    start = start.reshape(len(strengths), len(table.edges), table.modes)
    if not lump:
        return Reduction(table, trivial_partition(table), start, 0.0, atol)
    partition = refine_partition(table, None if symmetric else start)
    reduction = Reduction(table, partition, start, 0.0, atol)
    if not symmetric:
        return reduction
    there = partition.variables >= 0
    mean = reduction.initial_state()[:, partition.variables[there]]
    scale = max(float(np.abs(start).max(initial=0.0)), np.finfo(float).tiny)
    asymmetry = float(np.abs(start[:, there] - mean).max(initial=0.0)) / scale
    return Reduction(table, partition, start, asymmetry, atol)


def _regrouped(found: dict[Any, np.ndarray]) -> dict[Edge, np.ndarray]:
    """Put the modes of each edge side by side where every mode had a row of its own."""
    by_edge: dict[Edge, list[np.ndarray]] = {}
    for (edge, _), values in found.items():
        by_edge.setdefault(edge, []).append(values)
    return {edge: np.concatenate(columns, axis=-1) for edge, columns in by_edge.items()}


@eqx.filter_jit
def _descend(polynomial: Polynomial, start: jax.Array, learning_rate: Any, counts: jax.Array) -> jax.Array:
    def to_record(state: jax.Array, count: jax.Array) -> tuple[jax.Array, jax.Array]:
        step = jnp.asarray(learning_rate)
        state = jax.lax.fori_loop(0, count, lambda _, b: b + step * polynomial.velocity(b), state)
        return state, state

    return jax.lax.scan(to_record, start, counts)[1]


@eqx.filter_jit
def _velocity(polynomial: Polynomial, state: jax.Array) -> jax.Array:
    return polynomial.velocity(state)


@eqx.filter_jit
def _losses(polynomial: Polynomial, states: jax.Array) -> jax.Array:
    flat = states.reshape(-1, states.shape[-1])
    return polynomial.loss(flat).reshape(states.shape[:-1])
