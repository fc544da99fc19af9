"""Adaptive integration by diffrax with an error that is relative for every mode.

A learning curve starts at weights that may be 1e-12 and stays on plateaus where one mode is learned and the next still
tiny. So the error of each mode is measured against that mode alone. Where stability and not accuracy holds down the
step, the explicit solver changes its method; on the longest plateaus of small systems an implicit solver takes over.
"""

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from neuralrace._engine.devices import compiled, everywhere, spread
from neuralrace.axes import Array
from neuralrace.errors import RangeError
from neuralrace.progress import LongWait
from neuralrace.theory.integration.explicit import Explicit, Memory
from neuralrace.theory.integration.steps import Before, ErrorOfModes, Noted, Recorded
from neuralrace.theory.integration.stiff import Stiff
from neuralrace.theory.integration.system import (
    System,
    WithState,
    descend,
    quartic_weights,
    record_of,
    steps_between,
    term,
)

PAUSE = 32  # accepted steps after which the caller may stop
LONGEST_CALL, SHORTEST_CALL = 256, 8  # most steps that are tried in one compiled call
COPIED = 500_000  # numbers whose copying takes as long as a call: diffrax copies what is kept of a call in each step
STIFF_STEPS = 2000  # with no more steps than this to go the explicit solver goes on
STIFF_REACH = 100.0  # width times radius from which the implicit solver takes over
EXPLICIT_REACH = 60.0  # ... and below which it gives back, as it does for transitions
STRICTER = 0.01  # its tolerance: few steps cross a plateau, and their errors all shift the time at which it ends
SHORTER = "fewer draws or neurons, a larger rtol, or an earlier end"
DENSE_UNKNOWNS = 1000  # above this many the explicit solver goes on alone
ALWAYS_KEPT = 1_000  # up to this many unknowns the state is kept at every step, unless said otherwise
KEPT_UNKNOWNS = 30_000  # up to this many where states are asked for
UNSEEN = 1e-200  # a step that changes no number
BATCH = 256  # times at which states are held at once
RECORD_SHAPES: dict[Hashable, Any] = {}  # shapes of what systems record: to find them takes as long as many steps


@dataclass(frozen=True, eq=False)
class Curve:
    """What was recorded, as a polynomial of degree four in each step."""

    starts: np.ndarray  # (steps,)
    ends: np.ndarray
    records: Any  # leaves (steps, 5, ...): start, middle, end, and the slopes at start and end times the step
    last: Any  # the state at the end

    def at(self, times: ArrayLike) -> Any:
        """The record at increasing times; leaves (times, ...)."""
        times = np.asarray(times, dtype=np.float64)
        step = np.clip(np.searchsorted(self.ends, times, side="left"), 0, len(self.ends) - 1)
        width = self.ends[step] - self.starts[step]
        fraction = np.divide(times - self.starts[step], width, out=np.zeros(len(times)), where=width > 0)
        weights = np.stack(quartic_weights(np.clip(fraction, 0.0, 1.0)), axis=1)  # (times, 5)
        here, first = np.unique(step, return_index=True)
        slices = [slice(*ends) for ends in pairwise([*first, len(times)])]

        def drawn(leaf: np.ndarray) -> np.ndarray:
            rows, found = leaf.reshape(len(leaf), 5, -1), np.empty((len(times), leaf[0, 0].size))
            for i, inside in zip(here, slices, strict=True):
                np.matmul(weights[inside], rows[i], out=found[inside])
            return found.reshape(len(times), *leaf.shape[2:])

        return jax.tree.map(drawn, self.records)


class Moment(NamedTuple):
    """Where a compiled call starts or ends."""

    time: Any
    state: Any
    noted: Noted
    before: Before

    def until(self, pause: float) -> "Moment":
        """To pause after some accepted steps."""
        return self._replace(before=self.before._replace(left=np.array(float(pause))))


