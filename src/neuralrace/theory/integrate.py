"""Adaptive integration with diffrax's solvers and an error control that is relative for every mode.

A learning curve starts at weights that may be 1e-12 and stays on plateaus where one mode is learned and the next still
tiny. So the error of each mode is measured against that mode alone. Where the step is held down by stability
and not by accuracy (a long plateau), an implicit solver takes over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax
import numpy as np

from neuralrace.errors import RangeError

CHUNK = 64  # steps per compiled call
STIFF_STEPS = 4000  # an explicit solver with more steps than this still to go hands over to the implicit one
RECORDED = ("value", "rate", "records")
DENSE_UNKNOWNS = 400  # above this many the implicit equations are solved without forming a matrix


class System(Protocol):
    """An autonomous differential equation with its own measure of error; an equinox module."""

    def velocity(self, state: Any) -> Any:
        """The right-hand side."""

    def error(self, error: Any, before: Any, after: Any) -> jax.Array:
        """The largest relative error over the modes."""

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
    starts, ends, records = [np.zeros(1)], [np.zeros(1)], [_standing(system.record(state))]
    time, step, taken, solver = 0.0, _first_step(system, state, end), 0, explicit_solver()
    while time < end:
        chunk = _advance(
            system, solver, state, jnp.asarray(time), jnp.asarray(step), jnp.asarray(end), jnp.asarray(rtol)
        )
        count = int(chunk["count"])
        if bool(chunk["failed"]):
            raise RangeError(
                f"the integration needs a step below {float(chunk['step']):.2g} at time {float(chunk['time']):.6g}: the "
                f"tolerance rtol={rtol:.2g} is too tight for double precision; raise it"
            )
        starts.append(np.asarray(chunk["starts"])[:count])
        ends.append(np.asarray(chunk["ends"])[:count])
        records.append(jax.tree.map(lambda leaf, n=count: np.asarray(leaf)[:n], chunk["records"]))
        time, step, state = float(chunk["time"]), float(chunk["step"]), chunk["state"]
        taken += count
        if time < end and taken >= max_steps:
            raise RangeError(
                f"the integration to time {end:.6g} took {taken} steps and is at {time:.6g}: raise max_steps above "
                f"{max_steps}, raise rtol above {rtol:.2g}, or ask for an earlier end"
            )
        if stop is not None and stop(time, state):
            break
        if isinstance(solver, diffrax.Tsit5) and (end - time) / step > STIFF_STEPS:
            solver = implicit_solver(sum(leaf.size for leaf in jax.tree.leaves(state)), rtol)
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *records)
    return Curve(np.concatenate(starts), np.concatenate(ends), joined, state)


def explicit_solver() -> diffrax.AbstractSolver:
    """The solver of choice: fifth order, seven stages, the last being the next step's first."""
    return diffrax.Tsit5()


def implicit_solver(unknowns: int, rtol: float) -> diffrax.AbstractSolver:
    """The solver for long plateaus; matrix-free where there are many unknowns."""
    tight = min(1e-2 * rtol, 1e-8)
    linear: Any = lineax.AutoLinearSolver(well_posed=None)
    if unknowns > DENSE_UNKNOWNS:
        linear = lineax.GMRES(rtol=tight, atol=1e-30, restart=30, stagnation_iters=60)
    return diffrax.Kvaerno5(root_finder=diffrax.VeryChord(rtol=tight, atol=1e-30, linear_solver=linear))


def _first_step(system: System, state: Any, end: float) -> float:
    leaves = zip(jax.tree.leaves(state), jax.tree.leaves(system.velocity(state)), strict=True)
    ratios = [
        float(jnp.max(jnp.abs(y))) / max(float(jnp.max(jnp.abs(v))), 1e-300) for y, v in leaves if y.size
    ]
    guess = 1e-2 * min((ratio for ratio in ratios if ratio > 0), default=end)
    return min(guess, end) if end > 0 else 1.0


