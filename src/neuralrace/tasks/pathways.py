"""Networks of parallel pathways: input, one hidden node per pathway, or a chain of them, output."""

import itertools
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


def with_depth(problem: Problem, depth: int) -> Problem:
    """Give every pathway `depth` layers of weights, gated at its first node; added nodes are open."""
    plain = problem.architecture
    nodes = {node: plain.nodes[node] for node in plain.inputs}
    edges: list[tuple[str, str]] = []
    for first in (node for node in plain.hidden if plain.level[node] == 1):
        chain = [first]
        while (after := plain.target(plain.outgoing[chain[-1]][0])) not in plain.outputs:
            chain.append(after)
        longer = (*chain, *(f"{first}_{layer}" for layer in range(len(chain) + 1, depth)))[: depth - 1]
        nodes |= dict.fromkeys(longer, plain.nodes[first])
        edges += [(plain.source(edge), first) for edge in plain.incoming[first]]
        edges += itertools.pairwise(longer)
        edges += [(longer[-1], plain.target(edge)) for edge in plain.outgoing[chain[-1]]]
    nodes |= {node: plain.nodes[node] for node in plain.outputs}
    same = len(nodes) == len(plain.nodes)
    return problem if same else Problem(Architecture(nodes, edges), problem.task, problem.gates)
