"""An explicit diffrax solver that changes its method where stability and not accuracy would hold down the step.

Tsitouras' method of fifth order, and stabilised ones of fourth (chebyshev.py). The Jacobian of a gradient flow is
symmetric, so its eigenvalues are real and the stabilised methods are made for it. All are one program: a recurrence,
then a few stages that each mix the slopes before them; so the velocity, which is slow to compile, stands in it once.
"""

from typing import Any, ClassVar, NamedTuple

import diffrax
import jax
import jax.numpy as jnp

from neuralrace.theory.integration.quartic import Quartic
from neuralrace.theory.integration.tableaus import APART, LONGEST, SLOTS, tableaus

STABLE = 2.8  # width times radius up to which Tsitouras' method damps what it should (it is stable to 3.5)
LONG = 4.0  # a wish for more than this takes a stabilised method, whose steps are shorter for the same accuracy
SHORT = 2.5  # a wish for less than this goes back
MARGIN = 1.1  # of the radius, which the power iteration finds from below
ROUNDS = 8  # of the power iteration when a stabilised method takes over; one in each step after
NUDGE = 1e-7  # relative size of the finite difference in it
POWER, RECURRENCE, LAST, DONE = range(4)


class Memory(NamedTuple):
    """What is known at the start of a step: the velocity, and the largest eigenvalue of the Jacobian."""

    slope: jax.Array
    stabilised: jax.Array  # whether the step before was
    radius: jax.Array
    direction: jax.Array  # near the eigenvector


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


class Progress(NamedTuple):
    """Where a step stands: the state whose velocity is next, and what the phases leave for one another."""

    phase: jax.Array
    number: jax.Array  # of the round or stage within the phase
    at: jax.Array
    before: jax.Array  # the stage before; in the last phase the state that it starts from
    direction: jax.Array
    radius: jax.Array
    which: jax.Array  # number of the method


class Explicit(diffrax.AbstractAdaptiveSolver[Memory]):
    """Steps of a state that is one vector, of an equation that does not depend on time."""

    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = Quartic

    def order(self, terms: Any) -> int:
        """The lower of the two."""
        return 4

    def func(self, terms: Any, t0: Any, y0: jax.Array, args: Any) -> jax.Array:
        """The velocity."""
        return terms.vf(t0, y0, args)

    def init(self, terms: Any, t0: Any, t1: Any, y0: jax.Array, args: Any) -> Memory:
        """Start with Tsitouras' method and no knowledge of the Jacobian."""
        return Memory(terms.vf(t0, y0, args), jnp.asarray(False), jnp.zeros(()), y0)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: jax.Array, args: Any, solver_state: Memory, made_jump: Any
    ) -> tuple[jax.Array, Estimate, dict[str, jax.Array], Memory, Any]:
        """One step of the method that the width asks for."""
        memory, width, table = solver_state, t1 - t0, tableaus()
        stabilised = width * memory.radius > jnp.where(memory.stabilised, SHORT, STABLE)
        stages = _Stages(y0, memory.slope, width, jnp.where(memory.stabilised, 1, ROUNDS))
        slots = jnp.zeros((SLOTS, len(y0))).at[0].set(memory.slope)
        end, slopes = jax.lax.while_loop(
            lambda carry: carry[0].phase < DONE,
            lambda carry: stages.after(*carry, terms.vf(t0, carry[0].at, args)),
            (stages.opening(memory, stabilised), slots),
        )
        after, last = end.at, slopes[-1]
        error = width * _mixed(jnp.asarray(table.error)[end.which], slopes)
        share, middle = jnp.asarray(table.chord)[end.which], jnp.asarray(table.middle)[end.which]
        half_way = y0 + share * (after - y0) + width * _mixed(middle, slopes)
        found = _radius(end, slopes, width)
        memory = Memory(
            last,
            stabilised,
            jnp.where(stabilised, end.radius, found[0]),
            jnp.where(stabilised, end.direction, found[1]),
        )
        order = jnp.where(stabilised, 4.0, 5.0)
        estimate = Estimate(error, order, memory.radius, stabilised.astype(order.dtype))
        info = {"start": y0, "middle": half_way, "end": after}
        at_ends = {"start_slope": width * solver_state.slope, "end_slope": width * last}
        return after, estimate, info | at_ends, memory, diffrax.RESULTS.successful


