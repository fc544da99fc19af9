"""Items at the leaves of a binary tree, a property for each of its nodes."""

from functools import partial

import numpy as np

from neuralrace.errors import RangeError, require_count
from neuralrace.task import Task
from neuralrace.tasks.pathways import parallel_pathways
from neuralrace.tasks.registry import NamedTask, register
from neuralrace.tasks.structures import MOST_ITEMS, hierarchy_block


@register("hierarchy", summary="one-hot items, a property for every node of a binary tree above them")
def hierarchy(levels: int = 4) -> NamedTask:
    """One-hot items with 2^levels - 1 properties, one for each node of the binary tree over them.

    Levels of the tree: 1, 2, 4, ... nodes, so levels = 4 gives 8 items with 15 properties. Gating: "linear".
    """
    count, most = require_count("levels", levels), MOST_ITEMS.bit_length()
    if count > most:
        raise RangeError(f"levels must be at most {most}, which gives {MOST_ITEMS} items; it was {count}")
    items = 2 ** (count - 1)
    task = Task({"x": np.eye(items)}, {"y": hierarchy_block(items).T})
    return NamedTask(
        name="hierarchy",
        settings={"levels": count},
        task=task,
        gatings={"linear": partial(parallel_pathways, task, {"h": None})},
        hidden=items,
        groups={"item": np.arange(items)},
    )
