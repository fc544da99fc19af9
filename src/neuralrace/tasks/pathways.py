"""Networks of parallel pathways: input, one hidden node per pathway, output."""

from collections.abc import Mapping

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task


def parallel_pathways(
    task: Task,
    pathways: Mapping[str, np.ndarray | None],
    hidden: int,
    sources: Mapping[str, str] | None = None,
) -> Problem:
    """Join the inputs to the output by one gated hidden node per pathway.

    pathways: hidden node -> the examples for which it is open, (N,), or None for all. sources: hidden node
    -> the input node that it reads, the first one if it is not named.
    """
    first, target = next(iter(task.inputs)), next(iter(task.targets))
    nodes = {node: rows.shape[1] for node, rows in task.inputs.items()}
    nodes |= dict.fromkeys(pathways, hidden)
    nodes[target] = task.targets[target].shape[1]
    edges = [((sources or {}).get(pathway, first), pathway) for pathway in pathways]
    edges += [(pathway, target) for pathway in pathways]
    gates = {pathway: gate for pathway, gate in pathways.items() if gate is not None}
    return Problem(Architecture(nodes, edges), task, Gates(nodes=gates))
