"""One mode of a two-layer linear path whose layers differ: from rich to lazy with one dial.

    dw1/dt = w2 (s - d w1 w2),  dw2/dt = w1 (s - d w1 w2)

The difference of squares w2^2 - w1^2 is conserved (Fukumizu 1998; Saxe et al. 2014). The square of
w1 + w2 obeys a scalar Riccati equation with constant coefficients and so moves by a fractional linear
map; every other quantity follows from it. All terms are positive when w1 w2 >= 0 at the start.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import RangeError
from neuralrace.theory.exact._checks import STRENGTH_HINT, Positive, Real, Times, formula
from neuralrace.theory.exact._special import expm1_ratio


class _Mode(NamedTuple):
    """Constants of one mode; X = (w1 + w2)^2 and Z = (w2 - w1)^2 at the start, X Z = imbalance^2."""

    s: jax.Array
    d: jax.Array
    first: jax.Array
    second: jax.Array
    plus: jax.Array  # X(0)
    minus: jax.Array  # Z(0)
    imbalance: jax.Array  # w2^2 - w1^2
    rate: jax.Array  # k = sqrt(4 s^2 + d^2 imbalance^2), the rate at which the end is approached
    excess: jax.Array  # k - 2 s, without cancellation
    strength: jax.Array  # w1 w2
    norm: jax.Array  # w1^2 + w2^2


def _not_both_zero(first_layer: np.ndarray, second_layer: np.ndarray) -> None:
    if not np.all(first_layer**2 + second_layer**2 > 0):
        raise RangeError(f"first_layer and second_layer must not both be 0; {STRENGTH_HINT}")


def _mode(s: jax.Array, d: jax.Array, first: jax.Array, second: jax.Array) -> _Mode:
    imbalance = (second - first) * (second + first)
    rate = jnp.sqrt(4 * s**2 + (d * imbalance) ** 2)
    return _Mode(
        s, d, first, second, (first + second) ** 2, (second - first) ** 2, imbalance, rate,
        (d * imbalance) ** 2 / (rate + 2 * s), first * second, first**2 + second**2,
    )  # fmt: skip


_Map = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def _map(t: jax.Array, m: _Mode) -> _Map:
    """Return e^(-kt), (1 - e^(-kt))/k and the two factors whose ratio is X(t)/X(0) = Z(0)/Z(t)."""
    decay = jnp.exp(-m.rate * t)
    grown = t * expm1_ratio(-m.rate * t)
    up = 2 * decay + (m.rate + 2 * m.s + m.d * m.minus) * grown
    down = 2 * decay + (m.excess + m.d * m.plus) * grown
    return decay, grown, up, down


def _strength(m: _Mode, moved: _Map) -> jax.Array:
    decay, grown, up, down = moved
    k, s = m.rate, m.s
    linear = k * m.strength + s * m.norm
    square = k * m.norm + 4 * s * m.strength + m.d * m.imbalance**2
    total = 4 * decay**2 * m.strength + 4 * decay * grown * linear + 2 * s * grown**2 * square
    valley = m.plus == 0  # w1 = -w2: the terms with `grown` cancel and a factor of 2 decay with them
    return jnp.where(valley, 2 * decay * m.strength / up, total / (up * jnp.where(valley, 1.0, down)))


def _gap(t: jax.Array, m: _Mode) -> jax.Array:
    decay, _, up, down = _map(t, m)
    final_plus = (m.rate + 2 * m.s) / m.d  # X at the end
    turned = (final_plus + m.minus * down / up) / (final_plus + m.minus)
    valley = m.plus == 0
    shrunk = jnp.where(valley, 1.0, 2 * decay / jnp.where(valley, 1.0, down))
    return (m.s / m.d - m.strength) * shrunk * turned


@formula(_not_both_zero)
def unbalanced_mode(
    times: Times, singular_value: Positive, input_variance: Positive, first_layer: Real, second_layer: Real
) -> jax.Array:
    """Return the strength w1(t) w2(t) of a mode from any two layer values.

    singular_value s > 0, input_variance d > 0, first_layer w1(0) and second_layer w2(0) of either sign,
    not both zero; all broadcast. Tends to s/d, but to 0 from exactly w1 = -w2 (the saddle's own valley).
    """
    m = _mode(singular_value, input_variance, first_layer, second_layer)
    return _strength(m, _map(times, m))


@formula(_not_both_zero)
def unbalanced_layers(
    times: Times, singular_value: Positive, input_variance: Positive, first_layer: Real, second_layer: Real
) -> tuple[jax.Array, jax.Array]:
    """Return both layers w1(t) and w2(t); the smaller one is had by division, so it keeps its digits."""
    m = _mode(singular_value, input_variance, first_layer, second_layer)
    moved = _map(times, m)
    _, _, up, down = moved
    valley = m.plus == 0
    growth = jnp.sqrt(up / jnp.where(valley, 1.0, down))
    shrinking = jnp.sqrt(down / up)
    total, difference = (m.first + m.second) * growth, (m.second - m.first) * shrinking
    first, second = 0.5 * (total - difference), 0.5 * (total + difference)
    strength = _strength(m, moved)
    second_larger = jnp.abs(second) >= jnp.abs(first)
    larger = jnp.where(second_larger, second, first)
    smaller = strength / jnp.where(larger == 0, 1.0, larger)
    return jnp.where(second_larger, smaller, first), jnp.where(second_larger, second, smaller)


@formula(_not_both_zero)
def unbalanced_loss(
    times: Times, singular_value: Positive, input_variance: Positive, first_layer: Real, second_layer: Real
) -> jax.Array:
    """Return the loss still to be lost, half d times (s/d - w1 w2)^2, accurate in its tail."""
    m = _mode(singular_value, input_variance, first_layer, second_layer)
    return 0.5 * m.d * _gap(times, m) ** 2


@formula(_not_both_zero)
def unbalanced_time(
    strength: Real, singular_value: Positive, input_variance: Positive, first_layer: Real, second_layer: Real
) -> jax.Array:
    """Return the time at which the product of the layers reaches a strength.

    Zero where it is past it from the start, inf where it never gets there.
    """
    m, goal = _mode(singular_value, input_variance, first_layer, second_layer), strength
    end = m.s / m.d
    forward = (goal - m.strength) * (end - m.strength) > 0
    reached = forward & ((end - goal) * (end - m.strength) > 0) & (m.plus > 0)
    a = jnp.where(reached, goal, m.strength)
    root = jnp.sqrt(4 * a**2 + m.imbalance**2)
    plus = jnp.where(a >= 0, 2 * a + root, m.imbalance**2 / jnp.where(a >= 0, 1.0, root - 2 * a))
    plus = jnp.where(reached, plus, 1.0)
    final_plus = (m.rate + 2 * m.s) / m.d
    travelled = 4 * (a - m.strength) / (1 + m.minus / plus)
    remaining = 4 * (end - a) / (1 + m.imbalance**2 / (plus * final_plus))
    remaining = jnp.where(reached, remaining, 1.0)
    source = jnp.where(reached, m.plus + m.excess / m.d, 1.0)
    t = jnp.log1p(2 * m.rate / m.d * travelled / (remaining * source)) / m.rate
    valley = forward & (m.plus == 0) & (goal < 0)
    t = jnp.where(valley, _valley_time(goal, valley, m), t)
    return jnp.where(reached | valley, t, jnp.where(forward, jnp.inf, 0.0))


def _valley_time(goal: jax.Array, valley: jax.Array, m: _Mode) -> jax.Array:
    """Return the time to a negative strength from w1 = -w2, whence the strength rises to 0 and no further."""
    goal, start = jnp.where(valley, goal, -1.0), jnp.where(valley, m.strength, -1.0)
    return jnp.log1p(m.s * (goal - start) / (-goal * (m.s - m.d * start))) / (2 * m.s)


@formula(_not_both_zero)
def laziness(singular_value: Positive, input_variance: Positive, first_layer: Real, second_layer: Real) -> jax.Array:
    """Return the dial from rich (0, balanced layers) to lazy (1, one layer outweighs the task).

    It is d |w2^2 - w1^2| / k, where k = sqrt(4 s^2 + d^2 (w2^2 - w1^2)^2) is the rate of the final
    approach: near 0 the curve is the logistic one, near 1 an exponential of rate k, as in a kernel machine.
    """
    m = _mode(singular_value, input_variance, first_layer, second_layer)
    return m.d * jnp.abs(m.imbalance) / m.rate
