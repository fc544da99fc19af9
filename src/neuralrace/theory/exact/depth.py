"""One mode of a balanced linear path of depth L >= 1: t(a) through a hypergeometric function, and back.

    da/dt = L a^(2 - 2/L) (s - d a)

With the learned fraction u = d a / s and r = 2/L, the clock L s (s/d)^(1-r) t is the integral
of u^(r-2) / (1 - u), that is u^(r-1)/(r-1) times 2F1(1, r-1; r; u). Its three singular parts are split off,

    u^(r-2)/(1-u) = u^(r-2) + u^(r-1) + 1/(1-u) - (1-u^r)/(1-u),

and what is left, H(u), is a power series about 0 or about 1 (about infinity for u > 1.6).
"""

from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma

from neuralrace.theory.exact._checks import Numbers, Positive, Real, Strength, Times, formula
from neuralrace.theory.exact._inverse import invert_elapsed
from neuralrace.theory.exact._special import power_ratio

TERMS = 84  # the slowest series used has ratio 0.625, and 0.625^84 < 1e-17
FAR = 1.6  # fractions above this use powers of 1/u
EULER = float(np.euler_gamma)

Depth = Annotated[Any, Numbers(least=1.0, hint="a path has at least one layer")]


def _horner(like: jax.Array, step: Callable[[jax.Array, jax.Array], jax.Array]) -> jax.Array:
    """Sum a power series from its last term inwards: step(total, k) for k = TERMS, ..., 1."""

    def body(i: jax.Array, total: jax.Array) -> jax.Array:
        return step(total, (TERMS - i).astype(like.dtype))

    return jax.lax.fori_loop(0, TERMS, body, jnp.zeros_like(like))


def _regular_part(u: jax.Array, gap: jax.Array, r: jax.Array) -> jax.Array:
    """Return H(u), the integral from 0 to u of (1 - x^r)/(1 - x), for 0 < u <= 1.6; gap is 1 - u."""
    low, high = jnp.minimum(u, 0.5), jnp.clip(gap, 1 - FAR, 0.5)
    powers = _horner(low, lambda total, k: 1 / (k + r) + low * total)
    about_zero = -jnp.log1p(-low) - low ** (1 + r) * powers
    binomial = _horner(high, lambda total, k: 1 / k + (k - r) / (k + 1) * high * total)
    about_one = digamma(r + 1) + EULER - r * high * binomial
    return jnp.where(u < 0.5, about_zero, about_one)


def _far_part(u: jax.Array, u0: jax.Array, r: jax.Array) -> jax.Array:
    """Return the clock from u0 down to u, both at least 1.6: the sum of (u^-n - u0^-n)/n, n = 2-r+k."""
    p = 2 - r

    both = jnp.stack([u, u0])  # one loop for the two of them
    tails = both ** (-p - 1) * _horner(both, lambda total, k: 1 / (p + k) + total / both)
    return tails[0] - tails[1] - u0 ** (-p) * power_ratio(-p, jnp.log(u / u0))


@jax.jit
def clock(w: jax.Array, u0: jax.Array, r: jax.Array) -> jax.Array:
    """Return the scaled time after which the gap 1 - u has shrunk by the factor e^(-w)."""
    w, u0, r = jnp.broadcast_arrays(w, u0, r)
    above = jnp.log(jnp.maximum(u0 - 1, FAR - 1) / (FAR - 1))  # part of w spent above 1.6
    near_w = jnp.maximum(w - above, 0.0)
    near_u0 = jnp.minimum(u0, FAR)
    travelled = -(1 - near_u0) * jnp.expm1(-near_w)
    log_growth = jnp.log1p(travelled / near_u0)
    powers = near_u0 ** (r - 1) * power_ratio(r - 1, log_growth) + near_u0**r * power_ratio(r, log_growth)
    gap0 = 1 - near_u0
    ends = jnp.stack([near_u0 + travelled, near_u0]), jnp.stack([gap0 * jnp.exp(-near_w), gap0])
    now, before = _regular_part(*ends, r)
    far_u0 = jnp.maximum(u0, FAR)
    far_w = jnp.minimum(w, above)
    far = _far_part(far_u0 + (far_u0 - 1) * jnp.expm1(-far_w), far_u0, r)
    return powers + near_w - (now - before) + jnp.where(u0 > FAR, far, 0.0)


