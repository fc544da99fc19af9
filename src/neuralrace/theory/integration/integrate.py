"""Adaptive integration by diffrax with an error that is relative for every mode.

A learning curve starts at weights that may be 1e-12 and stays on plateaus where one mode is learned and the next still
tiny. So the error of each mode is measured against that mode alone. Where stability and not accuracy holds down the
step, the explicit solver changes its method; on the longest plateaus of small systems an implicit solver takes over.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from neuralrace._engine.devices import compiled
from neuralrace.axes import Array
from neuralrace.errors import RangeError
from neuralrace.theory.integration.controller import UNSEEN, ControllerState, ModewiseController, Recorded
from neuralrace.theory.integration.descent import descend, steps_between
from neuralrace.theory.integration.solvers import ModewiseKvaerno5, SolverState, StabilizedTsit5
from neuralrace.theory.integration.system import System, record_of

PAUSE = 32  # accepted steps after which the caller may stop
KEPT_UNKNOWNS = 30_000  # up to this many the state is kept at every step where states are requested


@dataclass(frozen=True, eq=False)
class Curve:
    """The record as a polynomial of degree four in each step.

    times: of the ends of the steps, the start among them. records, rates: leaves (steps + 1, ...). middles: half way,
    leaves (steps, ...).
    """

    times: np.ndarray
    records: Any
    rates: Any
    middles: Any
    last: Any  # the state at the end

    def at(self, times: ArrayLike) -> Any:
        """The record at increasing times; leaves (times, ...)."""
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

        return jax.tree.map(drawn, self.records, self.rates, self.middles)


class Moment(NamedTuple):
    """Where a compiled call starts or ends."""

    time: Any
    state: Any
    solver_state: Any
    controller_state: ControllerState


def integrate(
    system: System,
    state: Any,
    end: float,
    *,
    rtol: float,
    max_steps: int,
    stop: Callable[[float, Any], bool] | None = None,
    states: bool = False,
) -> Curve:
    """Integrate from time zero to `end`, or until `stop(time, state)` says so after some steps.

    states: record the state as well; records are then pairs.
    """
    state = jax.device_put(state)
    if end <= UNSEEN:
        record = (record_of(system, state), state) if states else record_of(system, state)
        ends = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), record)
        middle = jax.tree.map(lambda leaf: leaf[:1], ends)
        return Curve(np.zeros(2), ends, jax.tree.map(np.zeros_like, ends), middle, state)
    # few implicit steps cross a plateau, and their errors all shift the time at which it ends: they are stricter
    goal, strict = np.array(float(end)), np.array(0.01 * rtol)
    solver = explicit = Recorded(StabilizedTsit5(), system, np.array(float(rtol)), states)
    implicit = Recorded(ModewiseKvaerno5(system, strict), system, strict, states)
    small = sum(leaf.size for leaf in jax.tree.leaves(state)) <= 1000  # of more the Jacobian is too large
    # a first step of almost no length finds velocity and record: a program of their own would have to be compiled
    blank = SolverState(jax.tree.map(np.zeros_like, state), np.array(False), np.zeros(()), state)
    still = ControllerState(np.array(1e-300), np.ones(()), np.array(UNSEEN), np.array(np.inf))
    moment = Moment(np.zeros(()), state, blank, still)
    ends, parts = [], []
    time, taken, looked, radius = 0.0, 0, 0, 0.0
    while time < end:
        pause = np.inf if stop is None else float(looked + PAUSE - taken)
        begun = moment._replace(controller_state=moment.controller_state._replace(left=np.array(pause)))
        moment, times, part, count, failed = _advance(solver, begun, goal)
        times, part, time, step, count, failed = jax.device_get(
            (times, part, moment.time, moment.controller_state.next, count, failed)
        )
        if failed:
            raise RangeError(
                f"the integration needs a step below {step:.2g} at time {time:.6g}: rtol={rtol:.2g} is too tight for "
                f"double precision, or the velocity overflows; raise rtol, or start from smaller weights"
            )
        ends.append(times[:count])
        parts.append(jax.tree.map(lambda leaf, count=count: leaf[:count], part))
        taken += count
        if time < end and taken >= max_steps:
            raise RangeError(
                f"the integration to time {end:.6g} took {taken} steps and is at {time:.6g}: raise max_steps above "
                f"{max_steps}, raise rtol above {rtol:.2g}, or ask for an earlier end"
            )
        if stop is not None and (taken >= looked + PAUSE or time >= end):
            looked = taken
            if stop(float(time), moment.state):
                break
        if small and (end - time) / step > 2000:  # on a long plateau the implicit solver takes over, until its end
            if solver is explicit:
                radius = float(moment.solver_state.radius)
            change = step * radius > 100 if solver is explicit else step * radius < 60
            if change:
                solver = implicit if solver is explicit else explicit
                moment = moment._replace(solver_state=_started(solver, moment.state, goal))
    found = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    # the first step stands still: its end is the start
    records, rates = (jax.tree.map(lambda leaf, i=i: leaf[:, i], found) for i in (1, 2))
    middles = jax.tree.map(lambda leaf: leaf[1:, 0], found)
    return Curve(np.concatenate(ends) * (np.arange(taken) > 0), records, rates, middles, moment.state)


@compiled
def _started(solver: Recorded, state: Any, end: Array) -> Any:
    """The state of a solver that takes over."""
    return solver.init(solver.term(), 0.0, end, state, None)


@compiled
def _advance(solver: Recorded, moment: Moment, end: Array) -> tuple[Moment, jax.Array, Any, jax.Array, jax.Array]:
    """Take some steps; also how many of those that there is room for, and whether the step became too small."""
    record = jax.eval_shape(solver.system.record, moment.state)
    size = sum(leaf.size for leaf in jax.tree.leaves((record, moment.state if solver.states else None)))
    far, before = end - moment.time, moment.controller_state
    solution = diffrax.diffeqsolve(
        solver.term(),
        solver,
        0.0,
        math.inf,
        None,
        moment.state,
        saveat=diffrax.SaveAt(t1=True, dense=True, solver_state=True, controller_state=True),
        stepsize_controller=ModewiseController(solver.rtol, solver.system, before.next, moment.time, far),
        adjoint=diffrax.ForwardMode(),
        # diffrax copies the records of a call in each step: a larger buffer costs more than the calls that it saves
        max_steps=min(max(math.isqrt(1_500_000 // (3 * size)), 8), 256),
        throw=False,
        solver_state=moment.solver_state,
        controller_state=before,
    )
    drawn = solution.interpolation
    times = jnp.where(drawn.ts >= far, end, moment.time + drawn.ts)
    count = drawn.ts_size - 1
    last = jax.tree.map(lambda leaf: leaf[-1], solution.ys)
    after = Moment(times[count], last, solution.solver_state, solution.controller_state)
    return after, times[1:], drawn.infos["parts"], count, solution.result == diffrax.RESULTS.dt_min_reached


@dataclass(frozen=True, eq=False)
class Solution:
    """A system from its start, to any times: its record and its states, integrated as far as needed.

    always: up to this many unknowns the states are kept from the first; others are integrated once more when states are
    requested, and the largest from one time to the next. descent: the width of steps of descent in place of the flow.
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

    def curve(self, end: float, stop: Callable[[float, Any], bool] | None = None) -> Curve:
        """The record from zero to `end` or until `stop` says so."""
        return self._part(0, end, stop) if self.keeps else self._solve(end, False, stop)

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
            curve = self._part(1, float(times[-1]))
            for batch in np.array_split(times, len(times) // 256 + 1):
                found = curve.at(batch)
                yield from (jax.tree.map(lambda leaf, i=i: leaf[i], found) for i in range(len(batch)))
        else:
            for time in map(float, times):
                if time > before:
                    state = replace(self, start=state, _known={})._solve(time - before, False).last
                    before = time
                yield state

    @property
    def keeps(self) -> bool:
        """Whether the states are kept from the first."""
        return self._unknowns <= self.always

    @property
    def _unknowns(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.start))

    def _part(self, place: int, end: float, stop: Callable[[float, Any], bool] | None = None) -> Curve:
        """The curve of the record, 0, or of the state, 1."""
        whole = self._solve(end, True, stop)
        return Curve(whole.times, whole.records[place], whole.rates[place], whole.middles[place], whole.last)

    def _solve(self, end: float, states: bool, stop: Callable[[float, Any], bool] | None = None) -> Curve:
        """A known curve that goes far enough serves."""
        if stop is not None or states not in self._known or self._known[states].times[-1] < end:
            self._known[states] = integrate(
                self.system, self.start, end, rtol=self.rtol, max_steps=self.max_steps, stop=stop, states=states
            )
        return self._known[states]
