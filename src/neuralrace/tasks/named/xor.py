"""Exclusive-or, with a third input along which the points can be told apart linearly."""

from functools import partial

import numpy as np

from neuralrace.errors import require_number
from neuralrace.task import Task
from neuralrace.tasks.pathways import parallel_pathways
from neuralrace.tasks.registry import NamedTask, register


@register("xor", summary="exclusive-or of two inputs, linearly separable with margin 2 delta in a third")
def xor(delta: float = 0.0) -> NamedTask:
    """Four points, the exclusive-or of two signs as target (P2 eqs 11-12).

    delta: half the linear margin. At delta = 0 the third input is left out and the task is P1's (A.1). The
    sign is P2's, y(1, 1) = -1; P1 prints y(1, 1) = 1, which turns the sign of Sigma_yx and changes no speed
    or loss.

    Gatings: "xor", a pathway per example; "linear", one for the positive and one for the negative examples
    (it learns nothing at delta = 0).
    """
    margin = require_number("delta", delta, least=0)
    points = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    target = -points.prod(axis=1)
    inputs = points if margin == 0 else np.column_stack([points, margin * target])
    task = Task({"x": inputs}, {"y": target[:, None]})
    each = {f"h{example}": np.eye(4)[example] for example in range(4)}
    sides = {"positive": target > 0, "negative": target < 0}
    return NamedTask(
        name="xor",
        settings={"delta": margin},
        task=task,
        gatings={
            "xor": partial(parallel_pathways, task, each),
            "linear": partial(parallel_pathways, task, sides),
        },
        hidden=32,  # four pathways of it are the 128 hidden units of P1 Fig 3 and P2 Fig 2
        groups={"example": np.arange(4), "sign": target.astype(int)},
    )
