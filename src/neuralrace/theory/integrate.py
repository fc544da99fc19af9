"""Adaptive integration with diffrax's solvers and an error control that is relative for every mode.

A learning curve starts at weights that may be 1e-12 and stays on plateaus where one mode is learned and the next still
tiny. So the error of each mode is measured against that mode alone. Where the step is held down by stability
and not by accuracy (a long plateau), an implicit solver takes over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import RangeError
from neuralrace.theory.solvers import Explicit, Rodas, Step

CHUNK = 32  # steps per compiled call
STIFF_STEPS = 20_000  # an explicit solver with more steps than this still to go hands over to the implicit one
RETURNED = ("state", "time", "step", "count", "failed", "starts", "ends", "records")
DENSE_UNKNOWNS = 1000  # above this many the explicit solver goes on alone


class System(Protocol):
    """An autonomous differential equation with its own measure of error; an equinox module.

    unrolled: whether the velocity is so small a program that a step may hold several copies of it.
    """

    unrolled: ClassVar[bool]

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
        """The record at given times; leaves (times, ...)."""
        step = np.clip(np.searchsorted(self.ends, times, side="left"), 0, len(self.ends) - 1)
        width = self.ends[step] - self.starts[step]
        fraction = np.divide(times - self.starts[step], width, out=np.zeros(len(times)), where=width > 0)
        basis = _quartic(np.clip(fraction, 0.0, 1.0))  # (times, 5)
        return jax.tree.map(lambda leaf: np.einsum("tk,tk...->t...", basis, leaf[step]), self.records)


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
    stiff = False
    small = sum(leaf.size for leaf in jax.tree.leaves(state)) <= DENSE_UNKNOWNS
    starts, ends, records = [np.zeros(1)], [np.zeros(1)], [_standing(_first_record(system, state))]
    solver: Explicit | Rodas = Explicit(system.unrolled)
    time, step, taken = 0.0, 0.0, 0  # a step of zero stands for one not yet known
    while time < end:
        moment = (jnp.asarray(time), jnp.asarray(step), jnp.asarray(end), jnp.asarray(rtol))
        part = _advance(system, solver, state, *moment)
        count = int(part["count"])
        if bool(part["failed"]):
            raise RangeError(
                f"the integration needs a step below {float(part['step']):.2g} at time {float(part['time']):.6g}: the "
                f"tolerance rtol={rtol:.2g} is too tight for double precision; raise it"
            )
        starts.append(np.asarray(part["starts"])[:count])
        ends.append(np.asarray(part["ends"])[:count])
        records.append(jax.tree.map(lambda leaf, n=count: np.asarray(leaf)[:n], part["records"]))
        time, step, state = float(part["time"]), float(part["step"]), part["state"]
        taken += count
        if time < end and taken >= max_steps:
            raise RangeError(
                f"the integration to time {end:.6g} took {taken} steps and is at {time:.6g}: raise max_steps above "
                f"{max_steps}, raise rtol above {rtol:.2g}, or ask for an earlier end"
            )
        if stop is not None and stop(time, state):
            break
        if not stiff and small and taken >= 8 * CHUNK and (end - time) / step > STIFF_STEPS:
            solver, stiff = Rodas(), True
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *records)
    return Curve(np.concatenate(starts), np.concatenate(ends), joined, state)


@eqx.filter_jit
def _first_record(system: Any, state: Any) -> Any:
    return system.record(state)


def _first_step(state: Any, velocity: Any, end: jax.Array) -> jax.Array:
    """A hundredth of the time in which the slowest part would grow by its own size."""
    guess = jnp.asarray(end)
    for y, v in zip(jax.tree.leaves(state), jax.tree.leaves(velocity), strict=True):
        size, speed = jnp.max(jnp.abs(y), initial=0.0), jnp.max(jnp.abs(v), initial=0.0)
        moving = (size > 0) & (speed > 0)
        guess = jnp.where(moving, jnp.minimum(guess, 1e-2 * size / jnp.where(moving, speed, 1.0)), guess)
    return guess


@eqx.filter_jit
def _advance(
    system: Any,
    solver: Any,
    state: Any,
    time: jax.Array,
    step: jax.Array,
    end: jax.Array,
    rtol: jax.Array,
) -> dict[str, Any]:
    """Take up to CHUNK accepted steps."""
    carry = _opening(system, state, time, step, end)

    def unfinished(carry: dict[str, Any]) -> jax.Array:
        return (carry["count"] < CHUNK) & (carry["time"] < end) & ~carry["failed"]

    def attempt(carry: dict[str, Any]) -> dict[str, Any]:
        start = carry["time"]
        last = start + carry["step"] >= end * (1 - 1e-14)
        stop = jnp.where(last, end, start + carry["step"])
        tried = solver.step(system.velocity, carry["state"], carry["velocity"], stop - start)
        size = system.error(tried.error, carry["state"], tried.after, rtol)
        size = jnp.where(jnp.isfinite(size), size, jnp.inf)
        accepted = size <= 1.0
        grown = (stop - start) * jnp.clip(0.9 * size ** (-1.0 / solver.order), 0.2, 5.0)
        chosen = jax.lax.cond(accepted, lambda: _taken(system, carry, tried, stop), lambda: carry)
        # a last step that was cut short says nothing about the next one
        step = jnp.where(accepted & last, jnp.maximum(carry["step"], grown), grown)
        failed = ~accepted & (stop - start <= 1e-14 * jnp.maximum(stop, 1e-280))
        return chosen | {"step": step, "failed": failed}

    finished = jax.lax.while_loop(unfinished, attempt, carry)
    return {name: finished[name] for name in RETURNED}


def _opening(system: Any, state: Any, time: jax.Array, step: jax.Array, end: jax.Array) -> dict[str, Any]:
    """What is carried from step to step, with empty buffers."""
    velocity = system.velocity(state)
    value, rate = system.record(state), system.rate(state, velocity)
    return {
        "state": state,
        "velocity": velocity,
        "time": time,
        "step": jnp.where(step > 0, step, _first_step(state, velocity, end)),
        "count": jnp.asarray(0),
        "failed": jnp.asarray(False),
        "starts": jnp.zeros(CHUNK),
        "ends": jnp.zeros(CHUNK),
        "value": value,
        "rate": rate,
        "records": jax.tree.map(lambda leaf: jnp.zeros((CHUNK, 5, *leaf.shape)), value),
    }


def _taken(system: Any, carry: dict[str, Any], step: Step, stop: jax.Array) -> dict[str, Any]:
    """The carry after an accepted step, its record written into the buffers."""
    count, width = carry["count"], stop - carry["time"]
    value, rate = system.record(step.after), system.rate(step.after, step.velocity)
    parts = jax.tree.map(
        lambda f0, fm, f1, d0, d1: jnp.stack([f0, fm, f1, width * d0, width * d1]),
        *(carry["value"], system.record(step.middle), value, carry["rate"], rate),
    )
    return carry | {
        "state": step.after,
        "velocity": step.velocity,
        "time": stop,
        "count": count + 1,
        "starts": carry["starts"].at[count].set(carry["time"]),
        "ends": carry["ends"].at[count].set(stop),
        "value": value,
        "rate": rate,
        "records": jax.tree.map(lambda buffer, new: buffer.at[count].set(new), carry["records"], parts),
    }


def _standing(value: Any) -> Any:
    """The record of a step of no length."""
    return jax.tree.map(lambda leaf: np.stack([np.asarray(leaf)] * 3 + [0.0 * np.asarray(leaf)] * 2)[None], value)


def _quartic(x: np.ndarray) -> np.ndarray:
    """Weights of (start, middle, end, slope at start, slope at end) in the quartic that has them; (times, 5)."""
    bump = 16 * x**2 * (1 - x) ** 2
    start, end = (1 + 2 * x) * (1 - x) ** 2, x**2 * (3 - 2 * x)
    return np.stack(
        [start - bump / 2, bump, end - bump / 2, x * (1 - x) ** 2 - bump / 8, -(x**2) * (1 - x) + bump / 8],
        axis=1,
    )
