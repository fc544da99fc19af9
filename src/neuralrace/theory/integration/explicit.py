"""An explicit diffrax solver that changes its method where stability and not accuracy would hold down the step.

Tsitouras' method of fifth order, and stabilized ones of fourth (tableaus.py). The Jacobian of a gradient flow is
symmetric, so its eigenvalues are real and the stabilized methods are made for it. All are one program, a recurrence and
then a few stages that each mix the slopes before them, because a velocity is slow to compile.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp

from neuralrace.axes import Array
from neuralrace.theory.integration.system import Autonomous, norm
from neuralrace.theory.integration.tableaus import APART, LONGEST, SLOTS, tableaus

STABLE = 2.8  # width times radius up to which Tsitouras' method damps what it should (it is stable to 3.5)
LONG = 4.0  # a wish for more than this takes a stabilized method, whose steps are shorter for the same accuracy
SHORT = 2.5  # a wish for less than this goes back
MARGIN = 1.1  # of the radius, which the power iteration finds from below
ROUNDS = 8  # of the power iteration when a stabilized method takes over; one in each step after
NUDGE = 1e-7  # relative size of the finite difference in it
Velocity = Callable[[Any], Any]


class Memory(NamedTuple):
    """What is known at the start of a step: the velocity, and the largest eigenvalue of the Jacobian."""

    slope: Any
    stabilized: Array  # whether the step before was
    radius: Array
    direction: Any  # near the eigenvector


class Estimate(NamedTuple):
    """The error of a step, and what the next one may be for the sake of stability; all are floats."""

    error: Any
    order: jax.Array  # of the error in the width of the step
    radius: Array
    stabilized: jax.Array

    def allowed(self, wish: jax.Array) -> jax.Array:
        """The width of the next step, from the width that accuracy allows; the solver takes its method from it."""
        reach = wish * self.radius
        longest = jnp.where(self.stabilized > 0, 0.9 * LONGEST / MARGIN, STABLE)
        scale = jnp.where(self.radius > 0, self.radius, 1.0)
        # one that changes over to a stabilized method is cut, but not below where that begins
        changing = (self.stabilized == 0) & (reach > LONG)
        limited = jnp.where(changing, jnp.maximum(0.5 * reach, 1.01 * STABLE), jnp.minimum(reach, longest))
        return jnp.where(self.radius > 0, limited / scale, wish)


class Explicit(Autonomous):
    """Steps of an equation that does not depend on time."""

    def order(self, terms: Any) -> int:
        """The lower of the two."""
        return 4

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Memory:
        """Start with Tsitouras' method and no knowledge of the Jacobian."""
        return Memory(terms.vf(t0, y0, args), jnp.asarray(False), jnp.zeros(()), y0)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Memory, made_jump: Any
    ) -> tuple[Any, Estimate, dict[str, Any], Memory, Any]:
        """One step of the method that the width asks for."""
        memory, width, table = solver_state, t1 - t0, tableaus()

        def velocity(state: Any) -> Any:
            return terms.vf(t0, state, args)

        stabilized = width * memory.radius > jnp.where(memory.stabilized, SHORT, STABLE)
        rounds = jnp.where(stabilized, jnp.where(memory.stabilized, 1, ROUNDS), 0)
        radius, pull = _power(velocity, y0, memory, rounds)
        wide = jnp.sum(jnp.asarray(table.extent[1:-1]) < MARGIN * width * radius)
        which = jnp.where(stabilized, 1 + wide, 0)
        at = _recurrence(velocity, y0, memory.slope, which, width)
        first, weights, error, chord, middle = (
            jnp.asarray(part)[which] for part in (table.first, table.weights, table.error, table.chord, table.middle)
        )
        base = _where(stabilized, at, y0)
        after, slopes = _last_stages(velocity, base, at, memory.slope, first, weights * width)
        last, nothing = jax.tree.map(lambda k: k[-1], slopes), jax.tree.map(jnp.zeros_like, y0)
        wrong = _mixed(nothing, slopes, width * error)
        half_way = jax.tree.map(lambda y, z: y + chord * (z - y), y0, after)
        half_way = _mixed(half_way, slopes, width * middle)
        found = _where(stabilized, (radius, pull), _radius(after, slopes, width, memory))
        memory = Memory(last, stabilized, *found)
        order = jnp.where(stabilized, 4.0, 5.0)
        estimate = Estimate(wrong, order, memory.radius, stabilized.astype(order.dtype))
        info = {"start": y0, "middle": half_way, "end": after}
        slopes_at = {"start_slope": solver_state.slope, "end_slope": last}
        at_ends = jax.tree.map(lambda k: width * k, slopes_at)
        return after, estimate, info | at_ends, memory, diffrax.RESULTS.successful


