"""Exclusive-or: of four points, with a margin along which they are linearly separable, and of many noisy points."""

from functools import partial

import numpy as np

from neuralrace.errors import require_count, require_number
from neuralrace.task import Task
from neuralrace.tasks.pathways import parallel_pathways
from neuralrace.tasks.registry import NamedTask, register

CORNERS = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])


@register
def xor(delta: float = 0.0) -> NamedTask:
    """Exclusive-or of two inputs, linearly separable with margin 2 delta in a third (P2 eqs 11-12).

    delta: half the linear margin. At delta = 0 the third input is left out and the task is P1's (A.1). The
    sign is P2's, y(1, 1) = -1; P1 prints y(1, 1) = 1, which turns the sign of Sigma_yx and changes no speed
    or loss.

    Gatings: "xor", a pathway per example; "linear", one for the positive and one for the negative examples
    (it learns nothing at delta = 0).
    """
    margin = require_number("delta", delta, least=0)
    target = -CORNERS.prod(axis=1)
    inputs = CORNERS if margin == 0 else np.column_stack([CORNERS, margin * target])
    task = Task({"x": inputs}, {"y": target[:, None]})
    each = {f"h{example}": np.eye(4)[example] for example in range(4)}
    sides = {"positive": target > 0, "negative": target < 0}
    return NamedTask(
        task,
        gatings={"xor": partial(parallel_pathways, task, each), "linear": partial(parallel_pathways, task, sides)},
        hidden=32,  # four pathways of it are the 128 hidden units of P1 Fig 3 and P2 Fig 2
        groups={"example": np.arange(4), "sign": target.astype(int)},
    )


@register
def noisy_xor(points: int = 50, noise: float = 0.4, bias: bool = True, seed: int = 0) -> NamedTask:
    """Exclusive-or of two signs, from many points around each of the four corners.

    points: around each corner. noise: their standard deviation. bias: whether a third input is always one. seed: of the
    noise. Groups: "corner".
    """
    count, size = require_count("points", points, most=1_000_000), require_number("noise", noise, least=0)
    corner = np.repeat(np.arange(4), count)
    random = np.random.default_rng(require_count("seed", seed, least=0))
    rows = CORNERS[corner] + size * random.normal(size=(4 * count, 2))
    names: tuple[str, ...] = ("a", "b")
    if bias:
        rows, names = np.column_stack([rows, np.ones(len(rows))]), (*names, "constant")
    return NamedTask(
        Task({"x": rows}, {"y": -CORNERS[corner].prod(axis=1)[:, None]}, names={"x": names, "y": ("differ",)}),
        groups={"corner": np.array(["- -", "+ -", "- +", "+ +"])[corner]},
    )
