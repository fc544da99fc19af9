"""Adaptive integration with diffrax's solvers and an error control that is relative for every mode.

A learning curve starts at weights that may be 1e-12 and stays on plateaus where one mode is learned and the next still
tiny. So the error of each mode is measured against that mode alone. Where stability and not accuracy holds down the
step, the explicit solver changes its method; on the longest plateaus of small systems an implicit solver takes over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import RangeError
from neuralrace.theory.integration.solvers import Explicit, Rodas, Step, Stiffness

CHUNK, LONGEST_CHUNK = 32, 256  # fewest and most steps per compiled call
BUFFER = 2**20  # numbers recorded in one, if more than the fewest steps
STIFF_STEPS = 2000  # a stabilised method with more steps than this still to go hands over to the implicit solver
RETURNED = ("state", "time", "step", "memory", "count", "failed", "starts", "ends", "records")
DENSE_UNKNOWNS = 1000  # above this many the explicit solver goes on alone


class System(Protocol):
    """An autonomous differential equation with its own measure of error; an equinox module."""

    def velocity(self, state: Any) -> Any:
        """The right-hand side."""

    def error(self, error: Any, before: Any, after: Any, rtol: jax.Array) -> jax.Array:
        """The largest error over the modes as a multiple of what is allowed."""

    def record(self, state: Any) -> Any:
        """What is kept of a state."""

    def rate(self, state: Any, velocity: Any) -> Any:
        """The derivative in time of what is kept."""


@dataclass(frozen=True, eq=False)
class Curve:
    """What was recorded, as a polynomial of degree four in each step."""

    starts: np.ndarray  # (steps,)
    ends: np.ndarray
    records: Any  # leaves (steps, 5, ...): start, middle, end, and the slopes at start and end times the step
    last: Any  # the state at the end

    def at(self, times: np.ndarray) -> Any:
        """The record at increasing times; leaves (times, ...)."""
        step = np.clip(np.searchsorted(self.ends, times, side="left"), 0, len(self.ends) - 1)
        width = self.ends[step] - self.starts[step]
        fraction = np.divide(times - self.starts[step], width, out=np.zeros(len(times)), where=width > 0)
        basis = _quartic(np.clip(fraction, 0.0, 1.0))  # (times, 5)
        here, first = np.unique(step, return_index=True)
        slices = [slice(*ends) for ends in pairwise([*first, len(times)])]

        def drawn(leaf: np.ndarray) -> np.ndarray:
            rows, found = leaf.reshape(len(leaf), 5, -1), np.empty((len(times), leaf[0, 0].size))
            for i, inside in zip(here, slices, strict=True):
                np.matmul(basis[inside], rows[i], out=found[inside])
            return found.reshape(len(times), *leaf.shape[2:])

        return jax.tree.map(drawn, self.records)


def integrate(
    system: System,
    state: Any,
    end: float,
    *,
    rtol: float,
    max_steps: int,
    stop: Callable[[float, Any], bool] | None = None,
) -> Curve:
    """Integrate from time zero to `end`, or until `stop(time, state)` says so after some chunk of steps."""
    small = sum(leaf.size for leaf in jax.tree.leaves(state)) <= DENSE_UNKNOWNS
    starts: list[np.ndarray] = []
    ends: list[np.ndarray] = []
    records: list[Any] = []
    solver: Explicit | Rodas = Explicit()
    memory: Stiffness | None = solver.begin(state)
    time, step, taken = 0.0, 0.0, 0  # a step of zero stands for one not yet known
    while time < end or not starts:
        moment = Moment(*(np.array(value, dtype=np.float64) for value in (time, step, end, rtol)))
        part = _advance(system, solver, state, memory, moment, stop is None)
        state, memory = part.pop("state"), part.pop("memory")
        part = jax.device_get(part)
        time, step, count = float(part["time"]), float(part["step"]), int(part["count"])
        if part["failed"]:
            raise RangeError(
                f"the integration needs a step below {step:.2g} at time {time:.6g}: the "
                f"tolerance rtol={rtol:.2g} is too tight for double precision; raise it"
            )
        kept = slice(max(count, 1))  # with no time to go there is no step, but a record
        starts.append(part["starts"][kept])
        ends.append(part["ends"][kept])
        records.append(jax.tree.map(lambda leaf, n=kept: leaf[n], part["records"]))
        taken += count
        if time < end and taken >= max_steps:
            raise RangeError(
                f"the integration to time {end:.6g} took {taken} steps and is at {time:.6g}: raise max_steps above "
                f"{max_steps}, raise rtol above {rtol:.2g}, or ask for an earlier end"
            )
        if stop is not None and stop(time, state):
            break
        if small and memory is not None and memory.stabilised and (end - time) / step > STIFF_STEPS:
            solver, memory = Rodas(), None
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *records)
    return Curve(np.concatenate(starts), np.concatenate(ends), joined, state)


def _first_step(state: Any, velocity: Any, end: jax.Array | np.ndarray) -> jax.Array:
    """A hundredth of the time in which the slowest part would grow by its own size."""
    guess = jnp.asarray(end)
    for y, v in zip(jax.tree.leaves(state), jax.tree.leaves(velocity), strict=True):
        size, speed = jnp.max(jnp.abs(y), initial=0.0), jnp.max(jnp.abs(v), initial=0.0)
        moving = (size > 0) & (speed > 0)
        guess = jnp.where(moving, jnp.minimum(guess, 1e-2 * size / jnp.where(moving, speed, 1.0)), guess)
    return guess


class Moment(NamedTuple):
    """Where a compiled call starts, and how far and how accurately it goes."""

    time: jax.Array | np.ndarray
    step: jax.Array | np.ndarray
    end: jax.Array | np.ndarray
    rtol: jax.Array | np.ndarray


class Before(NamedTuple):
    """The accepted step before: its width and its error."""

    width: jax.Array
    size: jax.Array


@eqx.filter_jit
def _advance(
    system: Any,
    solver: Any,
    state: Any,
    memory: Any,
    moment: Moment,
    whole: bool,
) -> dict[str, Any]:
    """Take some accepted steps; whole: many, because nobody looks in between."""
    carry = _opening(system, state, memory, moment, whole)
    end, rtol = moment.end, moment.rtol

    def unfinished(carry: dict[str, Any]) -> jax.Array:
        return (carry["count"] < len(carry["starts"])) & (carry["time"] < end) & ~carry["failed"]

    def attempt(carry: dict[str, Any]) -> dict[str, Any]:
        start = carry["time"]
        last = start + carry["step"] >= end * (1 - 1e-14)
        stop = jnp.where(last, end, start + carry["step"])
        width, before = stop - start, carry["before"]
        tried = solver.step(system.velocity, carry["state"], carry["velocity"], width, carry["memory"])
        size = system.error(tried.error, carry["state"], tried.after, rtol)
        size = jnp.where(jnp.isfinite(size), jnp.maximum(size, 1e-10), jnp.inf)
        accepted = size <= 1.0
        factor = 0.9 * size ** (-1.0 / tried.order)
        # where errors grow from step to step the next one is cut before it fails (Gustafsson)
        trend = width / before.width * (before.size / size) ** (1.0 / tried.order)
        factor = jnp.where(accepted, factor * jnp.minimum(trend, 1.0), factor)
        grown = width * jnp.clip(factor, 0.2, 5.0)
        # a last step that was cut short says nothing about the next one
        wish = jnp.where(accepted & last, jnp.maximum(carry["step"], grown), grown)
        step, memory = solver.choose(wish, tried.memory)
        failed = ~accepted & (width <= 1e-14 * jnp.maximum(stop, 1e-280))
        new = _taken(system, carry, tried, stop) | {"before": Before(width, size)}
        kept = {name: carry[name] for name in new}
        chosen = jax.tree.map(lambda there, here: jnp.where(accepted, there, here), new, kept)
        buffers = _written(carry, system.record(tried.middle), new, stop)
        return carry | chosen | buffers | {"step": step, "memory": memory, "failed": failed}

    finished = jax.lax.while_loop(unfinished, attempt, carry)
    return {name: finished[name] for name in RETURNED}


def _opening(system: Any, state: Any, memory: Any, moment: Moment, whole: bool) -> dict[str, Any]:
    """What is carried from step to step, with buffers that hold a step of no length."""
    velocity = system.velocity(state)
    value, rate = system.record(state), system.rate(state, velocity)
    kept = 5 * sum(leaf.size for leaf in jax.tree.leaves(value))
    count = min(max(BUFFER // kept, CHUNK), LONGEST_CHUNK) if whole else CHUNK

    def buffer(leaf: jax.Array) -> jax.Array:
        return jnp.zeros((count, 5, *leaf.shape)).at[0, :3].set(leaf)

    return {
        "state": state,
        "velocity": velocity,
        "memory": memory,
        "before": Before(jnp.asarray(1e-300), jnp.ones(())),
        "time": moment.time,
        "step": jnp.where(moment.step > 0, moment.step, _first_step(state, velocity, moment.end)),
        "count": jnp.asarray(0),
        "failed": jnp.asarray(False),
        "starts": jnp.zeros(count),
        "ends": jnp.zeros(count),
        "value": value,
        "rate": rate,
        "records": jax.tree.map(buffer, value),
    }


def _taken(system: Any, carry: dict[str, Any], step: Step, stop: jax.Array) -> dict[str, Any]:
    """What an accepted step changes."""
    return {
        "state": step.after,
        "velocity": step.velocity,
        "time": stop,
        "count": carry["count"] + 1,
        "value": system.record(step.after),
        "rate": system.rate(step.after, step.velocity),
    }


def _written(carry: dict[str, Any], middle: Any, new: dict[str, Any], stop: jax.Array) -> dict[str, Any]:
    """The buffers with a step; one that is not accepted will be written over."""
    count, width = carry["count"], stop - carry["time"]
    parts = jax.tree.map(
        lambda f0, fm, f1, d0, d1: jnp.stack([f0, fm, f1, width * d0, width * d1]),
        *(carry["value"], middle, new["value"], carry["rate"], new["rate"]),
    )
    return {
        "starts": _set(carry["starts"], carry["time"], count),
        "ends": _set(carry["ends"], stop, count),
        "records": jax.tree.map(lambda buffer, part: _set(buffer, part, count), carry["records"], parts),
    }


def _set(buffer: jax.Array, part: jax.Array, i: jax.Array) -> jax.Array:
    return jax.lax.dynamic_update_index_in_dim(buffer, part, i, 0)


def _quartic(x: np.ndarray) -> np.ndarray:
    """Weights of (start, middle, end, slope at start, slope at end) in the quartic that has them; (times, 5)."""
    bump = 16 * x**2 * (1 - x) ** 2
    start, end = (1 + 2 * x) * (1 - x) ** 2, x**2 * (3 - 2 * x)
    return np.stack(
        [start - bump / 2, bump, end - bump / 2, x * (1 - x) ** 2 - bump / 8, -(x**2) * (1 - x) + bump / 8],
        axis=1,
    )