def integrate(
    system: System,
    state: Any,
    end: float,
    *,
    rtol: float,
    max_steps: int,
    stop: Callable[[float, Any], bool] | None = None,
) -> Curve:
    """Integrate from time zero to `end`, or until `stop(time, state)` says so after some steps."""
    state = jax.device_put(state)
    goal = np.array(float(end))
    if end <= 0:
        return Curve(*_standing(record_of(system, state)), state)
    unknowns = sum(leaf.size for leaf in jax.tree.leaves(state))
    chosen = _SolverChoice(system, rtol)
    solver = chosen.explicit
    moment = _opening(solver, state, goal)
    parts = [_standing(moment.noted.record)]
    time, taken, looked, wait = 0.0, 0, 0, None
    while time < end:
        pause = np.inf if stop is None else looked + PAUSE - taken
        moment, part, count, failed = _advance(solver, moment.until(pause), goal)
        part, time, step, count, failed = jax.device_get((part, moment.time, moment.before.next, count, failed))
        if failed:
            raise _too_short(step, time, rtol)
        parts.append(jax.tree.map(lambda leaf, count=count: leaf[:count], part))  # only so many were taken
        taken += count
        if time < end and taken >= max_steps:
            raise RangeError(
                f"the integration to time {end:.6g} took {taken} steps and is at {time:.6g}: raise max_steps above "
                f"{max_steps}, raise rtol above {rtol:.2g}, or ask for an earlier end"
            )
        wait = LongWait("flow", SHORTER) if wait is None else wait  # its clock begins when the first call is compiled
        wait.look(taken, min(taken + (end - time) / step, max_steps))
        if stop is not None and (taken >= looked + PAUSE or time >= end):
            looked = taken
            if stop(float(time), moment.state):
                break
        if unknowns <= DENSE_UNKNOWNS and (end - time) / step > STIFF_STEPS:
            changed = chosen.next(solver, moment)
            if changed is not solver:
                memory = _remembered(changed, moment.state, goal)
                moment = moment._replace(noted=moment.noted._replace(memory=memory))
            solver = changed
    starts, ends, records = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    return Curve(starts, ends, records, moment.state)


@dataclass(frozen=True, eq=False)
class Followed:
    """A system from its start, to any times: what it records, and its states.

    always: up to so many unknowns the states are kept from the first; others are followed once more when states are
    asked for, and the largest from one time to the next. descent: the width of its steps, if it takes such in place of
    the flow.
    """

    system: System
    start: Any
    rtol: float
    max_steps: int
    always: int = ALWAYS_KEPT
    descent: float | None = None
    _kept: dict[bool, Curve] = field(default_factory=dict, repr=False)  # with states, or without

    def at(self, times: np.ndarray) -> Any:
        """What the system records at increasing times; leaves (times, ...)."""
        if self.descent is not None:
            return descend(self.system, self.start, self.descent, steps_between(times, self.descent))[1]
        return self.curve(float(times[-1]) if len(times) else 0.0).at(times)

    def curve(self, end: float, stop: Callable[[float, Any], bool] | None = None) -> Curve:
        """What the flow records, from zero to `end` or until `stop` says so."""
        if not self.keeps:
            return self._flow(end, False, stop)
        whole = self._flow(end, True, stop)
        return replace(whole, records=whole.records[0])

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
            whole = self._flow(float(times[-1]), True)
            curve = replace(whole, records=whole.records[1])
            for batch in np.array_split(times, len(times) // BATCH + 1):
                found = curve.at(batch)
                yield from (jax.tree.map(lambda leaf, i=i: leaf[i], found) for i in range(len(batch)))
        else:
            for time in map(float, times):
                if time > before:
                    state = replace(self, start=state, _kept={})._flow(time - before, False).last
                    before = time
                yield state

    def _flow(self, end: float, states: bool, stop: Callable[[float, Any], bool] | None = None) -> Curve:
        """A curve that was followed far enough already serves."""
        if stop is not None or states not in self._kept or self._kept[states].ends[-1] < end:
            system = WithState(self.system, not self.keeps) if states else self.system
            found = integrate(system, self.start, end, rtol=self.rtol, max_steps=self.max_steps, stop=stop)
            self._kept[states] = found
        return self._kept[states]

    @property
    def keeps(self) -> bool:
        """Whether the states are kept from the first."""
        return self._unknowns <= self.always

    @property
    def _unknowns(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.start))


Part = tuple[Any, Any, Any]  # starts, ends and records of some steps


def _standing(record: Any) -> Part:
    """A step of no length."""
    still = jax.tree.map(lambda leaf: np.stack([leaf] * 3 + [0 * leaf] * 2)[None], jax.device_get(record))
    return np.zeros(1), np.zeros(1), still


class _SolverChoice:
    """The implicit solver where a step is far longer than the fastest decay, the explicit one where it is not."""

    def __init__(self, system: System, rtol: float) -> None:
        strict = np.array(STRICTER * rtol)
        self.explicit = Recorded(Explicit(), system, np.array(float(rtol)))
        self.stiff = Recorded(Stiff(system, strict), system, strict)
        self.radius = 0.0  # of the Jacobian, when it was last known

    def next(self, solver: Recorded, moment: Moment) -> Recorded:
        """The solver to go on with."""
        step, memory = float(moment.before.next), moment.noted.memory
        if isinstance(memory, Memory):
            self.radius = float(memory.radius)
            return self.stiff if step * self.radius > STIFF_REACH else solver
        return self.explicit if step * self.radius < EXPLICIT_REACH else solver


