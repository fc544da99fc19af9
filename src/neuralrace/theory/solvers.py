"""The two solvers: an explicit one, and a stiff one for plateaus that the first would cross in tiny steps.

Both take the velocity at the start of a step and give that at its end, so that no evaluation is made twice, and the
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

Velocity = Callable[[Any], Any]


class Step(NamedTuple):
    """What a solver makes of one step."""

    after: Any
    error: Any
    middle: Any
    velocity: Any  # at the end


class Explicit(eqx.Module):
    """Tsitouras' method of fifth order with diffrax's table.

    unrolled: whether the stages are written out one by one, which runs faster, or as a loop, which compiles faster.
    """

    unrolled: bool = eqx.field(static=True, default=True)
    order: int = eqx.field(static=True, default=5)

    def step(self, velocity: Velocity, state: Any, slope: Any, width: jax.Array) -> Step:
        """Six evaluations, the last of which is the next step's first."""
        table = diffrax.Tsit5.tableau
        if not self.unrolled:
            return self._looped(velocity, state, slope, width)
        slopes = [slope]
        at = state
        for row in table.a_lower:
            at = _combined(state, slopes, row, width)
            slopes.append(velocity(at))
        nothing = jax.tree.map(jnp.zeros_like, state)
        error = _combined(nothing, slopes, table.b_error, width)
        return Step(at, error, _combined(state, slopes, _half_way(), width), slopes[-1])

    def _looped(self, velocity: Velocity, state: Any, slope: Any, width: jax.Array) -> Step:
        table = diffrax.Tsit5.tableau
        count = len(table.b_sol)
        rows = jnp.asarray(np.array([np.pad(row, (0, count - len(row))) for row in table.a_lower]))

        def mixed(weights: jax.Array, slopes: Any, start: Any) -> Any:
            return jax.tree.map(lambda y, k: y + width * jnp.tensordot(weights, k, 1), start, slopes)

        def stage(i: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            at = mixed(rows[i], carry[1], state)
            slopes = jax.tree.map(lambda k, new: k.at[i + 1].set(new), carry[1], velocity(at))
            return at, slopes

        first = jax.tree.map(lambda v: jnp.zeros((count, *v.shape)).at[0].set(v), slope)
        after, slopes = jax.lax.fori_loop(0, count - 1, stage, (state, first))
        nothing = jax.tree.map(jnp.zeros_like, state)
        error = mixed(jnp.asarray(table.b_error), slopes, nothing)
        middle = mixed(jnp.asarray(_half_way()), slopes, state)
        return Step(after, error, middle, jax.tree.map(lambda k: k[-1], slopes))


class Rodas(eqx.Module):
    """RODAS of Hairer and Wanner (Solving Ordinary Differential Equations II, section IV.10).

    Fourth order, L-stable, six linear solves with one matrix per step. Nothing is iterated to a tolerance, so a mode of
    1e-12 keeps its digits beside one of 1.
    """

    order: int = eqx.field(static=True, default=4)

    def step(self, velocity: Velocity, state: Any, slope: Any, width: jax.Array) -> Step:
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
        middle = 0.5 * (start + after) + 0.125 * width * (first - last)
        return Step(restore(after), restore(increments[-1]), restore(middle), restore(last))


def _combined(state: Any, slopes: list[Any], weights: Any, width: jax.Array) -> Any:
    used = [(float(weight), slope) for weight, slope in zip(weights, slopes, strict=False) if weight != 0]

    def combine(leaf: jax.Array, *parts: jax.Array) -> jax.Array:
        return leaf + width * sum(weight * part for (weight, _), part in zip(used, parts, strict=True))

    return jax.tree.map(combine, state, *(slope for _, slope in used))


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
