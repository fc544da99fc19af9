"""Adaptive integration by diffrax with an error that is relative for every mode.

A learning curve starts at weights that may be 1e-12 and stays on plateaus where one mode is learned and the next still
tiny. So the error of each mode is measured against that mode alone. Where stability and not accuracy limits the step,
the solver changes its method; on the longest plateaus of small systems an implicit solver takes over.
"""

import math
from collections.abc import Generator
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled
from neuralrace.axes import Array
from neuralrace.errors import RangeError
from neuralrace.theory.integration.curve import Curve
from neuralrace.theory.integration.solvers import ModewiseController, ModewiseKvaerno5, StabilizedTsit5
from neuralrace.theory.integration.system import System, velocity_of

STEPS = 256  # at most in one compiled call, between which an integration can be interrupted


def integrate(
    system: System, state: Any, end: float, *, rtol: float, max_steps: int, states: bool = False
) -> Generator[None, None, Curve]:
    """Integrate from time zero to `end`, with a pause between compiled calls; states: record the state as well."""
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
        yield
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
