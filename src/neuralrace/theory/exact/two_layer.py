"""One mode of a balanced two-layer linear path: the logistic curve of Saxe et al. (P2 eq. 7, P1 eq. 21).

    da/dt = 2 a (s - d a),  a(0) = a0 > 0

The formulas add positive terms only, so a plateau of 1e-12 and a remainder of 1e-300 keep their digits.
"""

import jax
import jax.numpy as jnp

from neuralrace.theory.exact._checks import NotNegative, Positive, Real, Strength, Times, formula
from neuralrace.theory.exact._special import expm1_ratio, log1p_ratio


def _decay_and_growth(t: jax.Array, s: jax.Array, d: jax.Array, a0: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return e^(-2st) and the denominator e^(-2st) + (a0 d / s)(1 - e^(-2st)) that a0 is divided by."""
    decay = jnp.exp(-2 * s * t)
    return decay, decay + 2 * a0 * d * t * expm1_ratio(-2 * s * t)


def _gap(t: jax.Array, s: jax.Array, d: jax.Array, a0: jax.Array) -> jax.Array:
    """Return s/d - a(t) with full relative accuracy."""
    decay, denominator = _decay_and_growth(t, s, d, a0)
    return (s / d - a0) * decay / denominator


@formula()
def two_layer_mode(
    times: Times, singular_value: NotNegative, input_variance: Positive, initial_strength: Strength
) -> jax.Array:
    """Return the strength a(t) of a mode, the singular value of W2 W1 in its direction.

    times t, singular_value s >= 0 (S or lambda_alpha), input_variance d > 0 (D or delta_alpha),
    initial_strength a0 > 0 (pi_0 of P2 eq. 7); all broadcast. The limit of late times is s/d.
    """
    return initial_strength / _decay_and_growth(times, singular_value, input_variance, initial_strength)[1]


@formula()
def two_layer_gap(
    times: Times, singular_value: NotNegative, input_variance: Positive, initial_strength: Strength
) -> jax.Array:
    """Return what is still to be learned, s/d - a(t), accurate long after it has become tiny."""
    return _gap(times, singular_value, input_variance, initial_strength)


@formula()
def two_layer_time(
    strength: Real, singular_value: NotNegative, input_variance: Positive, initial_strength: Strength
) -> jax.Array:
    """Return the time at which a mode reaches a strength, the inverse of `two_layer_mode`.

    Zero where the mode is past that strength from the start; inf where it never gets there (at s/d,
    which takes for ever, and beyond it).
    """
    a, s, d, a0 = strength, singular_value, input_variance, initial_strength
    return _time_from_gaps(a - a0, s - d * a, s - d * a0, s, a0)


def _time_from_gaps(
    travelled: jax.Array, drive: jax.Array, first_drive: jax.Array, s: jax.Array, a0: jax.Array
) -> jax.Array:
    """Return log(1 + s (a - a0) / (a0 (s - d a))) / 2s, with its limits."""
    forward = travelled * first_drive > 0  # on the way from a0 to s/d, or beyond
    reached = forward & (drive * first_drive > 0)
    x = jnp.where(reached, travelled, 0.0) / (a0 * jnp.where(reached, drive, 1.0))
    t = 0.5 * x * log1p_ratio(s * x)
    return jnp.where(reached, t, jnp.where(forward, jnp.inf, 0.0))


def _powers(s: jax.Array, d: jax.Array, target_power: jax.Array | None) -> jax.Array:
    return jnp.zeros(()) if target_power is None else 0.5 * (target_power - s**2 / d)


@formula()
def two_layer_loss(
    times: Times,
    singular_value: NotNegative,
    input_variance: Positive,
    initial_strength: Strength,
    target_power: NotNegative = None,
) -> jax.Array:
    """Return the loss of a mode, y^2/2 - s a + d a^2/2 (P2 eq. 20), as half d times the squared gap.

    target_power is the mean squared target y^2 along the mode, s^2/d if not given: then the mode can be
    learned completely and its loss tends to zero.
    """
    s, d = singular_value, input_variance
    loss = 0.5 * d * _gap(times, s, d, initial_strength) ** 2
    return loss if target_power is None else _powers(s, d, target_power) + loss


@formula()
def two_layer_time_to_loss(
    loss: Real,
    singular_value: NotNegative,
    input_variance: Positive,
    initial_strength: Strength,
    target_power: NotNegative = None,
) -> jax.Array:
    """Return the time at which the loss of a mode has fallen to a criterion.

    Zero where it starts at or below it; inf where the criterion is not above the loss that remains at
    the end, so that it is never reached.
    """
    s, d, a0 = singular_value, input_variance, initial_strength
    excess = loss - _powers(s, d, target_power)
    possible = excess > 0
    gap = jnp.sqrt(2 * jnp.where(possible, excess, 1.0) / d)
    first_gap = jnp.abs(s / d - a0)
    t = _time_from_gaps(first_gap - gap, d * gap, d * first_gap, s, a0)
    return jnp.where(possible, t, jnp.where(first_gap > 0, jnp.inf, 0.0))
