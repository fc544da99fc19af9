"""The solvers: an explicit one with two methods, and a stiff one for plateaus that the first would cross too slowly.

All take the velocity at the start of a step and give that at its end, so that no evaluation is made twice, and the
state half way, from which the record of a step is drawn.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np

from neuralrace.theory.integration import chebyshev

Velocity = Callable[[Any], Any]

STABLE = 2.8  # width times radius up to which Tsitouras' method damps what it should (it is stable to 3.5)
LONG = 4.0  # a wish for more than this takes the stabilised method, whose steps are shorter for the same accuracy
SHORT = 2.5  # a wish for less than this goes back
MARGIN = 1.1  # of the radius, which the power iteration finds from below
ROUNDS = 8  # of the power iteration when the stabilised method takes over; one in each step after
NUDGE = 1e-7  # relative size of the finite difference in it


class Step(NamedTuple):
    """What a solver makes of one step."""

    after: Any
    error: Any
    middle: Any
    velocity: Any  # at the end
    order: jax.Array  # of the error in the width of the step
    memory: Any


class Stiffness(NamedTuple):
    """What the explicit solver remembers: which method is next, and the largest eigenvalue of the Jacobian."""

    stabilised: jax.Array | np.ndarray
    radius: jax.Array | np.ndarray
    direction: Any  # near the eigenvector
    rounds: jax.Array | np.ndarray


class Explicit(eqx.Module):
    """Tsitouras' method of fifth order, and a stabilised one of fourth where stability would hold down the step.

    The Jacobian of a gradient flow is symmetric, so its eigenvalues are real and the stabilised method is made for it.
    In every loop the velocity is that of a state carried over; the compiler would make any other anew for each use.
    """

    def begin(self, state: Any) -> Stiffness:
        """Start with Tsitouras' method."""
        return Stiffness(np.array(False), np.array(0.0), state, np.array(ROUNDS))

    def choose(self, width: jax.Array, memory: Stiffness) -> tuple[jax.Array, Stiffness]:
        """The method and the width of the next step, from the width that accuracy allows."""
        reach = width * memory.radius
        longer, shorter = ~memory.stabilised & (reach > LONG), memory.stabilised & (reach < SHORT)
        stabilised = (memory.stabilised | longer) & ~shorter
        limit = jnp.where(stabilised, 0.9 * chebyshev.extent(chebyshev.STAGES[-1]) / MARGIN, STABLE)
        stable = jnp.where(memory.radius > 0, limit / jnp.where(memory.radius > 0, memory.radius, 1.0), jnp.inf)
        width = jnp.minimum(jnp.where(longer, 0.5 * width, width), stable)
        return width, memory._replace(stabilised=stabilised, rounds=jnp.where(longer, ROUNDS, 1))

    def step(self, velocity: Velocity, state: Any, slope: Any, width: jax.Array, memory: Stiffness) -> Step:
        """One step of the method that was chosen."""
        taken: Step = jax.lax.cond(
            memory.stabilised,
            lambda: self.stabilised(velocity, state, slope, width, memory),
            lambda: self.plain(velocity, state, slope, width, memory),
        )
        return taken

    def plain(self, velocity: Velocity, state: Any, slope: Any, width: jax.Array, memory: Stiffness) -> Step:
        """Tsitouras' method with diffrax's table: six evaluations, the last of which is the next step's first."""
        table = diffrax.Tsit5.tableau
        rows = np.array([np.pad(row, (0, 6 - len(row))) for row in table.a_lower])
        at = jax.tree.map(lambda y, v: y + width * rows[0, 0] * v, state, slope)
        after, slopes = _stages(velocity, state, at, slope, jnp.asarray(rows), width, first=1)
        nothing = jax.tree.map(jnp.zeros_like, state)
        error = _mixed(nothing, slopes, table.b_error, width)
        middle = _mixed(state, slopes, _half_way(), width)
        # the last two stages are both at the end of the step: how far apart they and their slopes are
        apart = _mixed(nothing, slopes, rows[5] - rows[4], width)
        last = jax.tree.map(lambda k: k[6], slopes)
        gap, pull = _norm(apart), _norm(jax.tree.map(lambda k: k[6] - k[5], slopes))
        known = (gap > 1e-12 * _norm(after)) & jnp.isfinite(pull)  # neither rounding nor overflow
        found = jnp.where(known, pull / jnp.where(known, gap, 1.0), 0.0)
        direction = jax.tree.map(lambda new, old: jnp.where(known, new, old), apart, memory.direction)
        memory = memory._replace(radius=jnp.maximum(found, 0.98 * memory.radius), direction=direction)
        return Step(after, error, middle, last, jnp.asarray(5.0), memory)

    def stabilised(self, velocity: Velocity, state: Any, slope: Any, width: jax.Array, memory: Stiffness) -> Step:
        """As many stages as the radius asks for; the error is that of a third order method."""
        memory = _power(velocity, state, slope, memory)
        table = chebyshev.table()
        which = jnp.sum(jnp.asarray(table.extent[:-1]) < MARGIN * width * memory.radius)
        length, mu, nu, rows, estimate = (jnp.asarray(part)[which] for part in table[1:])

        def stage(j: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            before, at = carry
            rate = velocity(at)
            return at, jax.tree.map(lambda b, y, v: y + nu[j] * (y - b) + mu[j] * width * v, before, at, rate)

        start = (state, jax.tree.map(lambda y, v: y + mu[0] * width * v, state, slope))
        at = jax.lax.fori_loop(1, length, stage, start)[1]
        after, slopes = _stages(velocity, at, at, slope, rows, width, first=0)
        error = _mixed(jax.tree.map(jnp.zeros_like, state), slopes, estimate, width)
        last = jax.tree.map(lambda k: k[4], slopes)
        middle = _cubic(state, after, slope, last, width)
        return Step(after, error, middle, last, jnp.asarray(4.0), memory)


class Rodas(eqx.Module):
    """RODAS of Hairer and Wanner (Solving Ordinary Differential Equations II, section IV.10).

    Fourth order, L-stable, six linear solves with one matrix per step. Nothing is iterated to a tolerance, so a mode of
    1e-12 keeps its digits beside one of 1.
    """

    def begin(self, state: Any) -> None:
        """Nothing is remembered."""

    def choose(self, width: jax.Array, memory: None) -> tuple[jax.Array, None]:
        """Every step is stable."""
        return width, memory

    def step(self, velocity: Velocity, state: Any, slope: Any, width: jax.Array, memory: None) -> Step:
        """Six stages on the state as one vector."""
        start, restore = jax.flatten_util.ravel_pytree(state)
        first = jax.flatten_util.ravel_pytree(slope)[0]

        def flat(y: jax.Array) -> jax.Array:
            return jax.flatten_util.ravel_pytree(velocity(restore(y)))[0]

        factors = jax.scipy.linalg.lu_factor(jnp.eye(len(start)) / (width * GAMMA) - jax.jacfwd(flat)(start))
        increments: list[jax.Array] = []
        at = start
        for weights, mixing in zip(STAGES, MIXING, strict=True):
            at = start + sum((a * u for a, u in zip(weights, increments, strict=True)), jnp.zeros_like(start))
            push = sum((c / width * u for c, u in zip(mixing, increments, strict=True)), jnp.zeros_like(start))
            here = flat(at) if increments else first
            increments.append(jax.scipy.linalg.lu_solve(factors, here + push))
        after = at + increments[-1]
        last = flat(after)
        middle = _cubic(start, after, first, last, width)
        return Step(restore(after), restore(increments[-1]), restore(middle), restore(last), jnp.asarray(4.0), memory)


def _stages(
    velocity: Velocity, start: Any, at: Any, slope: Any, rows: jax.Array, width: jax.Array, *, first: int
) -> tuple[Any, Any]:
    """Explicit stages from the first, which is at `at`, each from the slopes before it: the end, and all slopes."""
    count = len(rows)
    # the weights of the end are there twice: the round that finds its slope stays at it
    weights = jnp.pad(jnp.concatenate([rows, rows[-1:]]), ((0, 0), (0, 1)))

    def stage(i: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        at, slopes = carry
        slopes = jax.tree.map(lambda k, v: jax.lax.dynamic_update_index_in_dim(k, v, i, 0), slopes, velocity(at))
        return _mixed(start, slopes, weights[i], width), slopes

    slopes = jax.tree.map(lambda v: jnp.zeros((count + 1, *v.shape)).at[0].set(v), slope)
    found: tuple[Any, Any] = jax.lax.fori_loop(first, count + 1, stage, (at, slopes))
    return found


def _mixed(start: Any, slopes: Any, weights: Any, width: jax.Array) -> Any:
    """The start and a weighted sum of slopes, written out so that it is one loop."""

    def mix(y: jax.Array, k: jax.Array) -> jax.Array:
        return y + width * sum((weights[i] * k[i] for i in range(len(weights))), start=jnp.zeros(()))

    return jax.tree.map(mix, start, slopes)


def _power(velocity: Velocity, state: Any, slope: Any, memory: Stiffness) -> Stiffness:
    """Rounds of the power iteration on the Jacobian, by finite differences along the direction."""
    size = NUDGE * _norm(state)

    def nudged(direction: Any) -> Any:
        length = _norm(direction)
        scale = jnp.where(length > 0, size / jnp.where(length > 0, length, 1.0), 0.0)
        return jax.tree.map(lambda y, d: y + scale * d, state, direction)

    def turn(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        pull = jax.tree.map(jnp.subtract, velocity(carry[0]), slope)
        return nudged(pull), pull

    _, pull = jax.lax.fori_loop(0, memory.rounds, turn, (nudged(memory.direction), memory.direction))
    return memory._replace(direction=pull, radius=_norm(pull) / size)


def _norm(state: Any) -> jax.Array:
    return jnp.sqrt(sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(state)), start=jnp.zeros(())))


def _cubic(start: Any, after: Any, first: Any, last: Any, width: jax.Array) -> Any:
    """Half way on the cubic through both ends of a step with their slopes."""
    return jax.tree.map(lambda y0, y1, v0, v1: 0.5 * (y0 + y1) + 0.125 * width * (v0 - v1), start, after, first, last)


def _half_way() -> np.ndarray:
    """The weights of the slopes in the state half way: diffrax's interpolation, applied to unit slopes."""
    with jax.ensure_compile_time_eval():
        unit = diffrax.Tsit5.interpolation_cls(
            t0=jnp.asarray(0.0), t1=jnp.asarray(1.0), y0=jnp.zeros(7), y1=jnp.zeros(7), k=jnp.eye(7)
        )
        return np.asarray(unit.evaluate(jnp.asarray(0.5)))


GAMMA = 0.25
STAGES = (
    (),
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1.0),
)
MIXING = (
    (),
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
    (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
)
