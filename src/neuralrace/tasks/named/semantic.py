"""The two animals and two plants of semantic cognition."""

from functools import partial

import numpy as np

from neuralrace.task import Task
from neuralrace.tasks.pathways import parallel_pathways
from neuralrace.tasks.registry import NamedTask, register
from neuralrace.tasks.structures import hierarchy_block

ITEMS = ("canary", "salmon", "rose", "oak")
PROPERTIES = ("grow", "move", "roots", "fly", "swim", "petals", "leaves")


@register("semantic", summary="canary, salmon, rose and oak with what they do and have")
def semantic() -> NamedTask:
    """Four one-hot items with seven properties: all grow, animals move, plants have roots (P2 Fig 7).

    The properties are those of a binary tree of three levels. P2's text names grow, move, roots and fly;
    the rest are the usual ones of this example (Saxe et al. 2019). Gating: "linear".
    """
    task = Task({"x": np.eye(len(ITEMS))}, {"y": hierarchy_block(len(ITEMS)).T})
    return NamedTask(
        name="semantic",
        settings={},
        task=task,
        gatings={"linear": partial(parallel_pathways, task, {"h": None})},
        hidden=16,
        groups={"item": np.array(ITEMS)},
        labels={"x": ITEMS, "y": PROPERTIES},
    )