def _log_gap(scaled_time: jax.Array, r: jax.Array, s: jax.Array, d: jax.Array, a0: jax.Array) -> jax.Array:
    return invert_elapsed(clock, *jnp.broadcast_arrays(scaled_time, d * a0 / s, r))


def _mode(scaled_time: jax.Array, r: jax.Array, s: jax.Array, d: jax.Array, a0: jax.Array) -> jax.Array:
    w = _log_gap(scaled_time, r, s, d, a0)
    return a0 - (s / d - a0) * jnp.expm1(-w)


def _time(a: jax.Array, r: jax.Array, s: jax.Array, d: jax.Array, a0: jax.Array) -> jax.Array:
    """Return the scaled time to a strength: 0 if it is behind, inf if it is at or beyond s/d."""
    travelled, drive, first_drive = a - a0, s - d * a, s - d * a0
    forward = travelled * first_drive > 0
    reached = forward & (drive * first_drive > 0)
    w = jnp.log1p(d * jnp.where(reached, travelled / jnp.where(reached, drive, 1.0), 0.0))
    return jnp.where(reached, clock(w, d * a0 / s, r), jnp.where(forward, jnp.inf, 0.0))


def _speed(depth: jax.Array, s: jax.Array, d: jax.Array) -> jax.Array:
    return depth * s * (s / d) ** (1 - 2 / depth)


@formula()
def deep_mode(
    times: Times, singular_value: Positive, input_variance: Positive, initial_strength: Strength, depth: Depth
) -> jax.Array:
    """Return the strength a(t) of a mode of a balanced path of any depth L >= 1, whole or not.

    singular_value s > 0, input_variance d > 0, initial_strength a0 > 0 is the product of the L equal
    layers; all broadcast. L = 1 is the exponential, L = 2 the logistic curve. The inverse of `deep_time`.
    """
    s, d = singular_value, input_variance
    return _mode(_speed(depth, s, d) * times, 2 / depth, s, d, initial_strength)


@formula()
def deep_time(
    strength: Real, singular_value: Positive, input_variance: Positive, initial_strength: Strength, depth: Depth
) -> jax.Array:
    """Return the time at which a mode of depth L reaches a strength.

    Zero where the mode is past it from the start, inf where it never gets there (s/d and beyond).
    """
    s, d = singular_value, input_variance
    return _time(strength, 2 / depth, s, d, initial_strength) / _speed(depth, s, d)


@formula()
def deep_loss(
    times: Times, singular_value: Positive, input_variance: Positive, initial_strength: Strength, depth: Depth
) -> jax.Array:
    """Return the loss still to be lost in a mode of depth L, half d times (s/d - a)^2."""
    s, d, a0 = singular_value, input_variance, initial_strength
    w = _log_gap(_speed(depth, s, d) * times, 2 / depth, s, d, a0)
    return 0.5 * d * ((s / d - a0) * jnp.exp(-w)) ** 2


@formula()
def infinitely_deep_mode(
    scaled_times: Times, singular_value: Positive, input_variance: Positive, initial_strength: Strength
) -> jax.Array:
    """Return the limit of many layers, da/dT = a^2 (s - d a), at scaled times T = L t."""
    s, d = singular_value, input_variance
    return _mode(s**2 / d * scaled_times, jnp.zeros(()), s, d, initial_strength)


@formula()
def infinitely_deep_time(
    strength: Real, singular_value: Positive, input_variance: Positive, initial_strength: Strength
) -> jax.Array:
    """Return the scaled time T = L t to a strength in the limit of many layers; 0 and inf as `deep_time`."""
    s, d = singular_value, input_variance
    return _time(strength, jnp.zeros(()), s, d, initial_strength) * d / s**2
