"""Sequences whose sum, weighted by a power of the time that has passed, is to be found mode by mode."""

from collections.abc import Sequence

import numpy as np

from neuralrace.arrays import finite_array
from neuralrace.errors import TaskError, require_count
from neuralrace.networks import recurrent
from neuralrace.task import Task
from neuralrace.tasks.registry import NamedTask, register


@register
def sequence(
    values: Sequence[float] = (0.9, 0.8, 0.7), strengths: Sequence[float] = (3.0, 2.0, 1.0), length: int = 5
) -> NamedTask:
    """Recall T inputs: mode m of the target is strength_m * sum over t of value_m^(T - t) x_t (Proca et al. 2025).

    One example for each mode at each time, so that inputs are white and independent over time. A recurrent network
    solves it, with these values in its recurrent weights. Gating: "recurrent".
    """
    powers = finite_array("values", values, TaskError, ("mode",))
    sizes = finite_array("strengths", strengths, TaskError, ("mode",))
    if powers.ndim != 1 or powers.shape != sizes.shape or not powers.size:
        raise TaskError(
            f"values and strengths must be one number for each mode; there are {powers.size} and {sizes.size}"
        )
    times, modes = require_count("length", length), len(powers)
    time, mode = np.repeat(np.arange(times), modes), np.tile(np.arange(modes), times)
    root, unit = np.sqrt(times * modes), np.eye(modes)[mode]  # variance one at every time
    inputs = {f"x{t + 1}": root * np.where((time == t)[:, None], unit, 0.0) for t in range(times)}
    response = sizes[mode] * powers[mode] ** (times - 1 - time)
    task = Task(inputs, {"y": root * response[:, None] * unit})
    return NamedTask(
        task,
        gatings={"recurrent": lambda hidden: recurrent(task, hidden)},
        hidden=20,
        groups={"time": time + 1, "mode": mode},
    )
