"""The neural race reduction: one scalar per edge and mode (P1 eq. 10), lumped where symmetry allows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import spread
from neuralrace.axes import Edge
from neuralrace.theory.integration.integrate import integrate
from neuralrace.theory.integration.system import descend, velocity_of
from neuralrace.theory.reduction.equations import Equations, Variable, write_equations
from neuralrace.theory.reduction.path_table import Partition, PathTable, refine_partition, trivial_partition
from neuralrace.theory.reduction.polynomial import Polynomial, Terms, lumped_terms, make_polynomial

States = Callable[[np.ndarray], np.ndarray]  # times -> (times, draws, variables)


@dataclass(frozen=True, eq=False)
class ReducedSystem:
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
        members: list[list[tuple[Edge, int]]] = [[] for _ in range(self.partition.variable_count)]
        for i, j in zip(*np.nonzero(self.partition.variables >= 0), strict=True):
            members[self.partition.variables[i, j]].append(self.table.label(int(i), int(j)))
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
        labels = self.partition.variables
        there = labels >= 0
        counts = np.bincount(labels[there], minlength=self.partition.variable_count)
        totals = [np.bincount(labels[there], weights=values[there], minlength=len(counts)) for values in self.start]
        return np.array(totals) / counts

    def solve(self, end: float, *, rtol: float, max_steps: int) -> States:
        """The variables under the flow at any increasing times up to the end, from one integration."""
        start = self.initial_state()
        if not start.size or end <= 0:
            return lambda times: np.broadcast_to(start, (len(times), *start.shape))
        curve = integrate(self.polynomial, spread(jnp.asarray(start)), end, rtol=rtol, max_steps=max_steps)
        return lambda times: np.asarray(curve.at(times)) if len(times) else np.zeros((0, *start.shape))

    def descend(self, learning_rate: float, steps: np.ndarray) -> np.ndarray:
        """The variables under gradient descent at increasing step numbers; (times, draws, variables)."""
        start = spread(jnp.asarray(self.initial_state()))
        return np.asarray(descend(self.polynomial, start, learning_rate, np.diff(steps, prepend=0))[1])

    def velocity(self) -> np.ndarray:
        """The velocity of the initial state; (draws, variables)."""
        return np.asarray(velocity_of(self.polynomial, jnp.asarray(self.initial_state())))

    def loss(self, states: np.ndarray) -> np.ndarray:
        """The loss of states (times, draws, variables); (times, draws)."""
        return np.asarray(_losses(self.polynomial, jnp.asarray(states)))

    def spread_out(self, states: np.ndarray, draw: int = 0) -> dict[Edge, np.ndarray]:
        """States (..., variables) of a draw as strengths of every edge, (..., modes).

        A mode without dynamics keeps what it started with.
        """
        rows: dict[Edge, list[np.ndarray]] = {}
        for edge, labels, start in zip(self.table.edges, self.partition.variables, self.start[draw], strict=True):
            values = np.array(np.broadcast_to(start, (*states.shape[:-1], len(start))))
            moving = labels >= 0
            values[..., moving] = states[..., labels[moving]]
            rows.setdefault(edge, []).append(values)
        return {edge: np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0] for edge, parts in rows.items()}


def reduced_system(
    table: PathTable,
    strengths: Sequence[Mapping[Edge, np.ndarray]],
    *,
    lump: bool = True,
    symmetric: bool = False,
    atol: float = 0.0,
) -> ReducedSystem:
    """Set up the reduced system.

    strengths: for each draw, edge -> (modes,). lump: keep one scalar per class. symmetric: let classes be those of
    the statistics alone and start each at the mean of its members.
    """
    rows = list(zip(table.edges, table.first_mode, strict=True))
    start = np.array([[draw[edge][mode : mode + table.modes] for edge, mode in rows] for draw in strengths])
    start = start.reshape(len(strengths), len(table.edges), table.modes)
    if not lump:
        return ReducedSystem(table, trivial_partition(table), start, 0.0, atol)
    partition = refine_partition(table, None if symmetric else start)
    system = ReducedSystem(table, partition, start, 0.0, atol)
    if not symmetric:
        return system
    there = partition.variables >= 0
    mean = system.initial_state()[:, partition.variables[there]]
    scale = max(float(np.abs(start).max(initial=0.0)), np.finfo(float).tiny)
    return replace(system, asymmetry=float(np.abs(start[:, there] - mean).max(initial=0.0)) / scale)


@eqx.filter_jit
def _losses(polynomial: Polynomial, states: jax.Array) -> jax.Array:
    flat = states.reshape(-1, states.shape[-1])
    return polynomial.loss(flat).reshape(states.shape[:-1])
