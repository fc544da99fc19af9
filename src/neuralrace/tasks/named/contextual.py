"""Tasks in context: items whose properties depend on it, and a choice between two inputs."""

from functools import partial

import numpy as np

from neuralrace.errors import RangeError, require_count, require_known
from neuralrace.task import Task
from neuralrace.tasks.named.items import MOST_ITEMS, hierarchy_block
from neuralrace.tasks.pathways import parallel_pathways
from neuralrace.tasks.registry import Gating, NamedTask, register

STRUCTURES = {"hierarchy": ("hierarchy",), "mixed": ("hierarchy", "ring", "cross")}  # contexts take them in turn
PATHWAYS = {
    "common + all-but-one": ("without",),
    "common + single": ("only",),
    "common + all-but-one + single": ("without", "only"),
}


@register
def contextual(contexts: int = 3, structure: str = "hierarchy", items: int = 8) -> NamedTask:
    """Items in contexts, with shared and with context-specific properties (P2 sections 4-5).

    Inputs "x" are a one-hot item and a one-hot context. The first block of properties is a hierarchy over the items,
    shown in every context; block c + 1 is shown in context c and is zero elsewhere. structure: of the later blocks,
    "hierarchy" (P2 Fig 5), or "mixed", which takes hierarchy, ring and cross in turn (P2 Fig 4, with 8 items). With 8
    items a block has 15 properties.

    Gatings: "common + all-but-one" (the ReLN: a pathway that is always open, and one per context that is
    closed in it), "common + single" (one per context that is open in it alone), "common + all-but-one +
    single" (both). Every pathway reads items and contexts. In the same names with ", items only" the
    contextual pathways read the items alone, through an input node "item" of their own, as in the published
    network.
    """
    count = require_count("contexts", contexts, least=2, most=100)
    size = require_count("items", items, least=2, most=MOST_ITEMS)
    require_known(structure, STRUCTURES, f"there is no structure {structure!r}")
    kinds = STRUCTURES[structure]
    own = [property_block(kinds[c % len(kinds)], size) for c in range(count)]
    shown = [np.kron(np.eye(count)[c], block) for c, block in enumerate(own)]
    targets = np.vstack([np.tile(hierarchy_block(size), count), *shown]).T
    context, item = np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
    one_hot = np.eye(size)[item]
    inputs = np.hstack([one_hot, np.eye(count)[context]])
    task = Task({"x": inputs}, {"y": targets})
    apart = Task({"x": inputs, "item": one_hot}, task.targets)
    pathways: dict[str, dict[str, np.ndarray | None]] = {name: {"common": None} for name in PATHWAYS}
    for name, parts in PATHWAYS.items():
        for part in parts:
            gates = {f"{part}{c}": context == c if part == "only" else context != c for c in range(count)}
            pathways[name] |= gates
    gatings: dict[str, Gating] = {name: partial(parallel_pathways, task, gates) for name, gates in pathways.items()}
    for name, gates in pathways.items():
        sources = {pathway: "item" for pathway in gates if pathway != "common"}
        gatings[f"{name}, items only"] = partial(parallel_pathways, apart, gates, sources=sources)
    return NamedTask(task, gatings, hidden=100, groups={"context": context, "item": item})  # P2 appendix H


def property_block(structure: str, items: int) -> np.ndarray:
    """The properties of items in one context: a hierarchy, or P2's ring or cross of 8 items; (2 items - 1, items)."""
    block = hierarchy_block(items)
    if structure != "hierarchy" and items != 8:
        raise RangeError(f"structure 'mixed' is defined for 8 items; items was {items}: use structure='hierarchy'")
    if structure == "ring":  # a bump that moves left from row to row, under a row of ones
        cycle = np.array([0.0, 0.33, 0.66, 1.0, 1.0, 0.66, 0.33, 0.0])  # as published, not thirds
        block[1:] = [np.roll(cycle, -shift) for shift in range(14)]
    elif structure == "cross":  # pairs interleave within each half
        block[3:7] = np.kron(np.eye(2), np.array([[1, 0, 1, 0], [0, 1, 0, 1]]))
    return block


@register
def contextual_classification() -> NamedTask:
    """Report the first or the second input, depending on context (P1 A.2).

    The target is the component y = x_c that the context c names. Both inputs are uniform between -1 and 1 and both
    contexts have probability 1/2: eight points have exactly the moments of the population in each context, mean 0 and
    <x x^T> = I/3. The context reaches the network through its gates only. Gatings: "linear", one pathway that is always
    open; "context", a pathway per context.
    """
    corners = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]]) / np.sqrt(3.0)
    inputs, context = np.tile(corners, (2, 1)), np.repeat([0, 1], 4)
    task = Task({"x": inputs}, {"y": np.take_along_axis(inputs, context[:, None], axis=1)})
    pathways = {"linear": {"h": None}, "context": {f"context{c}": context == c for c in range(2)}}
    gatings = {name: partial(parallel_pathways, task, gates) for name, gates in pathways.items()}
    return NamedTask(task, gatings, hidden=16, groups={"context": context})
