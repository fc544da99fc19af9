"""A chain of rectified layers, whatever its nodes are called, as the ReLU network that it is."""

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from neuralrace.activations import LeakyReLU, as_activation
from neuralrace.architecture import edge_name
from neuralrace.axes import Edge
from neuralrace.errors import ProblemError, require_kind
from neuralrace.initial import ByShape, Initializer, as_data, from_data
from neuralrace.problem import BIAS, Problem, ReLUNetwork
from neuralrace.task import Task
from neuralrace.trajectory import Trajectory


@dataclass(frozen=True)
class Chain:
    """names: of the nodes in a ReLUNetwork, by their own. edges: its edges, each with what it is called here."""

    names: Mapping[str, str]
    edges: Mapping[Edge, Edge]
    slope: float

    def law(self, given: Initializer) -> Initializer:
        """The law of first weights by the edges of the ReLU network."""
        return given.like(self.edges) if isinstance(given, ByShape) else given


def as_relu_network(network: Problem, law: Initializer) -> tuple[ReLUNetwork, Initializer]:
    """The same network with the layers h1, h2, ..., and the law of first weights for it."""
    require_kind("network", network, Problem, ProblemError)
    if isinstance(network, ReLUNetwork):
        return network, law
    chain, nodes = _chain(network.describe(), network.architecture.edges), network.architecture.nodes
    widths = [nodes[own] for own in network.architecture.hidden]
    inputs = {node: rows for node, rows in network.task.inputs.items() if node in chain.names}
    task = Task(inputs, network.task.targets, network.task.weights)
    return ReLUNetwork(task, widths, chain.slope, network.biases), chain.law(law)


def as_relu_run(run: Trajectory) -> Trajectory:
    """The same record with the layers h1, h2, ... and the edges between them; that of a ReLU network is itself."""
    require_kind("run", run, Trajectory, ProblemError)
    told = run.settings
    problem, settings = told["problem"], told["settings"]
    if "slope" in problem:
        return run
    chain = _chain(problem, run.edges)
    names = {node: chain.names.get(node, node) for node in problem["nodes"]}
    inside = names | {edge_name(own): edge_name(edge) for edge, own in chain.edges.items()}
    problem |= {
        "nodes": {names[node]: size for node, size in problem["nodes"].items()},
        "edges": {edge_name(edge): list(edge) for edge in chain.edges},
        "activations": {names[node]: activation for node, activation in problem["activations"].items()},
        "slope": chain.slope,
    }
    law = from_data(settings["initial"])
    if law is not None:
        settings["initial"] = as_data(chain.law(law))
    attrs = {"edges": list(chain.edges), "problem": problem, "settings": settings}
    if "examples" in run.data.attrs:
        listed = json.loads(run.data.attrs["examples"])
        attrs["examples"] = {kind: [names[node] for node in nodes] for kind, nodes in listed.items()}
    variables = {}
    for name in map(str, run.data.data_vars):
        kind, _, own = name.removesuffix("]").partition("[")
        variables[name] = f"{kind}[{inside[own]}]" if own in inside else name
    return Trajectory(run.data.rename(variables).assign_attrs({key: json.dumps(part) for key, part in attrs.items()}))


def as_relu_law(run: Trajectory, law: Initializer) -> Initializer:
    """A law of first weights by the edges of a run, for the same record as a ReLU network's."""
    described = run.settings["problem"]
    return law if "slope" in described else _chain(described, run.edges).law(law)


def _chain(described: Mapping[str, Any], listed: Iterable[Edge]) -> Chain:
    """Of a problem as it describes itself, with its edges; one that is no such chain is refused, and told why."""
    own = dict(zip(listed, map(tuple, described["edges"].values()), strict=True))
    nodes = [node for node in described["nodes"] if not (described["biases"] and node == BIAS)]
    inner = [ends for ends in own.values() if ends[0] in nodes]
    order = [ends[0] for ends in inner[:1]] + [ends[1] for ends in inner]
    if inner != list(itertools.pairwise(order)) or set(order) != set(nodes) or len(order) != len(nodes):
        raise _refused("its edges, as they are listed, are no chain from one input to one output")
    if described["gated_nodes"] or described["gated_edges"]:
        raise _refused("it has gates")
    activations = {node: as_activation(data) for node, data in described["activations"].items()}
    slopes = {one.slope for one in activations.values() if isinstance(one, LeakyReLU)}
    if set(activations) != set(order[1:-1]) or len(slopes) != 1:
        raise _refused("not every hidden node, and no other, is rectified with one slope")
    names = dict(zip(order, ["x", *(f"h{i}" for i in range(1, len(order) - 1)), "y"], strict=True))
    joined = {edge: (names.get(source, source), names[target]) for edge, (source, target) in own.items()}
    return Chain(names, {pair: edge for edge, pair in joined.items()}, slopes.pop())


def _refused(why: str) -> ProblemError:
    return ProblemError(f"a chain of rectified layers is required; {why}: make one with ReLUNetwork(task, hidden=...)")
