"""Routing: from any of M input domains to any of M output domains, with only some routes trained."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.errors import RangeError, require_name
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.tasks.pairs import trained_pairs
from neuralrace.tasks.registry import NamedTask, register

TARGETS = ((6, 4, 0, 3, 0, 0, 0), (6, 4, 0, 0, 3, 0, 0), (6, 0, 4, 0, 0, 3, 0), (6, 0, 4, 0, 0, 0, 3))


@register
def routing(
    domains: int = 7, trained: int = 4, pairs: str = "neighbors", key: int = 0, routes: str = "trained"
) -> NamedTask:
    """Map any of M input domains to any of M output domains, some routes untrained (P1 section 4).

    The four one-hot items with seven features of P1 Fig 4 are on every route. domains: M. trained: K, the number of
    output domains that each input domain is trained with. pairs, key: which, as a name of `tasks.pairs` and what
    decides its random ones. routes: "trained", "untrained" or "all", the routes whose examples the task has; the
    networks do not depend on it, so that weights from some routes can be evaluated on others. The nodes x0 ... y0 ...
    of domains that an example does not use hold zeros, and their gates are closed.

    Gatings: "shared", x -> h1 -> h2 -> y with one hidden matrix for all routes; "P=1", "P=4", ...: sqrt(P)
    input and sqrt(P) output domains form a group, for each sqrt(P) that divides M, and each pair of groups
    has encoders, a hidden matrix and decoders of its own, so that P routes run through each hidden matrix
    (eqs 16-17); "shared + P=1", ...: both at once, as in the race of Fig 5.
    """
    pattern = trained_pairs(pairs, domains, trained, key)
    shown = {"trained": pattern, "untrained": ~pattern, "all": np.ones_like(pattern)}
    chosen = shown[require_name("routes", routes, shown)]
    if not chosen.any():
        raise RangeError(f"an untrained route is required; all are trained: give trained below {domains}")
    return _routed(pattern, chosen)


def _routed(pattern: np.ndarray, shown: np.ndarray) -> NamedTask:
    """The task with the examples of the routes that are shown."""
    rows, wanted = np.eye(len(TARGETS)), np.array(TARGETS, dtype=float)
    sources, sinks = np.nonzero(shown)
    item, domains = np.tile(np.arange(len(rows)), len(sources)), len(pattern)
    source, sink = np.repeat(sources, len(rows)), np.repeat(sinks, len(rows))
    task = Task(
        {f"x{i}": np.where((source == i)[:, None], rows[item], 0.0) for i in range(domains)},
        {f"y{j}": np.where((sink == j)[:, None], wanted[item], 0.0) for j in range(domains)},
    )
    network = partial(_network, task, source, sink)
    sizes = [size for size in range(1, domains + 1) if domains % size == 0]  # sqrt(P)
    return NamedTask(
        task,
        gatings={
            "shared": partial(network, (domains,)),
            **{f"P={size**2}": partial(network, (size,)) for size in sizes},
            **{f"shared + P={size**2}": partial(network, (domains, size)) for size in sizes if size < domains},
        },
        hidden=64,
        groups={"input domain": source, "output domain": sink, "item": item, "trained": pattern[source, sink]},
    )


def _network(task: Task, source: np.ndarray, sink: np.ndarray, sizes: Sequence[int], hidden: int) -> Problem:
    """Hidden layers for each pair of groups of each given size, gated by the route of the example."""
    first, last, domains = list(task.inputs), list(task.targets), len(task.inputs)
    nodes = {node: task.inputs[node].shape[1] for node in first}
    edges: list[tuple[str, str]] = []
    gates = {f"x{i}": source == i for i in range(domains)} | {f"y{j}": sink == j for j in range(domains)}
    for size in sizes:
        for group in range((domains // size) ** 2):
            a, b = divmod(group, domains // size)
            near, far = ("h1", "h2") if size == domains else (f"h1_{a}_{b}", f"h2_{a}_{b}")
            nodes |= {near: hidden, far: hidden}
            edges += [(node, near) for node in first[a * size : (a + 1) * size]]
            edges += [(near, far)]
            edges += [(far, node) for node in last[b * size : (b + 1) * size]]
            if size < domains:
                gates[near] = (source // size == a) & (sink // size == b)
    nodes |= {node: task.targets[node].shape[1] for node in last}
    return Problem(Architecture(nodes, edges), task, Gates(nodes=gates))
