"""Two layers from unaligned weights, white inputs: the matrix Riccati flow (Fukumizu 1998; Braun et al.
2022; Domine et al. 2024), for lambda of either sign, any shapes and any rank.

With Q = [W1^T; W2] and W2^T W2 - W1 W1^T = lambda I on the hidden directions in use,

    dQ/dt = F Q - Q Q^T Q / 2,   F = [[-lambda/2 I, Sigma^T], [Sigma, lambda/2 I]],
    Q Q^T = e^(Ft) Q0 (I + Q0^T int_0^t e^(2Fs) ds Q0)^(-1) Q0^T e^(Ft).

In the eigenbasis of F the rows of Q0 are weighted by e^(x t). They are eliminated largest weighted row
first, so that every growing exponential is divided by a larger one before it is formed.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from neuralrace.errors import AssumptionError, RangeError
from neuralrace.theory.exact._checks import STRENGTH_HINT, Real, RealMatrix, Times, entry_point, formula
from neuralrace.theory.exact._special import expm1_ratio

DEGENERATE = 1e-9  # relative difference below which two eigenvalues count as one
BALANCE_TOLERANCE = 1e-8


class TwoLayerFlow(NamedTuple):
    """The network at each time; the time axes come first."""

    function: jax.Array  # W2 W1, (..., outputs, inputs)
    input_gram: jax.Array  # W1^T W1, (..., inputs, inputs)
    output_gram: jax.Array  # W2 W2^T, (..., outputs, outputs)


@jax.jit
def _imbalance(first: jax.Array, second: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return lambda, and the residual of lambda-balance relative to the squared size of the weights."""
    stacked = jnp.concatenate([first.T, second])
    difference = second.T @ second - first @ first.T
    size = jnp.sum(stacked**2)
    value = jnp.sum((stacked @ difference) * stacked) / size
    residual = jnp.linalg.norm(stacked @ difference - value * stacked) / (jnp.sqrt(size) * size)
    return value, residual


def _check_shapes(first: jax.Array, second: jax.Array) -> None:
    if first.shape[0] != second.shape[1]:
        raise RangeError(
            "first_layer must be (hidden, inputs) and second_layer (outputs, hidden) with one hidden size; "
            f"the shapes were {first.shape} and {second.shape}"
        )


@entry_point
def imbalance(first_layer: RealMatrix, second_layer: RealMatrix) -> tuple[jax.Array, jax.Array]:
    """Return lambda of W2^T W2 - W1 W1^T = lambda I and how far the weights are from it.

    The equation need hold only on the hidden directions that the weights use; the residual is relative to
    their squared size, and exact solutions want it below 1e-8.
    """
    _check_shapes(first_layer, second_layer)
    return _imbalance(first_layer, second_layer)