class _Stages(NamedTuple):
    """The stages of one step."""

    start: jax.Array
    slope: jax.Array
    width: jax.Array
    rounds: jax.Array

    def opening(self, memory: Memory, stabilised: jax.Array) -> Progress:
        """Begin with the power iteration, or with Tsitouras' second stage."""
        nothing = jnp.asarray(0)
        blank = Progress(nothing, nothing, self.start, self.start, memory.direction, memory.radius, nothing)
        plain, at = self._begun(blank, nothing), self._nudged(memory.direction)
        return plain._replace(
            phase=jnp.where(stabilised, POWER, plain.phase),
            number=jnp.where(stabilised, 0, plain.number),
            at=jnp.where(stabilised, at, plain.at),
        )

    def after(self, progress: Progress, slopes: jax.Array, rate: jax.Array) -> tuple[Progress, jax.Array]:
        """What follows when the velocity of the state is known; only the last phase looks at the slopes."""
        slot = jnp.where(progress.phase == LAST, progress.number, 1)
        slopes = jax.lax.dynamic_update_index_in_dim(slopes, rate, slot, 0)
        phases = (self._power, self._recurrence, self._last)
        return jax.lax.switch(progress.phase, phases, progress, slopes, rate), slopes

    def _power(self, progress: Progress, slopes: jax.Array, rate: jax.Array) -> Progress:
        """A round of the power iteration on the Jacobian, by finite differences along the direction."""
        pull = rate - self.slope
        radius = _norm(pull) / (NUDGE * _norm(self.start))
        progress = progress._replace(at=self._nudged(pull), direction=pull, radius=radius, number=progress.number + 1)
        which = 1 + jnp.sum(jnp.asarray(tableaus().extent[1:-1]) < MARGIN * self.width * radius)
        begun = self._begun(progress, which)
        finished = progress.number == self.rounds
        return jax.tree.map(lambda new, old: jnp.where(finished, new, old), begun, progress)

    def _begun(self, progress: Progress, which: jax.Array) -> Progress:
        """The first stage of a method, for which the velocity is known."""
        table = tableaus()
        at = self.start + jnp.asarray(table.mu)[which, 0] * self.width * self.slope
        short = jnp.asarray(table.length)[which] <= 1
        return progress._replace(
            phase=jnp.where(short, LAST, RECURRENCE),
            number=jnp.where(short, jnp.asarray(table.first)[which], 1),
            at=at,
            before=jnp.where(short & (which > 0), at, self.start),
            which=which,
        )

    def _recurrence(self, progress: Progress, slopes: jax.Array, rate: jax.Array) -> Progress:
        """y_j+1 = (1 + nu_j) y_j - nu_j y_j-1 + mu_j h f(y_j)."""
        table, (which, j) = tableaus(), (progress.which, progress.number)
        mu, nu = jnp.asarray(table.mu)[which, j], jnp.asarray(table.nu)[which, j]
        at = progress.at + nu * (progress.at - progress.before) + mu * self.width * rate
        finished = j + 1 == jnp.asarray(table.length)[which]
        return progress._replace(
            phase=jnp.where(finished, LAST, RECURRENCE),
            number=jnp.where(finished, jnp.asarray(table.first)[which], j + 1),
            at=at,
            before=jnp.where(finished, at, progress.at),
        )

    def _last(self, progress: Progress, slopes: jax.Array, rate: jax.Array) -> Progress:
        """A stage from all slopes; the round that finds the slope of the end stays at it."""
        weights = jnp.asarray(tableaus().weights)[progress.which, progress.number]
        at = progress.before + self.width * _mixed(weights, slopes)
        phase = jnp.where(progress.number + 1 == SLOTS, DONE, LAST)
        return progress._replace(phase=phase, number=progress.number + 1, at=at)

    def _nudged(self, direction: jax.Array) -> jax.Array:
        length = _norm(direction)
        scale = jnp.where(length > 0, NUDGE * _norm(self.start) / jnp.where(length > 0, length, 1.0), 0.0)
        return self.start + scale * direction


def _radius(end: Progress, slopes: jax.Array, width: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Tsitouras' last two stages are both at the end of the step: how far apart they and their slopes are."""
    apart = width * _mixed(jnp.asarray(APART), slopes)
    gap, pull = _norm(apart), _norm(slopes[-1] - slopes[-2])
    known = (gap > 1e-12 * _norm(end.at)) & jnp.isfinite(pull)  # neither rounding nor overflow
    radius = jnp.maximum(pull / jnp.where(known, gap, 1.0), 0.98 * end.radius)  # one that was larger fades slowly
    return jnp.where(known, radius, end.radius), jnp.where(known, apart, end.direction)


def _mixed(weights: jax.Array, slopes: jax.Array) -> jax.Array:
    """A weighted sum of slopes, written out so that it is one loop."""
    return sum((weights[i] * slopes[i] for i in range(len(slopes))), start=jnp.zeros(()))


def _norm(vector: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(vector**2))
