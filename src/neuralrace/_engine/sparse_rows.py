"""A constant linear map on the rows of an array, applied in the way that its sparsity makes cheapest."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

DENSE_ENTRIES = 1 << 14  # below this a dense product beats any gather
DENSE_FRACTION = 0.25
PADDING = 4  # a gather padded to the longest row may waste this factor

Apply = Callable[[jax.Array], jax.Array]


def row_map(matrix: sparse.spmatrix) -> Apply:
    """Return x -> matrix @ x for x of shape (columns, size), differentiable, with a gather in both directions."""
    matrix = sparse.csr_matrix(matrix)
    rows, columns = matrix.shape
    if rows == columns and (matrix != sparse.identity(rows, format="csr")).nnz == 0:
        return lambda x: x
    if rows * columns <= DENSE_ENTRIES or matrix.nnz >= DENSE_FRACTION * rows * columns:
        dense = matrix.toarray()
        return lambda x: jnp.asarray(dense) @ x
    forward, backward = _one_way(matrix), _one_way(sparse.csr_matrix(matrix.T))

    @jax.custom_vjp
    def apply(x: jax.Array) -> jax.Array:
        return forward(x)

    apply.defvjp(lambda x: (forward(x), None), lambda _, cotangent: (backward(cotangent),))
    return apply


def _one_way(matrix: sparse.csr_matrix) -> Apply:
    lengths = np.diff(matrix.indptr)
    longest = int(lengths.max(initial=0))
    if len(lengths) * longest > PADDING * max(matrix.nnz, 1):
        return _summed(matrix)
    index = np.zeros((len(lengths), longest), dtype=np.int32)
    value = np.zeros((len(lengths), longest))
    row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], lengths)
    index[row, place], value[row, place] = matrix.indices, matrix.data
    if longest == 1:
        if (value == 1).all():
            return lambda x: jnp.asarray(x)[index[:, 0]]
        return lambda x: jnp.asarray(value) * x[index[:, 0]]
    return lambda x: jnp.einsum("rk,rkd->rd", value, x[index])


def _summed(matrix: sparse.csr_matrix) -> Apply:
    """For rows of very different lengths: sum the entries row by row, without padding."""
    coordinates = matrix.tocoo()
    count = matrix.shape[0]
    return lambda x: jax.ops.segment_sum(
        coordinates.data[:, None] * x[coordinates.col],
        coordinates.row,
        num_segments=count,
        indices_are_sorted=True,
    )