@eqx.filter_jit
def _advance(
    system: Any, solver: Any, state: Any, time: jax.Array, step: jax.Array, end: jax.Array, rtol: jax.Array
) -> dict[str, Any]:
    """Take up to CHUNK accepted steps."""
    term = diffrax.ODETerm(lambda t, y, args: system.velocity(y))
    order = solver.order(term)
    memory = solver.init(term, time, time + step, state, None)
    value, rate = system.record(state), system.rate(state, system.velocity(state))
    carry = {
        "state": state,
        "memory": memory,
        "time": time,
        "step": step,
        "count": jnp.asarray(0),
        "failed": jnp.asarray(False),
        "starts": jnp.zeros(CHUNK),
        "ends": jnp.zeros(CHUNK),
        "value": value,
        "rate": rate,
        "records": jax.tree.map(lambda leaf: jnp.zeros((CHUNK, 5, *leaf.shape)), value),
    }

    def unfinished(carry: dict[str, Any]) -> jax.Array:
        return (carry["count"] < CHUNK) & (carry["time"] < end) & ~carry["failed"]

    def attempt(carry: dict[str, Any]) -> dict[str, Any]:
        start = carry["time"]
        last = start + carry["step"] >= end * (1 - 1e-14)
        stop = jnp.where(last, end, start + carry["step"])
        after, error, dense, memory, result = solver.step(
            term, start, stop, carry["state"], None, carry["memory"], made_jump=False
        )
        size = system.error(error, carry["state"], after) / rtol
        size = jnp.where(jnp.isfinite(size) & (result == diffrax.RESULTS.successful), size, jnp.inf)
        accepted = size <= 1.0
        grown = (stop - start) * jnp.clip(0.9 * size ** (-1.0 / order), 0.2, 5.0)
        taken = carry | {
            "state": after,
            "memory": memory,
            "time": stop,
            "count": carry["count"] + 1,
            "starts": carry["starts"].at[carry["count"]].set(start),
            "ends": carry["ends"].at[carry["count"]].set(stop),
        }
        chosen = jax.tree.map(lambda yes, no: jnp.where(accepted, yes, no), taken, carry)
        curve = solver.interpolation_cls(t0=start, t1=stop, **dense)
        written = jax.lax.cond(
            accepted, lambda: _recorded(system, curve, dense, carry), lambda: {k: carry[k] for k in RECORDED}
        )
        chosen |= written
        # a last step that was cut short says nothing about the next one
        chosen["step"] = jnp.where(accepted & last, jnp.maximum(carry["step"], grown), grown)
        chosen["failed"] = ~accepted & (stop - start <= 1e-14 * jnp.maximum(stop, 1e-280))
        return chosen

    finished = jax.lax.while_loop(unfinished, attempt, carry)
    return {name: value for name, value in finished.items() if name != "memory"}


def _recorded(system: Any, curve: Any, dense: dict[str, Any], carry: dict[str, Any]) -> dict[str, Any]:
    """Write the record of an accepted step into the buffers."""
    width = curve.t1 - curve.t0
    after = dense["y1"]
    final = jax.tree.map(
        lambda k: k[-1] / width, dense["k"]
    )  # the velocity at the end: the last stage is there
    value, rate = system.record(after), system.rate(after, final)
    middle = system.record(curve.evaluate(curve.t0 + 0.5 * width))
    parts = jax.tree.map(
        lambda f0, fm, f1, d0, d1: jnp.stack([f0, fm, f1, width * d0, width * d1]),
        *(carry["value"], middle, value, carry["rate"], rate),
    )
    records = jax.tree.map(lambda buffer, new: buffer.at[carry["count"]].set(new), carry["records"], parts)
    return {"value": value, "rate": rate, "records": records}


def _standing(value: Any) -> Any:
    """The record of a step of no length."""
    return jax.tree.map(
        lambda leaf: np.stack([np.asarray(leaf)] * 3 + [0.0 * np.asarray(leaf)] * 2)[None], value
    )


def _quartic(x: np.ndarray) -> np.ndarray:
    """Weights of (start, middle, end, slope at start, slope at end) in the quartic that has them; (times, 5)."""
    bump = 16 * x**2 * (1 - x) ** 2
    start, end = (1 + 2 * x) * (1 - x) ** 2, x**2 * (3 - 2 * x)
    return np.stack(
        [start - bump / 2, bump, end - bump / 2, x * (1 - x) ** 2 - bump / 8, -(x**2) * (1 - x) + bump / 8],
        axis=1,
    )
