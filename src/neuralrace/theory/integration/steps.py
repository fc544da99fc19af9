"""A step of any solver: it keeps what the system records, and is judged by the error of each mode against that mode.

diffrax's own controller divides each number by its tolerance before it takes a norm; a mode is many numbers, and small
as a whole.
"""

from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from neuralrace.axes import Array
from neuralrace.theory.integration.explicit import Estimate, Explicit
from neuralrace.theory.integration.stiff import Stiff
from neuralrace.theory.integration.system import Autonomous, Quartic, term

NEAR = 2e-14  # of the end: a step that comes as near to it goes there


class Noted(NamedTuple):
    """The solver's memory, and the record and its rate at the start of a step."""

    memory: Any
    record: Any
    rate: Any


class KeptStep(diffrax.AbstractLocalInterpolation):
    """What is kept of one step, in one array for each leaf: few things to keep compile fast."""

    t0: Any  # type: ignore[misc]  # abstract there
    t1: Any  # type: ignore[misc]
    parts: Any  # leaves (5, ...), those of a quartic

    def evaluate(self, t0: Any, t1: Any = None, left: bool = True) -> Any:
        """The value at a time, or what is added from one time to another."""
        parts = (jax.tree.map(lambda leaf, i=i: leaf[i], self.parts) for i in range(5))
        return Quartic(self.t0, self.t1, *parts).evaluate(t0, t1, left)


class Recorded(Autonomous):
    """A solver whose dense output is the system's record.

    The loss late in learning is tiny beside its terms. Drawn from itself it keeps its digits; drawn from weights that
    are themselves drawn it would lose them, and cost an evaluation at each time that is asked for.
    """

    interpolation_cls: ClassVar[Any] = KeptStep
    solver: Explicit | Stiff
    system: Any
    rtol: Array  # the tolerance that it is used with

    def order(self, terms: Any) -> Any:
        """That of the solver."""
        return self.solver.order(terms)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Noted:
        """The record at the start."""
        rate = self.system.rate(y0, self.func(terms, t0, y0, args))
        return Noted(self.solver.init(terms, t0, t1, y0, args), self.system.record(y0), rate)

    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Noted, made_jump: Any) -> Any:
        """A step of the solver, and the record half way and at its end."""
        return _step(self, t0, t1, y0, solver_state, made_jump)


@eqx.filter_jit  # diffrax asks for a step several times in one program: it is traced once
def _step(recorded: Recorded, t0: Any, t1: Any, y0: Any, noted: Noted, made_jump: Any) -> Any:
    equation = term(recorded.system)
    after, error, info, memory, result = recorded.solver.step(equation, t0, t1, y0, None, noted.memory, made_jump)
    width = t1 - t0
    # one loop of two rounds, so that the record is compiled once
    both = jax.lax.map(recorded.system.record, jax.tree.map(lambda *two: jnp.stack(two), info["middle"], after))
    middle, end = (jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in (0, 1))
    rate = recorded.system.rate(after, jax.tree.map(lambda k: k / width, info["end_slope"]))
    slopes = (jax.tree.map(lambda leaf: width * leaf, found) for found in (noted.rate, rate))
    parts = jax.tree.map(lambda *leaves: jnp.stack(leaves), noted.record, middle, end, *slopes)
    return after, error, {"parts": parts}, Noted(memory, end, rate), result


class Before(NamedTuple):
    """The accepted step before, its error, how wide the next one is to be, and after how many to pause."""

    width: Array
    size: Array
    next: Array
    left: Array


class ErrorOfModes(diffrax.AbstractStepSizeController[Before, None]):
    """Accept a step if the worst mode's error is allowed; choose the next width by it, and end where there is no more.

    The end is known here and not to diffrax, which takes a hundred small steps back from it, all of them compiled.
    Times are those since the call began, so that diffrax knows its first one when it is compiled.
    """

    rtol: Any
    system: Any
    first: Array  # the width of the first step
    since: Array  # the time at which this call began
    end: Any  # how far it may go

    def wrap(self, direction: Any) -> "ErrorOfModes":
        """Time runs forwards."""
        return self

    def init(
        self, terms: Any, t0: Any, t1: Any, y0: Any, dt0: None, args: Any, func: Any, error_order: Any
    ) -> tuple[jax.Array, Before]:
        """Nothing is known of a step before."""
        before = Before(1e-300 * jnp.ones(()), jnp.ones(()), self.first, jnp.asarray(jnp.inf))
        return jnp.minimum(jnp.asarray(self.first), self.end), before

    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: Any,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: Before,
    ) -> tuple[Any, Any, Any, Any, Before, diffrax.RESULTS]:
        """Accepted or not, the times of the next step, and what is known of this one."""
        zero = jnp.zeros(())
        made = y_error if isinstance(y_error, Estimate) else Estimate(y_error, zero + error_order, zero, zero)
        accepted, start, end, before, result = _adapted(self, t0, t1, y0, y1_candidate, made, controller_state)
        return accepted, start, end, False, before, result


@eqx.filter_jit  # traced once, as a step is
def _adapted(
    controller: ErrorOfModes, t0: Any, t1: Any, y0: Any, y1: Any, made: Estimate, before: Before
) -> tuple[Any, Any, Any, Before, diffrax.RESULTS]:
    """Step widths go with the error to the power of -1 / order, from one fifth to five times."""
    size = controller.system.error(made.error, y0, y1, controller.rtol)
    size = jnp.where(jnp.isfinite(size), jnp.maximum(size, 1e-10), jnp.inf)
    accepted, width = size <= 1.0, t1 - t0
    factor = 0.9 * size ** (-1.0 / made.order)
    # where errors grow from step to step the next one is cut before it fails (Gustafsson)
    trend = width / before.width * (before.size / size) ** (1.0 / made.order)
    factor = jnp.where(accepted, factor * jnp.minimum(trend, 1.0), factor)
    # a step whose stages could not be solved says only that it was too long
    wish = made.allowed(width * jnp.where(jnp.isfinite(size), jnp.clip(factor, 0.2, 5.0), 0.5))
    too_small = ~accepted & (width <= 1e-14 * jnp.maximum(controller.since + t1, 1e-280))
    start = jnp.where(accepted, _clipped(t1, controller.end, controller.end), t0)
    half = start + 0.5 * (controller.end - start)
    after = _clipped(start + wish, controller.end, jnp.where(accepted, controller.end, half))
    left = before.left - accepted
    going = (left > 0) & (start < controller.end)
    result = diffrax.RESULTS.where(going, diffrax.RESULTS.successful, diffrax.RESULTS.max_steps_reached)
    result = diffrax.RESULTS.where(too_small, diffrax.RESULTS.dt_min_reached, result)
    size, width = (jnp.where(accepted, new, old) for new, old in ((size, before.size), (width, before.width)))
    return accepted, start, after, Before(width, size, wish, left), result


def _clipped(time: jax.Array, end: jax.Array, last: jax.Array) -> jax.Array:
    """A time, or `last` in place of one that is at the end or beyond."""
    return jnp.where(time > end * (1 - NEAR), last, time)
