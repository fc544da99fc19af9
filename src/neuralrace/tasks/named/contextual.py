"""Items with properties that all contexts share and properties that only one context shows."""

from functools import partial

import numpy as np

from neuralrace.errors import require_count, require_known
from neuralrace.task import Task
from neuralrace.tasks.pathways import parallel_pathways
from neuralrace.tasks.registry import Gating, NamedTask, register
from neuralrace.tasks.structures import cross_block, hierarchy_block, ring_block

STRUCTURES = {
    "hierarchy": (hierarchy_block,),
    "mixed": (hierarchy_block, ring_block, cross_block),  # contexts take them in turn
}
PATHWAYS = {
    "common + all-but-one": ("without",),
    "common + single": ("only",),
    "common + all-but-one + single": ("without", "only"),
}


@register("contextual", summary="items in contexts, with shared and with context-specific properties")
def contextual(contexts: int = 3, structure: str = "hierarchy", items: int = 8) -> NamedTask:
    """Every item in every context; inputs "x" are a one-hot item and a one-hot context (P2 sections 4-5).

    The first block of properties is a hierarchy over the items, shown in every context; block c + 1 is
    shown in context c and is zero elsewhere. structure: of the later blocks, "hierarchy" (P2 Fig 5), or
    "mixed", which takes hierarchy, ring and cross in turn (P2 Fig 4, with 8 items). With 8 items a block
    has 15 properties.

    Gatings: "common + all-but-one" (the ReLN: a pathway that is always open, and one per context that is
    closed in it), "common + single" (one per context that is open in it alone), "common + all-but-one +
    single" (both). Every pathway reads items and contexts. In the same names with ", items only" the
    contextual pathways read the items alone, through an input node "item" of their own, as in the published
    network.
    """
    count = require_count("contexts", contexts, least=2, most=100)
    size = require_count("items", items, least=2, most=2048)
    require_known(structure, STRUCTURES, f"there is no structure {structure!r}")
    context, item = np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
    one_hot = np.eye(size)[item]
    inputs = np.hstack([one_hot, np.eye(count)[context]])
    task = Task({"x": inputs}, {"y": _properties(structure, count, size)})
    apart = Task({"x": inputs, "item": one_hot}, task.targets)
    gatings: dict[str, Gating] = {}
    pathways = {name: _pathways(kinds, context, count) for name, kinds in PATHWAYS.items()}
    for name, gates in pathways.items():
        gatings[name] = partial(parallel_pathways, task, gates)
    for name, gates in pathways.items():
        sources = {pathway: "item" for pathway in gates if pathway != "common"}
        gatings[f"{name}, items only"] = partial(parallel_pathways, apart, gates, sources=sources)
    return NamedTask(
        name="contextual",
        settings={"contexts": count, "structure": structure, "items": size},
        task=task,
        gatings=gatings,
        hidden=100,  # P2 appendix H
        groups={"context": context, "item": item},
    )


def _properties(structure: str, contexts: int, items: int) -> np.ndarray:
    """The targets, context by context and item by item; (contexts * items, (contexts + 1) properties)."""
    makers = STRUCTURES[structure]
    own = [makers[context % len(makers)](items) for context in range(contexts)]
    shown = [np.kron(np.eye(contexts)[context], block) for context, block in enumerate(own)]
    return np.vstack([np.tile(hierarchy_block(items), contexts), *shown]).T


def _pathways(kinds: tuple[str, ...], context: np.ndarray, contexts: int) -> dict[str, np.ndarray | None]:
    pathways: dict[str, np.ndarray | None] = {"common": None}
    for kind in kinds:
        for c in range(contexts):
            pathways[f"{kind}{c}"] = context == c if kind == "only" else context != c
    return pathways
