"""A sparse constant matrix times the rows of an array, `matrix @ rows`, in the way that its sparsity makes cheapest.

The matrices are pytrees: their numbers are leaves, so that a program compiled for one serves all of the same shapes.
"""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from neuralrace.axes import Array

PADDING = 4  # a gather padded to the longest row may waste this factor


class SparseRows(eqx.Module):
    """A matrix for x of shape (columns, size); the product is differentiable."""

    @abstractmethod
    def __matmul__(self, rows: jax.Array) -> jax.Array:
        """The product."""


class Picked(SparseRows):
    """Every row is one of the given rows, times a number unless all numbers are one."""

    index: Array
    value: Array | None

    def __matmul__(self, rows: jax.Array) -> jax.Array:
        """Take the rows."""
        taken = rows[self.index]
        return taken if self.value is None else jnp.asarray(self.value)[:, None] * taken


class Padded(SparseRows):
    """Every row is a sum of a few of the given rows, padded to the longest sum."""

    index: Array  # (rows, longest)
    value: Array

    def __matmul__(self, rows: jax.Array) -> jax.Array:
        """Take and add up."""
        return jnp.einsum("rk,rkd->rd", self.value, rows[self.index])


class Summed(SparseRows):
    """For sums of very different lengths: entry by entry, without padding."""

    row: Array
    column: Array
    value: Array
    count: int = eqx.field(static=True)

    def __matmul__(self, rows: jax.Array) -> jax.Array:
        """Add up row by row."""
        entries = jnp.asarray(self.value)[:, None] * rows[self.column]
        return jax.ops.segment_sum(entries, self.row, num_segments=self.count, indices_are_sorted=True)


class TwoWay(SparseRows):
    """A sparse matrix whose derivative is a gather too, not a scatter."""

    forward: SparseRows
    backward: SparseRows  # the transposed matrix

    def __matmul__(self, rows: jax.Array) -> jax.Array:
        """The product."""
        return _two_way(rows, self)


@eqx.filter_custom_vjp
def _two_way(rows: jax.Array, maps: TwoWay) -> jax.Array:
    return maps.forward @ rows


@_two_way.def_fwd  # type: ignore[untyped-decorator]
def _two_way_forward(perturbed: object, rows: jax.Array, maps: TwoWay) -> tuple[jax.Array, None]:
    return maps.forward @ rows, None


@_two_way.def_bwd  # type: ignore[untyped-decorator]
def _two_way_backward(
    residual: None, cotangent: jax.Array, perturbed: object, rows: jax.Array, maps: TwoWay
) -> jax.Array:
    return maps.backward @ cotangent


def sparse_rows(matrix: sparse.csr_matrix) -> SparseRows:
    """The cheapest way to multiply rows by a sparse matrix."""
    return TwoWay(_one_way(matrix), _one_way(sparse.csr_matrix(matrix.T)))


def _one_way(matrix: sparse.csr_matrix) -> SparseRows:
    lengths = np.diff(matrix.indptr)
    longest = int(lengths.max(initial=0))
    if len(lengths) * longest > PADDING * max(matrix.nnz, 1):
        entries = matrix.tocoo()
        return Summed(entries.row, entries.col, entries.data, matrix.shape[0])
    index = np.zeros((len(lengths), longest), dtype=np.int32)
    value = np.zeros((len(lengths), longest))
    row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], lengths)
    index[row, place], value[row, place] = matrix.indices, matrix.data
    if longest == 1:
        return Picked(index[:, 0], None if (value == 1).all() else value[:, 0])
    return Padded(index, value)
