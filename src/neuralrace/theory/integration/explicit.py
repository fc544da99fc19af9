"""An explicit diffrax solver that changes its method where stability and not accuracy would hold down the step.

Tsitouras' method of fifth order, and stabilised ones of fourth (tableaus.py). The Jacobian of a gradient flow is
symmetric, so its eigenvalues are real and the stabilised methods are made for it. All are one loop that evaluates the
velocity at one place, because a velocity is slow to compile: rounds of the power iteration that finds the largest
eigenvalue, a recurrence, and then a few stages that each mix the slopes before them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp

from neuralrace.theory.integration.system import Autonomous, norm
from neuralrace.theory.integration.tableaus import APART, LONGEST, SLOTS, Tableaus, tableaus

STABLE = 2.8  # width times radius up to which Tsitouras' method damps what it should (it is stable to 3.5)
LONG = 4.0  # a wish for more than this takes a stabilised method, whose steps are shorter for the same accuracy
SHORT = 2.5  # a wish for less than this goes back
MARGIN = 1.1  # of the radius, which the power iteration finds from below
ROUNDS = 8  # of the power iteration when a stabilised method takes over; one in each step after
NUDGE = 1e-7  # relative size of the finite difference in it
PULLED = SLOTS  # the slot of the slope that it finds
Velocity = Callable[[Any], Any]


class Memory(NamedTuple):
    """What is known at the start of a step: the velocity, and the largest eigenvalue of the Jacobian."""

    slope: Any
    stabilised: jax.Array  # whether the step before was
    radius: jax.Array
    direction: Any  # near the eigenvector


class Estimate(NamedTuple):
    """The error of a step, and what the next one may be for the sake of stability; all are floats."""

    error: Any
    order: jax.Array  # of the error in the width of the step
    radius: jax.Array
    stabilised: jax.Array

    def allowed(self, wish: jax.Array) -> jax.Array:
        """The width of the next step, from the width that accuracy allows; the solver takes its method from it."""
        reach = wish * self.radius
        longest = jnp.where(self.stabilised > 0, 0.9 * LONGEST / MARGIN, STABLE)
        scale = jnp.where(self.radius > 0, self.radius, 1.0)
        # one that changes over to a stabilised method is cut, but not below where that begins
        changing = (self.stabilised == 0) & (reach > LONG)
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
        stabilised = width * memory.radius > jnp.where(memory.stabilised, SHORT, STABLE)
        rounds = jnp.where(stabilised, jnp.where(memory.stabilised, 1, ROUNDS), 0)
        end = _stages(lambda state: terms.vf(t0, state, args), y0, memory, width, rounds)
        after, slopes, which = end.point, end.slopes, end.which
        error, chord, middle = (jnp.asarray(part)[which] for part in (table.error, table.chord, table.middle))
        last, nothing = jax.tree.map(lambda k: k[SLOTS - 1], slopes), jax.tree.map(jnp.zeros_like, y0)
        wrong = _mixed(nothing, slopes, width * error)
        half_way = jax.tree.map(lambda y, z: y + chord * (z - y), y0, after)
        half_way = _mixed(half_way, slopes, width * middle)
        pull = jax.tree.map(lambda k, v: k[PULLED] - v, slopes, memory.slope)
        found = _where(stabilised, (end.radius, pull), _radius(after, slopes, width, memory))
        memory = Memory(last, stabilised, *found)
        order = jnp.where(stabilised, 4.0, 5.0)
        estimate = Estimate(wrong, order, memory.radius, stabilised.astype(order.dtype))
        info = {"start": y0, "middle": half_way, "end": after}
        slopes_at = {"start_slope": solver_state.slope, "end_slope": last}
        at_ends = jax.tree.map(lambda k: width * k, slopes_at)
        return after, estimate, info | at_ends, memory, diffrax.RESULTS.successful


class Stage(NamedTuple):
    """Where the velocity is evaluated next, and what is known before."""

    number: jax.Array  # of the evaluation; below zero: a round of the power iteration
    slopes: Any  # (SLOTS + 1, ...): those of the last stages, and that of the last round of the power iteration
    which: jax.Array  # of the methods
    radius: jax.Array
    point: Any
    before: Any  # in the recurrence the point before; in the last stages their base


def _stages(velocity: Velocity, start: Any, memory: Memory, width: jax.Array, rounds: jax.Array) -> Stage:
    """All evaluations of a step: its end is the last point."""
    table: Tableaus = jax.tree.map(jnp.asarray, tableaus())
    size = NUDGE * norm(start)

    def entered(which: jax.Array) -> tuple[Any, Any]:
        """The first stage, for which nothing is evaluated, and the point before it, or the base."""
        point = jax.tree.map(lambda y, v: y + table.mu[which, 0] * width * v, start, memory.slope)
        return point, _where(table.length[which] == 1, point, start)

    def nudged(direction: Any) -> Any:
        length = norm(direction)
        scale = jnp.where(length > 0, size / jnp.where(length > 0, length, 1.0), 0.0)
        return jax.tree.map(lambda y, d: y + scale * d, start, direction)

    def turned(at: Stage, rate: Any) -> tuple[Any, ...]:
        """A round of the power iteration on the Jacobian, by finite differences."""
        pull = jax.tree.map(jnp.subtract, rate, memory.slope)
        radius = norm(pull) / size
        which = 1 + jnp.sum(table.extent[1:-1] < MARGIN * width * radius)
        first, before = entered(which)
        return which, radius, _where(at.number < -1, nudged(pull), first), before

    def recurred(at: Stage, rate: Any) -> tuple[Any, ...]:
        """y_j+1 = (1 + nu_j) y_j - nu_j y_j-1 + mu_j h f(y_j), to the end."""
        j = at.number + 1
        mu, nu = table.mu[at.which, j], table.nu[at.which, j]
        point = jax.tree.map(lambda b, y, v: y + nu * (y - b) + mu * width * v, at.before, at.point, rate)
        return at.which, at.radius, point, _where(j == table.length[at.which] - 1, point, at.point)

    def mixed(at: Stage, rate: Any) -> tuple[Any, ...]:
        """One of the stages that mix slopes; the round that finds the slope of the end stays at it."""
        weights = width * table.weights[at.which, _slot(at, table)]
        return at.which, at.radius, _mixed(at.before, at.slopes, weights), at.before

    def evaluated(at: Stage) -> Stage:
        rate = velocity(at.point)
        kind = jnp.where(at.number < 0, 0, jnp.where(at.number < table.length[at.which] - 1, 1, 2))
        # always into some slot, so that the slopes stay in place; that of the end is written last
        slot = jnp.stack([jnp.asarray(PULLED), jnp.asarray(SLOTS - 1), _slot(at, table)])[kind]
        slopes = jax.tree.map(lambda k, v: jax.lax.dynamic_update_index_in_dim(k, v, slot, 0), at.slopes, rate)
        at = at._replace(slopes=slopes)
        found = jax.lax.switch(kind, [partial(made, at, rate) for made in (turned, recurred, mixed)])
        return Stage(at.number + 1, slopes, *found)

    def going(at: Stage) -> jax.Array:
        return (at.number < 0) | (_slot(at, table) < SLOTS)

    slopes = jax.tree.map(lambda k: jnp.zeros((SLOTS + 1, *k.shape), k.dtype).at[0].set(k), memory.slope)
    first, before = entered(jnp.asarray(0))
    point = _where(rounds > 0, nudged(memory.direction), first)
    found: Stage = jax.lax.while_loop(
        going, evaluated, Stage(-rounds, slopes, jnp.asarray(0), memory.radius, point, before)
    )
    return found


def _slot(at: Stage, table: Tableaus) -> jax.Array:
    """The slot of the slope that is found next, once the recurrence is done."""
    return table.first[at.which] + at.number - jnp.maximum(table.length[at.which] - 1, 0)


def _radius(after: Any, slopes: Any, width: jax.Array, memory: Memory) -> tuple[jax.Array, Any]:
    """Tsitouras' last two stages are both at the end of the step: how far apart they and their slopes are."""
    apart = _mixed(jax.tree.map(jnp.zeros_like, after), slopes, width * jnp.asarray(APART))
    gap, pull = norm(apart), norm(jax.tree.map(lambda k: k[SLOTS - 1] - k[SLOTS - 2], slopes))
    known = (gap > 1e-12 * norm(after)) & jnp.isfinite(pull)  # neither rounding nor overflow
    radius = jnp.maximum(pull / jnp.where(known, gap, 1.0), 0.98 * memory.radius)  # one that was larger fades slowly
    return _where(known, (radius, apart), (memory.radius, memory.direction))


def _mixed(start: Any, slopes: Any, weights: jax.Array) -> Any:
    """The start and a weighted sum of slopes, written out so that it is one loop."""
    return jax.tree.map(lambda y, k: y + sum(weights[i] * k[i] for i in range(SLOTS)), start, slopes)


def _where(condition: jax.Array, there: Any, here: Any) -> Any:
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), there, here)
