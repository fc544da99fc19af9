"""A system to integrate as diffrax has it: its equation, the polynomial within a step, and plain steps of descent."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled, shared_room
from neuralrace.progress import LongWait

AT_ONCE = 1 << 16  # steps of descent in one compiled call; more are several, so that it can be interrupted
NOISE = 4e-16  # rounding of the largest number of a state, below which an error means nothing
NOTHING = 1e-290  # an error that is always allowed


class System(eqx.Module):
    """An autonomous differential equation whose error is relative for every mode of its state."""

    @abstractmethod
    def velocity(self, state: Any) -> Any:
        """The right-hand side."""

    @abstractmethod
    def modes(self, state: Any) -> Sequence[jax.Array]:
        """The size of every mode of a state, or of an error in one."""

    def record(self, state: Any) -> Any:
        """What is kept of a state: itself, unless said otherwise."""
        return state

    def rate(self, state: Any, velocity: Any) -> Any:
        """The derivative in time of what is kept."""
        return jax.jvp(self.record, (state,), (velocity,))[1]

    def error(self, error: Any, before: Any, after: Any, rtol: jax.Array) -> jax.Array:
        """The largest error of a mode as a multiple of what is allowed: rtol of that mode, and rounding."""
        worst = jnp.zeros(())
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(y), initial=0.0) for y in jax.tree.leaves(before)]))
        allowed = NOTHING + NOISE * largest
        for wrong, old, new in zip(*map(self.modes, (error, before, after)), strict=True):
            ratio = wrong / (rtol * jnp.maximum(old, new) + allowed)
            worst = jnp.maximum(worst, jnp.max(ratio, initial=0.0))
        return worst


@eqx.filter_jit
def velocity_of(system: System, state: Any) -> Any:
    """The velocity; traced once, however often it is used."""
    return system.velocity(state)


@compiled
def record_of(system: System, state: Any) -> Any:
    """What is kept of a state."""
    return system.record(state)


def term(system: System) -> diffrax.ODETerm:
    """The equation as diffrax has it."""
    return diffrax.ODETerm(lambda t, y, args: velocity_of(system, y))


class WithState(System):
    """A system that keeps its state, beside what it records or alone."""

    system: System
    alone: bool = eqx.field(static=True)

    def velocity(self, state: Any) -> Any:
        """That of the system."""
        return self.system.velocity(state)

    def modes(self, state: Any) -> Sequence[jax.Array]:
        """Those of the system."""
        return self.system.modes(state)

    def error(self, error: Any, before: Any, after: Any, rtol: jax.Array) -> jax.Array:
        """That of the system."""
        return self.system.error(error, before, after, rtol)

    def record(self, state: Any) -> Any:
        """What is recorded, and the state."""
        return None if self.alone else self.system.record(state), state

    def rate(self, state: Any, velocity: Any) -> Any:
        """Of both."""
        return None if self.alone else self.system.rate(state, velocity), velocity


class Quartic(diffrax.AbstractLocalInterpolation):
    """What is drawn within one step; the slopes are those in units of the step."""

    t0: Any  # type: ignore[misc]  # abstract there
    t1: Any  # type: ignore[misc]
    start: Any
    middle: Any
    end: Any
    start_slope: Any
    end_slope: Any

    def evaluate(self, t0: Any, t1: Any = None, left: bool = True) -> Any:
        """The value at a time, or what is added from one time to another."""
        if t1 is not None:
            return jax.tree.map(lambda a, b: b - a, self.evaluate(t0), self.evaluate(t1))
        weights = quartic_weights((t0 - self.t0) / (self.t1 - self.t0))
        parts = (self.start, self.middle, self.end, self.start_slope, self.end_slope)
        return jax.tree.map(lambda *leaves: sum(w * leaf for w, leaf in zip(weights, leaves, strict=True)), *parts)


class Autonomous(diffrax.AbstractAdaptiveSolver[Any]):
    """A solver of equations that do not depend on time, whose steps are drawn as quartics."""

    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = Quartic

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        """The velocity."""
        return terms.vf(t0, y0, args)


def norm(state: Any) -> jax.Array:
    """The root of the sum of all squares, in the precision of the state."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(state)))


def quartic_weights(x: Any) -> tuple[Any, ...]:
    """Weights of start, middle, end and the two slopes at a fraction of the step."""
    bump = 16 * x**2 * (1 - x) ** 2
    start, end = (1 + 2 * x) * (1 - x) ** 2, x**2 * (3 - 2 * x)
    return start - bump / 2, bump, end - bump / 2, x * (1 - x) ** 2 - bump / 8, -(x**2) * (1 - x) + bump / 8


def steps_between(times: np.ndarray, learning_rate: float) -> np.ndarray:
    """The steps of descent that each of some increasing times is after the one before it."""
    return np.diff(np.rint(times / learning_rate).astype(int), prepend=0)


def descend(system: System, start: Any, learning_rate: float, counts: np.ndarray) -> tuple[Any, Any]:
    """Take counts[i] steps before the i-th record: the last state, and the records."""
    if counts.sum() <= AT_ONCE:
        return _descended(system, start, learning_rate, counts)
    state, records = start, []
    done, wait = 0, LongWait("descent", "a larger learning_rate, an earlier end, or dynamics='flow'")
    for count in counts:
        for first in range(0, max(int(count), 1), AT_ONCE):
            part = min(AT_ONCE, int(count) - first)
            state, record = _descended(system, state, learning_rate, np.asarray([part]))
            done += part
            wait.look(done, float(counts.sum()))
        records.append(record)
    return state, jax.tree.map(lambda *leaves: np.concatenate(leaves), *records)


def _descended(system: System, start: Any, learning_rate: float, counts: np.ndarray) -> tuple[Any, Any]:
    """The same in one call, of a program that has room for more records: neither their number nor the rate is in it."""
    number = len(counts)
    planned = np.append(counts, np.zeros(shared_room(number) - number, counts.dtype))
    state, records = _descend(system, start, np.asarray(learning_rate), planned, np.asarray(number))
    return state, jax.tree.map(lambda leaf: np.asarray(leaf)[:number], records)


@compiled
def _descend(system: System, start: Any, learning_rate: Any, counts: Any, number: Any) -> tuple[Any, Any]:
    def one_step(_: Any, state: Any) -> Any:
        return jax.tree.map(lambda w, v: w + learning_rate * v, state, system.velocity(state))

    def to_record(i: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        state, records = carry
        state = jax.lax.fori_loop(0, counts[i], one_step, state)
        return state, jax.tree.map(lambda leaf, found: leaf.at[i].set(found), records, system.record(state))

    space = jax.eval_shape(system.record, start)
    records = jax.tree.map(lambda leaf: jnp.zeros((len(counts), *leaf.shape), leaf.dtype), space)
    found: tuple[Any, Any] = jax.lax.fori_loop(0, number, to_record, (start, records))
    return found
