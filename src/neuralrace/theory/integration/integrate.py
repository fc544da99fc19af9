"""Adaptive integration by diffrax with an error that is relative for every mode.

A learning curve starts at weights that may be 1e-12 and stays on plateaus where one mode is learned and the next still
tiny. So the error of each mode is measured against that mode alone. Where stability and not accuracy limits the step,
the solver changes its method; on the longest plateaus of small systems an implicit solver takes over.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from neuralrace._engine.devices import compiled
from neuralrace.axes import Array
from neuralrace.errors import RangeError
from neuralrace.theory.integration.descent import descend, steps_between
from neuralrace.theory.integration.solvers import ModewiseController, ModewiseKvaerno5, StabilizedTsit5
from neuralrace.theory.integration.system import System, velocity_of

STEPS = 256  # at most in one compiled call, between which an integration can be interrupted
KEPT_UNKNOWNS = 30_000  # up to this many the state is kept at every step where states are requested


@dataclass(frozen=True, eq=False)
class Curve:
    """The record and the state, or None in its place, as polynomials of degree four in each step.

    times: of the ends of the steps, the start among them. records, rates: pairs, leaves (steps + 1, ...). middles: half
    way, leaves (steps, ...).
    """

    times: np.ndarray
    records: Any
    rates: Any
    middles: Any
    last: Any  # the state at the end

    def at(self, times: ArrayLike, *, states: bool = False) -> Any:
        """The record at increasing times, or the state; leaves (times, ...)."""
        times = np.asarray(times, dtype=np.float64)
        step = np.clip(np.searchsorted(self.times[1:], times, side="left"), 0, max(len(self.times) - 2, 0))
        width = np.diff(self.times, append=self.times[-1])[step]
        x = np.clip(np.divide(times - self.times[step], width, out=np.zeros(len(times)), where=width > 0), 0.0, 1.0)
        bump = 16 * x**2 * (1 - x) ** 2
        slopes = x * (1 - x) ** 2 - bump / 8, -(x**2) * (1 - x) + bump / 8
        ends = (1 + 2 * x) * (1 - x) ** 2 - bump / 2, x**2 * (3 - 2 * x) - bump / 2
        weights = np.stack([ends[0], bump, ends[1], width * slopes[0], width * slopes[1]], axis=1)
        used, first = np.unique(step, return_index=True)  # the steps that hold times, and the first time in each
        bounds = np.append(first, len(times))

        def drawn(records: np.ndarray, rates: np.ndarray, middles: np.ndarray) -> np.ndarray:
            parts = np.stack([records[used], middles[used], records[used + 1], rates[used], rates[used + 1]], axis=1)
            parts, found = parts.reshape(len(used), 5, records[0].size), np.empty((len(times), records[0].size))
            for part, inside in zip(parts, map(slice, bounds[:-1], bounds[1:]), strict=True):
                np.matmul(weights[inside], part, out=found[inside])
            return found.reshape(len(times), *records.shape[1:])

        return jax.tree.map(drawn, self.records[states], self.rates[states], self.middles[states])


def integrate(
    system: System,
    state: Any,
    end: float,
    *,
    rtol: float,
    max_steps: int,
    states: bool = False,
) -> Curve:
    """Integrate from time zero to `end`; states: record the state as well."""
    # few implicit steps cross a plateau, and their errors all shift the time at which it ends: they are stricter
    state, accuracies = jax.device_put(state), (np.array(float(rtol)), np.array(0.01 * rtol))
    solvers = StabilizedTsit5(system, states), ModewiseKvaerno5(system, states, accuracies[1])
    small = sum(leaf.size for leaf in jax.tree.leaves(state)) <= 1000  # of more the Jacobian is too large
    known, width, record, rate = _started(solvers[0], state)
    control = np.ones(()), np.ones(()), np.array(False), width
    goal, time, implicit, radius = np.array(float(end)), np.zeros(()), False, 0.0
    still = jax.tree.map(lambda value, slope: np.stack([value, value, slope])[None], record, rate)
    times, parts, taken = [np.zeros(1)], [still], 0
    while time < end:
        solver, accuracy = solvers[implicit], accuracies[implicit]
        state, known, control, *found = _advance(solver, accuracy, state, known, control, time, goal)
        ends, part, count, failed, width = jax.device_get((*found, control[-1]))
        times.append(ends[:count])
        parts.append(jax.tree.map(lambda leaf, count=count: leaf[:count], part))
        time, taken = np.asarray(np.concatenate([[time], ends])[count]), taken + int(count)
        if failed:
            raise RangeError(
                f"the integration needs a step below {width:.2g} at time {time:.6g}: rtol={rtol:.2g} is too tight for "
                f"double precision, or the velocity overflows; raise rtol, start from smaller weights, or take "
                f"steps, dynamics='descent' with a small learning_rate"
            )
        if time < end and taken >= max_steps:
            raise RangeError(
                f"the integration to time {end:.6g} took {taken} steps and is at {time:.6g}: raise max_steps above "
                f"{max_steps}, raise rtol above {rtol:.2g}, or ask for an earlier end"
            )
        if small and (end - time) / width > 2000:  # on a long plateau the implicit solver takes over, until its end
            radius = radius if implicit else float(known.radius)
            if width * radius < 60 if implicit else width * radius > 100:
                implicit = not implicit
                known = _started(solvers[implicit], state)[0]
    if not taken:
        times, parts = [np.zeros(2)], [still, still]
    steps = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    records, rates, middles = (jax.tree.map(lambda leaf, i=i: leaf[:, i], steps) for i in (1, 2, 0))
    return Curve(np.concatenate(times), records, rates, jax.tree.map(lambda leaf: leaf[1:], middles), state)


@compiled
def _started(solver: StabilizedTsit5, state: Any) -> tuple[Any, jax.Array, Any, Any]:
    """Return the solver's state, the width of the first step, the first record and its rate."""
    system, known, velocity = solver.system, solver.init(None, 0.0, 1.0, state, None), velocity_of(solver.system, state)
    pace = jnp.zeros(())
    for size, speed in zip(jax.tree.leaves(state), jax.tree.leaves(velocity), strict=True):
        size, speed = (jnp.max(jnp.abs(leaf), initial=0.0) for leaf in (size, speed))
        pace = jnp.maximum(pace, jnp.where(size > 0, speed / jnp.where(size > 0, size, 1.0), 0.0))
    # a hundredth of the time in which the state changes by its own size
    width = jnp.where((pace > 0) & jnp.isfinite(pace), 1e-2 / pace, 1.0)
    record, rate = system.record(state), system.rate(state, velocity)
    first, slope = (state, velocity) if solver.states else (None, None)
    return known, width, (record, first), (rate, slope)


