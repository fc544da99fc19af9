"""The reduced dynamics as a polynomial system: one scalar per class of variables (P1 eq. 10)."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from neuralrace.theory.integration.system import NOISE
from neuralrace.theory.reduction.path_table import Partition, PathTable

DENSE_TERMS = 1500  # up to here the best strengths are found by least squares


@dataclass(frozen=True, eq=False)
class Terms:
    """The lumped system in plain arrays.

    db_v/dt = sum over (v, k) of count * (product of the other factors of k) * (S_k - sum_l coupling_kl a_l).
    """

    factors: np.ndarray  # (terms, longest): variables; the number of variables marks the end
    strengths: np.ndarray  # S_k
    coupling: sparse.csr_matrix  # total D from class l onto one member of class k
    multiplicity: np.ndarray  # members of each class of terms
    through: np.ndarray  # (uses, 2): variable, term
    counts: np.ndarray  # (uses,): how many terms of that class run through one member of the variable
    variable_count: int
    target_energy: float


def lumped_terms(table: PathTable, partition: Partition) -> Terms:
    """Write the system for one member of each class."""
    count, size = partition.term_count, partition.variable_count
    paths, modes = _representatives(partition.terms, count)
    along = partition.variables[table.route[paths], modes[:, None]]
    factors = np.where(table.route[paths] >= 0, along, size)
    edges, edge_modes = _representatives(partition.variables, size)
    through, counts = _uses(table, partition, edges, edge_modes)
    return Terms(
        factors=factors,
        strengths=table.strengths[paths, modes],
        coupling=_coupling(table, partition, paths, modes),
        multiplicity=np.bincount(partition.terms[partition.terms >= 0], minlength=count).astype(float),
        through=through,
        counts=counts,
        variable_count=size,
        target_energy=table.target_energy,
    )


def _representatives(labels: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first member (row, mode) of each class."""
    rows, modes = np.nonzero(labels.T >= 0)[::-1]
    numbers, first = np.unique(labels[rows, modes], return_index=True)
    assert len(numbers) == count
    return rows[first], modes[first]


def _coupling(table: PathTable, partition: Partition, paths: np.ndarray, modes: np.ndarray) -> sparse.csr_matrix:
    count = len(paths)
    by_path = sparse.csr_matrix(
        (np.arange(1, len(table.second) + 1), (table.second, np.arange(len(table.second)))),
        shape=(len(table.paths), len(table.second)),
    )
    chosen = by_path[paths].tocoo()  # the pairs of each representative
    pair, term = chosen.col, chosen.row
    other = partition.terms[table.first[pair], modes[term]]
    value = table.variances[pair, modes[term]]
    kept = (other >= 0) & (value != 0)
    return sparse.csr_matrix((value[kept], (term[kept], other[kept])), shape=(count, count))


def _uses(
    table: PathTable, partition: Partition, edges: np.ndarray, modes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    longest = table.route.shape[1]
    flat = table.route.ravel()
    there = flat >= 0
    on_edge = sparse.csr_matrix(
        (np.ones(there.sum()), (flat[there], np.repeat(np.arange(len(table.paths)), longest)[there])),
        shape=(len(table.edges), len(table.paths)),
    )[edges].tocoo()
    term = partition.terms[on_edge.col, modes[on_edge.row]]
    kept = term >= 0
    pairs, counts = np.unique(np.stack([on_edge.row[kept], term[kept]], axis=1), axis=0, return_counts=True)
    return pairs, counts.astype(float)


class Polynomial(eqx.Module):
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
    atol: jax.Array

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

    def record(self, state: jax.Array) -> jax.Array:
        """The state itself."""
        return state

    def rate(self, state: jax.Array, velocity: jax.Array) -> jax.Array:
        """Its velocity."""
        return velocity

    def error(self, error: jax.Array, before: jax.Array, after: jax.Array, rtol: jax.Array) -> jax.Array:
        """The largest error of a variable relative to what is allowed: rtol of that variable, and rounding."""
        size = jnp.maximum(jnp.abs(before), jnp.abs(after))
        allowed = self.atol + NOISE * jnp.max(jnp.abs(before), initial=0.0)
        return jnp.max(jnp.abs(error) / (rtol * size + allowed), initial=0.0)

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


def make_polynomial(terms: Terms, atol: float) -> Polynomial:
    """Bring the system to JAX; atol: absolute error that is always allowed."""
    coupling = terms.coupling.tocoo()
    best, least = _least(terms)
    place = np.array([int(np.argmax(terms.factors[k] == v)) for v, k in terms.through], dtype=int)
    small = len(terms.strengths) <= 256
    return Polynomial(
        factors=jnp.asarray(terms.factors),
        strengths=jnp.asarray(terms.strengths),
        coupling=jnp.asarray(terms.coupling.toarray()) if small else None,
        rows=jnp.asarray(coupling.row),
        columns=jnp.asarray(coupling.col),
        values=jnp.asarray(coupling.data, dtype=float),
        multiplicity=jnp.asarray(terms.multiplicity),
        variable=jnp.asarray(terms.through[:, 0]),
        term=jnp.asarray(terms.through[:, 1]),
        place=jnp.asarray(place),
        counts=jnp.asarray(terms.counts),
        best=jnp.asarray(best),
        least=jnp.asarray(least),
        atol=jnp.asarray(max(atol, 1e-290)),
    )


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