def _opening(solver: Recorded, state: Any, end: np.ndarray) -> Moment:
    """The start; the first step is a hundredth of the time in which the slowest part would grow by its own size.

    A step of almost no length, whatever its error, finds velocity and record: a program of their own would have to be
    compiled.
    """
    memory = Memory(_blank(state), np.array(False), np.zeros(()), state)
    record = _blank(_record_shape(solver.system, state))
    still = Before(np.array(UNSEEN), np.ones(()), np.array(UNSEEN), np.ones(()))
    start = Moment(np.zeros(()), state, Noted(memory, record, record), still)
    moment, _, count, _ = _advance(replace(solver, rtol=np.array(1 / UNSEEN)), _beside(state, start).until(1), end)
    if not count:
        raise _too_short(UNSEEN, 0.0, float(solver.rtol))
    guess = float(end)
    for y, v in zip(*map(jax.tree.leaves, jax.device_get((state, moment.noted.memory.slope))), strict=True):
        size, speed = np.max(np.abs(y), initial=0.0), np.max(np.abs(v), initial=0.0)
        if size > 0 and speed > 0:
            guess = min(guess, 1e-2 * size / speed)
    before = Before(np.array(1e-300), np.ones(()), np.array(guess), np.array(np.inf))
    return moment._replace(**_beside(state, {"time": np.zeros(()), "before": before}))


def _record_shape(system: System, state: Any) -> Any:
    """The shapes of what is recorded, found once for systems and states of one shape."""
    leaves, structure = jax.tree.flatten((system, state))
    key = structure, *((leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else leaf for leaf in leaves)
    if key not in RECORD_SHAPES:
        RECORD_SHAPES[key] = eqx.filter_eval_shape(system.record, state)
    return RECORD_SHAPES[key]


def _blank(tree: Any) -> Any:
    """Zeros in place of arrays."""
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), tree)


def _beside(state: Any, tree: Any) -> Any:
    """Arrays where a state is: on several devices, over which it is spread, as a compiled call gives them back."""
    first = jax.tree.leaves(state)[0]
    if len(first.sharding.device_set) == 1:
        return tree
    count = len(first)
    return jax.tree.map(lambda leaf: spread(leaf) if leaf.shape[:1] == (count,) else everywhere(leaf, count), tree)


def _too_short(step: float, time: float, rtol: float) -> RangeError:
    return RangeError(
        f"the integration needs a step below {step:.2g} at time {time:.6g}: rtol={rtol:.2g} is too tight for "
        f"double precision, or the velocity overflows; raise rtol, or start from smaller weights"
    )


@compiled
def _remembered(solver: Recorded, state: Any, end: Array) -> Any:
    """What a solver that takes over knows."""
    return solver.solver.init(term(solver.system), 0.0, end, state, None)


@compiled
def _advance(solver: Recorded, moment: Moment, end: Array) -> tuple[Moment, Part, jax.Array, jax.Array]:
    """Take some steps; also how many of those that there is room for, and whether the step became too small."""
    kept = 5 * sum(leaf.size for leaf in jax.tree.leaves(moment.noted.record))
    far = end - moment.time
    solution = diffrax.diffeqsolve(
        term(solver.system),
        solver,
        0.0,
        math.inf,
        None,
        moment.state,
        saveat=diffrax.SaveAt(t1=True, dense=True, solver_state=True, controller_state=True),
        stepsize_controller=ErrorOfModes(solver.rtol, solver.system, moment.before.next, moment.time, far),
        adjoint=diffrax.ForwardMode(),
        max_steps=min(max(math.isqrt(COPIED // kept), SHORTEST_CALL), LONGEST_CALL),
        throw=False,
        solver_state=moment.noted,
        controller_state=moment.before,
    )
    drawn = solution.interpolation
    times = jnp.where(drawn.ts >= far, end, moment.time + drawn.ts)
    count = drawn.ts_size - 1
    after = Moment(
        times[count],
        jax.tree.map(lambda leaf: leaf[-1], solution.ys),
        solution.solver_state,
        solution.controller_state,
    )
    part = times[:-1], times[1:], drawn.infos["parts"]
    return after, part, count, solution.result == diffrax.RESULTS.dt_min_reached