def _power(velocity: Velocity, start: Any, memory: Memory, rounds: jax.Array) -> tuple[jax.Array, Any]:
    """Rounds of the power iteration on the Jacobian, by finite differences along the direction."""
    size = NUDGE * norm(start)

    def nudged(direction: Any) -> Any:
        length = norm(direction)
        scale = jnp.where(length > 0, size / jnp.where(length > 0, length, 1.0), 0.0)
        return jax.tree.map(lambda y, d: y + scale * d, start, direction)

    def turn(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        pull = jax.tree.map(jnp.subtract, velocity(carry[0]), memory.slope)
        return nudged(pull), pull

    _, pull = jax.lax.fori_loop(0, rounds, turn, (nudged(memory.direction), memory.direction))
    return norm(pull) / size, pull


def _recurrence(velocity: Velocity, start: Any, slope: Any, which: jax.Array, width: jax.Array) -> Any:
    """y_j+1 = (1 + nu_j) y_j - nu_j y_j-1 + mu_j h f(y_j), to the end."""
    length, mu, nu = (jnp.asarray(part)[which] for part in (tableaus().length, tableaus().mu, tableaus().nu))

    def stage(j: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        before, at = carry
        rate = velocity(at)
        return at, jax.tree.map(lambda b, y, v: y + nu[j] * (y - b) + mu[j] * width * v, before, at, rate)

    first = jax.tree.map(lambda y, v: y + mu[0] * width * v, start, slope)
    return jax.lax.fori_loop(1, length, stage, (start, first))[1]


def _last_stages(
    velocity: Velocity, base: Any, at: Any, slope: Any, first: jax.Array, weights: jax.Array
) -> tuple[Any, Any]:
    """Stages that mix the slopes before them, from the first slot on: the end of the step, and all slopes."""

    def stage(i: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        at, slopes = carry
        slopes = jax.tree.map(lambda k, v: jax.lax.dynamic_update_index_in_dim(k, v, i, 0), slopes, velocity(at))
        return _mixed(base, slopes, weights[i]), slopes  # the round that finds the slope of the end stays at it

    slopes = jax.tree.map(lambda k: jnp.zeros((SLOTS, *k.shape)).at[0].set(k), slope)
    found: tuple[Any, Any] = jax.lax.fori_loop(first, SLOTS, stage, (at, slopes))
    return found


def _radius(after: Any, slopes: Any, width: jax.Array, memory: Memory) -> tuple[jax.Array, Any]:
    """Tsitouras' last two stages are both at the end of the step: how far apart they and their slopes are."""
    apart = _mixed(jax.tree.map(jnp.zeros_like, after), slopes, width * jnp.asarray(APART))
    gap, pull = norm(apart), norm(jax.tree.map(lambda k: k[-1] - k[-2], slopes))
    known = (gap > 1e-12 * norm(after)) & jnp.isfinite(pull)  # neither rounding nor overflow
    radius = jnp.maximum(pull / jnp.where(known, gap, 1.0), 0.98 * memory.radius)  # one that was larger fades slowly
    return _where(known, (radius, apart), (memory.radius, memory.direction))


def _mixed(start: Any, slopes: Any, weights: jax.Array) -> Any:
    """The start and a weighted sum of slopes, written out so that it is one loop."""
    return jax.tree.map(lambda y, k: y + sum(weights[i] * k[i] for i in range(SLOTS)), start, slopes)


def _where(condition: jax.Array, there: Any, here: Any) -> Any:
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), there, here)
