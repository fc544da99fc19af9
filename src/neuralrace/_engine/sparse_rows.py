"""A sparse constant matrix times the rows of an array, each as a sum of a few given rows.

The matrices are pytrees: their numbers are leaves, so that a program compiled for one serves all of the same shapes.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from neuralrace.axes import Array


class SparseRows(eqx.Module):
    """A matrix for x of shape (columns, size); its derivative is a gather too: that of a gather is a slow scatter.

    index, value: what each row adds up, (rows, longest). back_index, back_value: the same of the transposed matrix.
    """

    index: Array
    value: Array
    back_index: Array
    back_value: Array

    def __matmul__(self, rows: jax.Array) -> jax.Array:
        """The product."""
        return _product(rows, self)


@eqx.filter_custom_vjp
def _product(rows: jax.Array, matrix: SparseRows) -> jax.Array:
    return jnp.sum(jnp.asarray(matrix.value)[..., None] * rows[matrix.index], axis=1)


@_product.def_fwd  # type: ignore[untyped-decorator]
def _forward(perturbed: object, rows: jax.Array, matrix: SparseRows) -> tuple[jax.Array, None]:
    return _product(rows, matrix), None


@_product.def_bwd  # type: ignore[untyped-decorator]
def _backward(residual: None, slope: jax.Array, perturbed: object, rows: jax.Array, matrix: SparseRows) -> jax.Array:
    return jnp.sum(jnp.asarray(matrix.back_value)[..., None] * slope[matrix.back_index], axis=1)


def sparse_rows(matrix: sparse.csr_matrix) -> SparseRows:
    """Store a matrix and its transpose, the rows of each padded to the longest."""
    return SparseRows(*_padded(matrix), *_padded(sparse.csr_matrix(matrix.T)))


def _padded(matrix: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.diff(matrix.indptr)
    shape = len(lengths), int(lengths.max(initial=0))
    index, value = np.zeros(shape, dtype=np.int32), np.zeros(shape)
    row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], lengths)
    index[row, place], value[row, place] = matrix.indices, matrix.data
    return index, value
