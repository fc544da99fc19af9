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


class Progress(NamedTuple):
    """Where a step stands: the state whose velocity is next, and what the phases leave for one another."""

    phase: jax.Array
    number: jax.Array  # of the round or stage within the phase
    at: Any
    before: Any  # the stage before; in the last phase the state that it starts from
    radius: jax.Array
    which: jax.Array  # number of the method


class Explicit(diffrax.AbstractAdaptiveSolver[Memory]):
    """Steps of an equation that does not depend on time."""

    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = Quartic

    def order(self, terms: Any) -> int:
        """The lower of the two."""
        return 4

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        """The velocity."""
        return terms.vf(t0, y0, args)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Memory:
        """Start with Tsitouras' method and no knowledge of the Jacobian."""
        return Memory(terms.vf(t0, y0, args), jnp.asarray(False), jnp.zeros(()), y0)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Memory, made_jump: Any
    ) -> tuple[Any, Estimate, dict[str, Any], Memory, Any]:
        """One step of the method that the width asks for."""
        memory, width, table = solver_state, t1 - t0, tableaus()
        stabilised = width * memory.radius > jnp.where(memory.stabilised, SHORT, STABLE)
        stages = _Stages(y0, memory.slope, width, jnp.where(memory.stabilised, 1, ROUNDS))
        slots = jax.tree.map(lambda k: jnp.zeros((SLOTS, *k.shape)).at[0].set(k), memory.slope)
        end, slopes = jax.lax.while_loop(
            lambda carry: carry[0].phase < DONE,
            lambda carry: stages.after(*carry, terms.vf(t0, carry[0].at, args)),
            (stages.opening(memory, stabilised), slots),
        )
        nothing, after, last = jax.tree.map(jnp.zeros_like, y0), end.at, jax.tree.map(lambda k: k[-1], slopes)
        error = _mixed(nothing, slopes, jnp.asarray(table.error)[end.which], width)
        share = jnp.asarray(table.chord)[end.which]
        chord = jax.tree.map(lambda y, z: y + share * (z - y), y0, after)
        half_way = _mixed(chord, slopes, jnp.asarray(table.middle)[end.which], width)
        radius, direction = _radius(end, slopes, width, memory.direction)
        found = jax.tree.map(lambda k, d: jnp.where(stabilised, k[1] - k[0], d), slopes, direction)
        memory = Memory(last, stabilised, jnp.where(stabilised, end.radius, radius), found)
        order = jnp.where(stabilised, 4.0, 5.0)
        estimate = Estimate(error, order, memory.radius, stabilised.astype(order.dtype))
        info = {"start": y0, "middle": half_way, "end": after}
        slopes_at = {"start_slope": solver_state.slope, "end_slope": last}
        at_ends = jax.tree.map(lambda k: width * k, slopes_at)
        return after, estimate, info | at_ends, memory, diffrax.RESULTS.successful


