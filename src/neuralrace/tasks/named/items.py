"""Items with properties: a binary tree, the animals and plants of semantic cognition."""

from functools import partial

import numpy as np

from neuralrace.errors import RangeError, require_count
from neuralrace.task import Task
from neuralrace.tasks.pathways import parallel_pathways
from neuralrace.tasks.registry import NamedTask, register

MOST_ITEMS = 2048  # the block of a hierarchy holds (2 items - 1) x items numbers
ITEMS = ("canary", "salmon", "rose", "oak")
PROPERTIES = ("grow", "move", "roots", "fly", "swim", "petals", "leaves")


@register
def hierarchy(levels: int = 4) -> NamedTask:
    """One-hot items, with a property for every node of a binary tree above them: 2^levels - 1 properties.

    Levels of the tree: 1, 2, 4, ... nodes, so levels = 4 gives 8 items with 15 properties. Gating: "linear".
    """
    items = 2 ** (require_count("levels", levels, most=MOST_ITEMS.bit_length()) - 1)
    task = Task({"x": np.eye(items)}, {"y": hierarchy_block(items).T})
    linear = partial(parallel_pathways, task, {"h": None})
    return NamedTask(task, {"linear": linear}, hidden=items, groups={"item": np.arange(items)})


@register
def semantic() -> NamedTask:
    """Canary, salmon, rose and oak: all grow, animals move, plants have roots (P2 Fig 7).

    The properties are those of a binary tree of three levels. P2's text names grow, move, roots and fly;
    the rest are the usual ones of this example (Saxe et al. 2019). Gating: "linear".
    """
    names = {"x": ITEMS, "y": PROPERTIES}
    task = Task({"x": np.eye(len(ITEMS))}, {"y": hierarchy_block(len(ITEMS)).T}, names=names)
    linear = partial(parallel_pathways, task, {"h": None})
    return NamedTask(task, {"linear": linear}, hidden=16, groups={"item": np.array(ITEMS)})


def hierarchy_block(items: int) -> np.ndarray:
    """The binary tree over the items, a row for each node from the root down; (2 items - 1, items)."""
    count = require_count("items", items, most=MOST_ITEMS)
    if count & (count - 1):
        raise RangeError(f"items must be a power of two, since they are the leaves of a binary tree; it was {count}")
    levels = count.bit_length()
    return np.vstack([np.kron(np.eye(2**level), np.ones(count >> level)) for level in range(levels)])
