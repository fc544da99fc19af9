"""Exclusive-or of many noisy points."""

import numpy as np

from neuralrace.errors import require_count, require_number
from neuralrace.task import Task
from neuralrace.tasks.registry import NamedTask, register
from neuralrace.tasks.scaling import with_constant

CORNERS = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])


@register("noisy_xor", summary="exclusive-or of two signs, from many points around each of the four corners")
def noisy_xor(points: int = 50, noise: float = 0.4, bias: bool = True, seed: int = 0) -> NamedTask:
    """Points around four corners, the exclusive-or of the corner's signs as target.

    points: around each corner. noise: their standard deviation. bias: whether a third input is always one. seed: of the
    noise. Groups: "corner".
    """
    count, size = require_count("points", points), require_number("noise", noise, least=0)
    corner = np.repeat(np.arange(4), count)
    random = np.random.default_rng(require_count("seed", seed, least=0))
    rows = CORNERS[corner] + size * random.normal(size=(4 * count, 2))
    names: tuple[str, ...] = ("a", "b")
    if bias:
        rows, names = with_constant(rows, names)
    return NamedTask(
        name="noisy_xor",
        settings={"points": count, "noise": size, "bias": bias, "seed": seed},
        task=Task({"x": rows}, {"y": -CORNERS[corner].prod(axis=1)[:, None]}),
        groups={"corner": np.array(["- -", "+ -", "- +", "+ +"])[corner]},
        labels={"x": names, "y": ("differ",)},
    )