@jax.custom_jvp
def _eigh(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    values, vectors = jnp.linalg.eigh(matrix)
    return values, vectors


def _apart(values: jax.Array) -> jax.Array:
    difference = values[None, :] - values[:, None]
    return jnp.abs(difference) > DEGENERATE * jnp.max(jnp.abs(values))


@_eigh.defjvp
def _eigh_jvp(primals: Any, tangents: Any) -> Any:
    """Turn eigenvectors only against other eigenvalues; `_mixing` carries the change within one."""
    values, vectors = _eigh(*primals)
    change = vectors.T @ tangents[0] @ vectors
    apart = _apart(values)
    difference = values[None, :] - values[:, None]
    turn = jnp.where(apart, change / jnp.where(apart, difference, 1.0), 0.0)
    return (values, vectors), (jnp.diagonal(change), vectors @ turn)


def _mixing(matrix: jax.Array, values: jax.Array, vectors: jax.Array) -> jax.Array:
    """Return a matrix that is zero, with the derivative of F between eigenvectors of one eigenvalue."""
    fixed = jax.lax.stop_gradient(vectors)
    change = fixed.T @ (matrix - jax.lax.stop_gradient(matrix)) @ fixed
    return jnp.where(_apart(values) | jnp.eye(len(values), dtype=bool), 0.0, change)


def _eliminate(rows: jax.Array, log_weight: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the rows in an orthonormal basis of the hidden space, largest weighted rest first.

    Column k of the answer is the component along the k-th direction; rows that served as pivots before have
    an exact zero there. Also the log of each pivot's weighted size, at least zero.
    """
    floor = 8 * float(np.finfo(rows.dtype).eps) * jnp.linalg.norm(jax.lax.stop_gradient(rows))

    def step(state: tuple[jax.Array, jax.Array], _: None) -> tuple[Any, Any]:
        rest, seen = state
        square = jnp.sum(rest**2, 1)
        there = square > floor**2  # the rest is rounding: drop its value, which would grow, not its derivative
        rest = jnp.where(there[:, None], rest, rest - jax.lax.stop_gradient(rest))
        size = jnp.sqrt(jnp.where(there, square, 1.0))
        weighted = jnp.where(there & ~seen, log_weight + jnp.log(size), -jnp.inf)
        pivot = jnp.argmax(weighted)
        usable = jnp.isfinite(weighted[pivot])
        direction = jnp.where(usable, rest[pivot] / size[pivot], 0.0)
        component = rest @ direction
        rest = rest - component[:, None] * direction
        rest = rest - (rest @ direction)[:, None] * direction
        is_pivot = usable & (jnp.arange(len(rows)) == pivot)
        rest = jnp.where(is_pivot[:, None], 0.0, rest)
        scale = jnp.where(usable, jnp.maximum(weighted[pivot], 0.0), 0.0)
        return (rest, seen | is_pivot), (component, scale)

    steps = min(rows.shape)
    start = (rows, jnp.zeros(len(rows), bool))
    _, (components, scales) = jax.lax.scan(step, start, None, length=steps)
    return components.T, jax.lax.stop_gradient(scales)


def _square_at(t: jax.Array, values: jax.Array, vectors: jax.Array, mixing: jax.Array, stacked: jax.Array) -> jax.Array:
    """Return Q Q^T at one time."""
    rows = vectors.T @ stacked
    rows = rows + t * (mixing @ rows)
    log_weight = jnp.maximum(values, 0.0) * t
    components, scales = _eliminate(rows, jax.lax.stop_gradient(log_weight))
    scaled = components * jnp.exp(jnp.minimum(log_weight[:, None] - scales, 700.0))
    grown = t * expm1_ratio(-2 * jnp.abs(values) * t)  # int e^(2 x s) ds, less its growth
    middle = jnp.diag(jnp.exp(-2 * scales)) + scaled.T @ (grown[:, None] * scaled)
    middle = middle + scaled.T @ (_late(t, values)[:, None] * (mixing @ scaled))
    factor = jnp.linalg.cholesky(middle)
    ends = jnp.exp(jnp.minimum(values, 0.0) * t)[:, None] * scaled
    root = vectors @ solve_triangular(factor, ends.T, lower=True).T
    return root @ root.T


def _late(t: jax.Array, values: jax.Array) -> jax.Array:
    """Return -2 int_0^t (t - s) e^(2 x s) ds less its growth: what `mixing` adds to the integral."""
    x = 2 * values * t
    near = jnp.abs(x) < 0.5
    small = jnp.where(near, x, 0.0)
    term, total = jnp.full_like(x, 0.5), jnp.zeros_like(x)
    for k in range(18):  # (e^x - 1 - x)/x^2
        total, term = total + term, term * small / (k + 3)
    far = jnp.where(near, 1.0, x)
    growth = jnp.exp(-jnp.maximum(far, 0.0))
    large = (jnp.exp(jnp.minimum(far, 0.0)) - (1 + far) * growth) / far**2
    return -2 * t**2 * jnp.where(near, total * jnp.exp(-jnp.maximum(small, 0.0)), large)


@jax.jit
def _flow(t: jax.Array, correlation: jax.Array, first: jax.Array, second: jax.Array) -> TwoLayerFlow:
    outputs, inputs = correlation.shape
    half = _imbalance(first, second)[0] / 2
    generator = jnp.block([[-half * jnp.eye(inputs), correlation.T], [correlation, half * jnp.eye(outputs)]])
    values, vectors = _eigh(generator)
    mixing = _mixing(generator, values, vectors)
    stacked = jnp.concatenate([first.T, second])
    flat = jax.vmap(_square_at, (0, None, None, None, None))(t.ravel(), values, vectors, mixing, stacked)
    square = flat.reshape(*t.shape, inputs + outputs, inputs + outputs)
    return TwoLayerFlow(square[..., inputs:, :inputs], square[..., :inputs, :inputs], square[..., inputs:, inputs:])


@entry_point
def lambda_balanced_flow(
    times: Times, correlation: RealMatrix, first_layer: RealMatrix, second_layer: RealMatrix
) -> TwoLayerFlow:
    """Return function and Gram matrices at any time, exact from lambda-balanced weights.

    correlation Sigma_yx (outputs, inputs) of white inputs, Sigma_x = I; first_layer W1(0) (hidden, inputs);
    second_layer W2(0) (outputs, hidden). The weights need not be aligned with anything, but must satisfy
    W2^T W2 - W1 W1^T = lambda I (see `imbalance`), which gradient flow then keeps.
    """
    first, second = first_layer, second_layer
    _check_shapes(first, second)
    if correlation.shape != (second.shape[0], first.shape[1]):
        raise RangeError(
            f"correlation must be (outputs, inputs) = {(second.shape[0], first.shape[1])} to fit the layers; "
            f"its shape was {correlation.shape}"
        )
    _check_balance(first, second)
    return _flow(times, correlation, first, second)


def _check_balance(first: jax.Array, second: jax.Array) -> None:
    if isinstance(first, jax.core.Tracer) or isinstance(second, jax.core.Tracer):
        return
    if not np.sum(np.square(first)) + np.sum(np.square(second)) > 0:
        raise RangeError(f"first_layer and second_layer must not both be 0; {STRENGTH_HINT}")
    value, residual = (float(x) for x in _imbalance(first, second))
    if not residual <= BALANCE_TOLERANCE:
        raise AssumptionError(
            "first_layer and second_layer must be lambda-balanced, W2^T W2 - W1 W1^T = lambda I; with the "
            f"best lambda, {value:.6g}, the relative residual was {residual:.3g} where "
            f"{BALANCE_TOLERANCE:g} is allowed. "
            "Start from balanced weights, or integrate the flow instead"
        )


@formula()
def tangent_kernel(input_gram: Real, output_gram: Real) -> jax.Array:
    """Return the tangent kernel on maps, I x W1^T W1 + W2 W2^T x I, for maps flattened row by row.

    It takes an error E (outputs, inputs) to the change E W1^T W1 + W2 W2^T E of the function. Leading axes
    (times) are kept.
    """
    n, m = input_gram.shape[-1], output_gram.shape[-1]
    kernel = jnp.einsum("ab,...cd->...acbd", jnp.eye(m), input_gram)
    kernel = kernel + jnp.einsum("...ab,cd->...acbd", output_gram, jnp.eye(n))
    return kernel.reshape(*kernel.shape[:-4], m * n, m * n)