class _Stages(NamedTuple):
    """The stages of one step."""

    start: Any
    slope: Any
    width: jax.Array
    rounds: jax.Array

    def opening(self, memory: Memory, stabilised: jax.Array) -> Progress:
        """Begin with the power iteration, or with Tsitouras' second stage."""
        nothing = jnp.asarray(0)
        blank = Progress(nothing, nothing, self.start, self.start, memory.radius, nothing)
        plain, at = self._begun(blank, nothing), self._nudged(memory.direction)
        return plain._replace(
            phase=jnp.where(stabilised, POWER, plain.phase),
            number=jnp.where(stabilised, 0, plain.number),
            at=_where(stabilised, at, plain.at),
        )

    def after(self, progress: Progress, slopes: Any, rate: Any) -> tuple[Progress, Any]:
        """What follows when the velocity of the state is known; only the last phase looks at the slopes.

        The power iteration's last one stays in a slot that its methods do not use; the recurrence's are written over.
        """
        slot = jnp.stack([jnp.asarray(1), jnp.asarray(SLOTS - 1), progress.number])[progress.phase]
        slopes = jax.tree.map(lambda k, v: jax.lax.dynamic_update_index_in_dim(k, v, slot, 0), slopes, rate)
        phases = (self._power, self._recurrence, self._last)
        return jax.lax.switch(progress.phase, phases, progress, slopes, rate), slopes

    def _power(self, progress: Progress, slopes: Any, rate: Any) -> Progress:
        """A round of the power iteration on the Jacobian, by finite differences along the direction."""
        pull = jax.tree.map(jnp.subtract, rate, self.slope)
        radius = _norm(pull) / (NUDGE * _norm(self.start))
        progress = progress._replace(at=self._nudged(pull), radius=radius, number=progress.number + 1)
        which = 1 + jnp.sum(jnp.asarray(tableaus().extent[1:-1]) < MARGIN * self.width * radius)
        return _where(progress.number == self.rounds, self._begun(progress, which), progress)

    def _begun(self, progress: Progress, which: jax.Array) -> Progress:
        """The first stage of a method, for which the velocity is known."""
        table = tableaus()
        length = jnp.asarray(table.mu)[which, 0] * self.width
        at = jax.tree.map(lambda y, v: y + length * v, self.start, self.slope)
        short = jnp.asarray(table.length)[which] <= 1
        return progress._replace(
            phase=jnp.where(short, LAST, RECURRENCE),
            number=jnp.where(short, jnp.asarray(table.first)[which], 1),
            at=at,
            before=_where(short & (which > 0), at, self.start),
            which=which,
        )

    def _recurrence(self, progress: Progress, slopes: Any, rate: Any) -> Progress:
        """y_j+1 = (1 + nu_j) y_j - nu_j y_j-1 + mu_j h f(y_j)."""
        table, (which, j) = tableaus(), (progress.which, progress.number)
        mu, nu = (jnp.asarray(row)[which, j] for row in (table.mu, table.nu))
        at = jax.tree.map(lambda b, y, v: y + nu * (y - b) + mu * self.width * v, progress.before, progress.at, rate)
        finished = j + 1 == jnp.asarray(table.length)[which]
        return progress._replace(
            phase=jnp.where(finished, LAST, RECURRENCE),
            number=jnp.where(finished, jnp.asarray(table.first)[which], j + 1),
            at=at,
            before=_where(finished, at, progress.at),
        )

    def _last(self, progress: Progress, slopes: Any, rate: Any) -> Progress:
        """A stage from all slopes; the round that finds the slope of the end stays at it."""
        weights = jnp.asarray(tableaus().weights)[progress.which, progress.number]
        at = _mixed(progress.before, slopes, weights, self.width)
        phase = jnp.where(progress.number + 1 == SLOTS, DONE, LAST)
        return progress._replace(phase=phase, number=progress.number + 1, at=at)

    def _nudged(self, direction: Any) -> Any:
        length = _norm(direction)
        scale = jnp.where(length > 0, NUDGE * _norm(self.start) / jnp.where(length > 0, length, 1.0), 0.0)
        return jax.tree.map(lambda y, d: y + scale * d, self.start, direction)


def _radius(end: Progress, slopes: Any, width: jax.Array, direction: Any) -> tuple[jax.Array, Any]:
    """Tsitouras' last two stages are both at the end of the step: how far apart they and their slopes are."""
    apart = _mixed(jax.tree.map(jnp.zeros_like, end.at), slopes, APART, width)
    gap, pull = _norm(apart), _norm(jax.tree.map(lambda k: k[-1] - k[-2], slopes))
    known = (gap > 1e-12 * _norm(end.at)) & jnp.isfinite(pull)  # neither rounding nor overflow
    radius = jnp.maximum(pull / jnp.where(known, gap, 1.0), 0.98 * end.radius)  # one that was larger fades slowly
    return jnp.where(known, radius, end.radius), _where(known, apart, direction)


def _mixed(start: Any, slopes: Any, weights: Any, width: jax.Array) -> Any:
    """The start and a weighted sum of slopes, written out so that it is one loop."""

    def mix(y: jax.Array, k: jax.Array) -> jax.Array:
        return y + width * sum((weights[i] * k[i] for i in range(SLOTS)), start=jnp.zeros(()))

    return jax.tree.map(mix, start, slopes)


def _where(condition: jax.Array, there: Any, here: Any) -> Any:
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), there, here)


def _norm(state: Any) -> jax.Array:
    return jnp.sqrt(sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(state)), start=jnp.zeros(())))
