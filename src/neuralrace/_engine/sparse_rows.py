"""A sparse constant matrix times the rows of an array, `matrix @ rows`, in the way that its sparsity makes cheapest.

The matrices are pytrees: their numbers are leaves, so that a program compiled for one serves all of the same shapes.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from neuralrace.axes import Array


class Gathered(eqx.Module):
    """Every row is one of the given rows, or a sum of a few, padded to the longest sum.

    Where sums are of very different lengths they are taken entry by entry, without padding.
    """

    index: Array  # (rows,), (rows, longest) or (entries,)
    value: Array | None  # of the same shape; None where all are one
    row: Array | None = None  # of each entry
    count: int = eqx.field(static=True, default=0)

    def __matmul__(self, rows: jax.Array) -> jax.Array:
        """Take and add up."""
        taken = rows[self.index]
        if taken.ndim == 3:
            return jnp.einsum("rk,rkd->rd", self.value, taken)
        if self.value is not None:
            taken = jnp.asarray(self.value)[:, None] * taken
        if self.row is None:
            return taken
        return jax.ops.segment_sum(taken, self.row, num_segments=self.count, indices_are_sorted=True)


class SparseRows(eqx.Module):
    """A matrix for x of shape (columns, size), whose derivative is a gather too, not a scatter."""

    forward: Gathered
    backward: Gathered  # the transposed matrix

    def __matmul__(self, rows: jax.Array) -> jax.Array:
        """The product."""
        return _product(rows, self)


@eqx.filter_custom_vjp
def _product(rows: jax.Array, maps: SparseRows) -> jax.Array:
    return maps.forward @ rows


@_product.def_fwd  # type: ignore[untyped-decorator]
def _forward(perturbed: object, rows: jax.Array, maps: SparseRows) -> tuple[jax.Array, None]:
    return maps.forward @ rows, None


@_product.def_bwd  # type: ignore[untyped-decorator]
def _backward(residual: None, slope: jax.Array, perturbed: object, rows: jax.Array, maps: SparseRows) -> jax.Array:
    return maps.backward @ slope


def sparse_rows(matrix: sparse.csr_matrix) -> SparseRows:
    """Find the cheapest way to multiply rows by a sparse matrix."""
    return SparseRows(_gathered(matrix), _gathered(sparse.csr_matrix(matrix.T)))


def _gathered(matrix: sparse.csr_matrix) -> Gathered:
    lengths = np.diff(matrix.indptr)
    longest = int(lengths.max(initial=0))
    if len(lengths) * longest > 4 * max(matrix.nnz, 1):  # padding would waste too much
        entries = matrix.tocoo()
        return Gathered(entries.col, entries.data, entries.row, matrix.shape[0])
    index = np.zeros((len(lengths), longest), dtype=np.int32)
    value = np.zeros((len(lengths), longest))
    row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], lengths)
    index[row, place], value[row, place] = matrix.indices, matrix.data
    if longest == 1:
        return Gathered(index[:, 0], None if (value == 1).all() else value[:, 0])
    return Gathered(index, value)
