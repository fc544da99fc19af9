"""Elementary functions with a removable singularity, exact with their derivatives through it."""

import jax
import jax.numpy as jnp

SERIES_RADIUS = 0.1  # |x| below which the power series is used
SERIES_TERMS = 17  # 0.1^17 is below the rounding of a double


def _series(x: jax.Array, coefficients: list[float]) -> jax.Array:
    total = jnp.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def expm1_ratio(x: jax.Array) -> jax.Array:
    """Return (e^x - 1) / x, which is 1 at x = 0."""
    small = jnp.abs(x) < SERIES_RADIUS
    near = jnp.where(small, x, 0.0)
    far = jnp.where(small, 1.0, x)
    coefficients = [1.0]
    for k in range(2, SERIES_TERMS + 1):
        coefficients.append(coefficients[-1] / k)
    return jnp.where(small, _series(near, coefficients), jnp.expm1(far) / far)


def log1p_ratio(x: jax.Array) -> jax.Array:
    """Return log(1 + x) / x, which is 1 at x = 0."""
    small = jnp.abs(x) < SERIES_RADIUS
    near = jnp.where(small, x, 0.0)
    far = jnp.where(small, 1.0, x)
    coefficients = [(-1.0) ** k / (k + 1) for k in range(SERIES_TERMS)]
    return jnp.where(small, _series(near, coefficients), jnp.log1p(far) / far)


def power_ratio(exponent: jax.Array, log_base: jax.Array) -> jax.Array:
    """Return (base^exponent - 1) / exponent, which is log(base) at exponent zero."""
    return log_base * expm1_ratio(exponent * log_base)


def reciprocal_square_integral(start: jax.Array, step: jax.Array, constant: jax.Array, square: jax.Array) -> jax.Array:
    """Return the integral of 1 / (x^2 + constant) from start to start + step, for either sign.

    `square` is start^2 + constant, given apart so that a small one keeps its digits. The integral is
    an arc tangent for a positive constant, a logarithm for a negative one and -1/x for zero; near zero
    one power series in constant * ratio^2 covers all three with their derivatives.
    """
    ratio = step / (square + start * step)  # tan(angle) / sqrt(constant)
    x = constant * ratio**2
    near = jnp.abs(x) < SERIES_RADIUS
    coefficients = [(-1.0) ** k / (2 * k + 1) for k in range(SERIES_TERMS)]
    series = ratio * _series(jnp.where(near, x, 0.0), coefficients)
    root = jnp.sqrt(jnp.where(near, 1.0, jnp.abs(constant)))
    angle = jnp.arctan(root * ratio) / root
    argument = 2 * root * step * (start + root) / (square * (start + step + root))
    logarithm = jnp.log1p(jnp.where(near | (constant > 0), 0.0, argument)) / (2 * root)
    return jnp.where(near, series, jnp.where(constant > 0, angle, logarithm))
