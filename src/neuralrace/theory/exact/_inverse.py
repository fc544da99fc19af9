"""Roots and inverses of increasing functions, elementwise, with derivatives by the implicit function."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Increasing = Callable[..., jax.Array]
Search = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]
MOST_STEPS = 200
NEARLY = 1e-7  # the square of this is below rounding


def _value_and_slope(function: Increasing, x: jax.Array, parameters: Any) -> tuple[jax.Array, jax.Array]:
    return jax.jvp(lambda y: function(y, *parameters), (x,), (jnp.ones_like(x),))


def _safe_newton(function: Increasing, guess: jax.Array, parameters: Any, tolerance: float | None = None) -> jax.Array:
    """Newton's method in a bracket that is found on the way.

    While one side is open a step is at most a width that doubles; once both are closed a step that leaves
    the bracket is a bisection, and so is every fourth. It ends when a step of Newton's, which squares the
    error, is below the tolerance (rounding, if none is given).
    """
    epsilon = float(np.finfo(guess.dtype).eps)

    def unfinished(state: Search) -> jax.Array:
        return ~jnp.all(state[3]) & (state[4] < MOST_STEPS)

    def step(state: Search) -> Search:
        lower, upper, x, done, count = state
        value, slope = _value_and_slope(function, x, parameters)
        lower = jnp.where(value <= 0, x, lower)
        upper = jnp.where(value >= 0, x, upper)
        open_side = jnp.isinf(lower) | jnp.isinf(upper)
        width = 2.0 ** jnp.minimum(count, 60)
        newton = x - value / slope
        inside = (newton >= lower) & (newton <= upper)
        inside &= jnp.where(open_side, jnp.abs(newton - x) <= width, count % 4 != 3)
        safe = jnp.where(open_side, x - jnp.sign(value) * width, 0.5 * (lower + upper))
        following = jnp.where(inside, newton, safe)
        close = jnp.abs(following - x) <= (2 * epsilon * jnp.abs(x) if tolerance is None else tolerance)
        finished = done | (value == 0) | (inside & close) | (upper - lower <= epsilon * jnp.abs(x))
        following = jnp.where(done | (value == 0), x, following)
        return lower, upper, following, finished, count + 1

    nowhere = jnp.full_like(guess, jnp.inf)
    start = (-nowhere, nowhere, guess, jnp.zeros(guess.shape, bool), jnp.asarray(0))
    return jax.lax.while_loop(unfinished, step, start)[2]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
@functools.partial(jax.jit, static_argnums=(0,))
def solve_increasing(function: Increasing, guess: jax.Array, *parameters: jax.Array) -> jax.Array:
    """Return x with function(x, *parameters) = 0, for a function that increases in x.

    The guess has the shape of the answer. The derivative to the parameters is that of the implicit
    function; there is none to the guess.
    """
    return _safe_newton(function, guess, parameters)


@solve_increasing.defjvp
def _solve_increasing_jvp(function: Increasing, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    root = solve_increasing(function, *primals)
    parameters, changes = primals[1:], tangents[1:]
    _, moved = jax.jvp(lambda *p: function(root, *p), parameters, changes)
    _, slope = _value_and_slope(function, root, parameters)
    return root, -moved / slope


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
@functools.partial(jax.jit, static_argnums=(0,))
def invert_elapsed(elapsed: Increasing, time: jax.Array, *parameters: jax.Array) -> jax.Array:
    """Return x >= 0 with elapsed(x, *parameters) = time, for elapsed(0) = 0 and increasing.

    The time has the shape of the answer. Solved in log(x) against log(time), where a plateau and the long
    tail are both nearly straight, and polished by one Newton step in x itself.
    """
    begun = time > 0
    after = jnp.where(begun, time, 1.0)

    def mismatch(log_x: jax.Array, *p: jax.Array) -> jax.Array:
        return jnp.log(elapsed(jnp.exp(log_x), *p)) - jnp.log(after)

    x = jnp.exp(_safe_newton(mismatch, jnp.log(after), parameters, NEARLY))
    value, slope = _value_and_slope(elapsed, x, parameters)
    polished = x - (value - after) / slope
    return jnp.where(begun, jnp.where(polished > 0, polished, x), 0.0)


@invert_elapsed.defjvp
def _invert_elapsed_jvp(elapsed: Increasing, primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    x = invert_elapsed(elapsed, *primals)
    parameters, changes = primals[1:], tangents[1:]
    _, moved = jax.jvp(lambda *p: elapsed(x, *p), parameters, changes)
    _, slope = _value_and_slope(elapsed, x, parameters)
    return x, (tangents[0] - moved) / slope
