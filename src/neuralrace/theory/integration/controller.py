"""Steps that keep what the system records, and whose error is judged for each mode against that mode.

diffrax's own controller divides each number by its tolerance before it takes a norm; a mode is many numbers, and small
as a whole.
"""

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from neuralrace.axes import Array
from neuralrace.theory.integration.solvers import Autonomous, ModewiseKvaerno5, StabilizedTsit5
from neuralrace.theory.integration.system import velocity_of

UNSEEN = 1e-200  # width of a first step, which changes nothing and finds velocity and record


class Recorded(Autonomous):
    """A solver whose steps keep the record half way and at the end, and its rate there.

    The loss late in learning is tiny beside its terms. Interpolated itself it keeps its digits; computed from
    interpolated weights it would lose them, and cost an evaluation at each requested time.
    """

    solver: StabilizedTsit5 | ModewiseKvaerno5
    system: Any
    rtol: Array  # the tolerance that it is used with
    states: bool = eqx.field(static=True, default=False)  # whether the state is recorded too

    def order(self, terms: Any) -> Any:
        """The order of the solver."""
        return self.solver.order(terms)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        """Start the solver."""
        return self.solver.init(terms, t0, t1, y0, args)

    @eqx.filter_jit  # diffrax asks for a step several times in one program: it is traced once
    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any) -> Any:
        """A step of the solver with its records."""
        after, error, info, state, result = self.solver.step(self.term(), t0, t1, y0, None, solver_state, made_jump)
        half_way, slope = info["parts"]

        def record(at: Any) -> Any:
            return (self.system.record(at), at) if self.states else self.system.record(at)

        # one loop of two rounds, so that the record is compiled once
        both = jax.lax.map(record, jax.tree.map(lambda *two: jnp.stack(two), half_way, after))
        rate = self.system.rate(after, slope)
        rate = (rate, slope) if self.states else rate
        parts = jax.tree.map(lambda two, last: jnp.concatenate([two, last[None]]), both, rate)
        return after, error, {"parts": parts}, state, result

    def term(self) -> diffrax.ODETerm:
        """The equation as a term of diffrax."""
        return diffrax.ODETerm(lambda t, y, args: velocity_of(self.system, y))


class ControllerState(NamedTuple):
    """The last accepted step and its error, the width of the next one, and after how many steps to pause."""

    width: Array
    size: Array
    next: Array
    left: Array


class ModewiseController(diffrax.AbstractStepSizeController[ControllerState, None]):
    """Accept a step if the worst mode's error is allowed, and choose the next width by it.

    The end is known here and not to diffrax, which takes a hundred small steps back from it, all of them compiled.
    Times are those since the call began, so that diffrax knows its first one when it is compiled.
    """

    rtol: Any
    system: Any
    first: Array  # the width of the first step
    since: Array  # the time at which this call began
    end: Any  # how far it may go

    def wrap(self, direction: Any) -> "ModewiseController":
        """Time runs forwards."""
        return self

    def init(
        self, terms: Any, t0: Any, t1: Any, y0: Any, dt0: None, args: Any, func: Any, error_order: Any
    ) -> tuple[jax.Array, ControllerState]:
        """Return the first width; each call is given the state of the one before, so only its shapes matter."""
        state = ControllerState(*(jnp.zeros(()) for _ in range(4)))
        return jnp.minimum(jnp.asarray(self.first), self.end), state

    @eqx.filter_jit  # traced once, as a step is
    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: Any,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: ControllerState,
    ) -> tuple[Any, Any, Any, Any, ControllerState, diffrax.RESULTS]:
        """Judge a step; widths go with the error to the power of -1 / order, from one fifth to five times."""
        made, before = y_error, controller_state

        def clipped(time: jax.Array, last: Any) -> jax.Array:
            """A time, or `last` in place of one that is nearly at the end or beyond."""
            return jnp.where(time > self.end * (1 - 2e-14), last, time)

        width = t1 - t0
        size = self.system.error(made.error, y0, y1_candidate, self.rtol)
        size = jnp.where(jnp.isfinite(size), jnp.maximum(size, 1e-10), jnp.inf)
        first = jnp.isfinite(size) & (width <= UNSEEN)
        accepted = first | (size <= 1.0)
        factor = 0.9 * size ** (-1.0 / made.order)
        # where errors grow from step to step the next one is cut before it fails (Gustafsson)
        trend = width / before.width * (before.size / size) ** (1.0 / made.order)
        factor = jnp.where(accepted, factor * jnp.minimum(trend, 1.0), factor)
        # a step whose stages could not be solved says only that it was too long
        wish = made.allowed(width * jnp.where(jnp.isfinite(size), jnp.clip(factor, 0.2, 5.0), 0.5))
        # begin with a hundredth of the time in which the state changes by its own size
        known = jnp.isfinite(made.pace) & (made.pace > 0)
        wish = jnp.where(first, jnp.where(known, 1e-2 / jnp.where(known, made.pace, 1.0), self.end), wish)
        too_small = ~accepted & (width <= jnp.maximum(1e-14 * (self.since + t1), UNSEEN))
        start = jnp.where(accepted, clipped(t1, self.end), t0)
        half = start + 0.5 * (self.end - start)
        after = clipped(start + wish, jnp.where(accepted, self.end, half))
        left = before.left - accepted
        going = (left > 0) & (start < self.end)
        result = diffrax.RESULTS.where(going, diffrax.RESULTS.successful, diffrax.RESULTS.max_steps_reached)
        result = diffrax.RESULTS.where(too_small, diffrax.RESULTS.dt_min_reached, result)
        size, width = (jnp.where(accepted, new, old) for new, old in ((size, before.size), (width, before.width)))
        return accepted, start, after, False, ControllerState(width, size, wish, left), result