@compiled
def _advance(
    solver: StabilizedTsit5, rtol: Array, state: Any, known: Any, control: Any, time: Array, end: Array
) -> tuple[Any, ...]:
    """Take some steps: the states at their end, their times and parts, how many, and whether one became too small."""
    record = jax.eval_shape(solver.system.record, state)
    size = sum(leaf.size for leaf in jax.tree.leaves((record, state if solver.states else None)))
    solution = diffrax.diffeqsolve(
        solver.term(),
        solver,
        time,
        end,
        None,
        state,
        saveat=diffrax.SaveAt(t1=True, dense=True, solver_state=True, controller_state=True),
        stepsize_controller=ModewiseController(
            rtol=rtol,
            atol=1.0,
            pcoeff=0.3,
            icoeff=0.7,
            dtmin=1e-14 * time + 1e-290,
            force_dtmin=False,
            system=solver.system,
            first=control[-1],
        ),
        adjoint=diffrax.ForwardMode(),
        # diffrax copies the records of a call in each step
        max_steps=min(max(math.isqrt(1_500_000 // (3 * size)), 8), STEPS),
        throw=False,
        solver_state=known,
        controller_state=control,
    )
    drawn, last = solution.interpolation, jax.tree.map(lambda leaf: leaf[-1], solution.ys)
    failed = solution.result == diffrax.RESULTS.dt_min_reached
    return (
        *(last, solution.solver_state, solution.controller_state),
        *(drawn.ts[1:], drawn.infos["parts"], drawn.ts_size - 1, failed),
    )


@dataclass(frozen=True, eq=False)
class Solution:
    """A system from its start, to any times: its record and its states, integrated as far as needed.

    always: up to this many unknowns the states are kept from the first; others are integrated once more when states are
    requested, and the largest from one time to the next. descent: step size, for gradient descent instead of the flow.
    """

    system: System
    start: Any
    rtol: float
    max_steps: int
    always: int = 1000
    descent: float | None = None
    _known: dict[bool, Curve] = field(default_factory=dict, repr=False)  # with states, or without

    def at(self, times: np.ndarray) -> Any:
        """The record at increasing times; leaves (times, ...)."""
        if self.descent is not None:
            return descend(self.system, self.start, self.descent, steps_between(times, self.descent))[1]
        return self.curve(float(times[-1]) if len(times) else 0.0).at(times)

    def curve(self, end: float, states: bool = False) -> Curve:
        """The curve from zero to `end`; reused if it is known far enough."""
        states = states or self.keeps
        if states not in self._known or self._known[states].times[-1] < end:
            self._known[states] = integrate(
                self.system, self.start, end, rtol=self.rtol, max_steps=self.max_steps, states=states
            )
        return self._known[states]

    def states(self, times: np.ndarray) -> Iterator[Any]:
        """The states at increasing times, one after the other."""
        state, before = self.start, 0.0
        if not len(times) or times[-1] == 0:
            yield from (state for _ in times)
        elif self.descent is not None:
            for count in steps_between(times, self.descent):
                state, _ = descend(self.system, state, self.descent, np.array([count]))
                yield state
        elif self._unknowns <= KEPT_UNKNOWNS:
            curve = self.curve(float(times[-1]), states=True)
            for batch in np.array_split(times, len(times) // 256 + 1):
                found = curve.at(batch, states=True)
                yield from (jax.tree.map(lambda leaf, i=i: leaf[i], found) for i in range(len(batch)))
        else:
            for time in map(float, times):
                if time > before:
                    state = replace(self, start=state, _known={}).curve(time - before).last
                    before = time
                yield state

    @property
    def keeps(self) -> bool:
        """Whether the states are kept from the first."""
        return self._unknowns <= self.always

    @property
    def _unknowns(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.start))
