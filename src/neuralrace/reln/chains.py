"""A chain of rectified layers, whatever its nodes are called, as the ReLU network that it is."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from neuralrace.activations import LeakyReLU
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

    def law(self, given: Any) -> Any:
        """The law of first weights by the edges of the ReLU network."""
        return given.like(self.edges) if isinstance(given, ByShape) else given


def as_relu_network(network: Problem, law: Any) -> tuple[ReLUNetwork, Any]:
    """The same network with the layers h1, h2, ..., and the law of first weights for it."""
    require_kind("network", network, Problem, ProblemError)
    if isinstance(network, ReLUNetwork):
        return network, law
    chain, nodes = _chain(network), network.architecture.nodes
    widths = [nodes[own] for own in network.architecture.hidden]
    inputs = {node: rows for node, rows in network.task.inputs.items() if node in chain.names}
    task = Task(inputs, network.task.targets, network.task.weights)
    return ReLUNetwork(task, widths, chain.slope, network.biases), chain.law(law)


def as_relu_run(run: Trajectory) -> Trajectory:
    """The same record with the layers h1, h2, ... and the edges between them; that of a ReLU network is itself."""
    require_kind("run", run, Trajectory, ProblemError)
    if run.problem is None or isinstance(run.problem, ReLUNetwork):
        return run
    chain = _chain(run.problem)
    network, law = as_relu_network(run.problem, from_data(run.settings["initial"]))
    settings = run.settings if law is None else run.settings | {"initial": as_data(law)}
    inside = {**chain.names, **{edge_name(own): edge_name(edge) for edge, own in chain.edges.items()}}
    variables = {}
    for name in map(str, run.data.data_vars):
        kind, _, own = name.removesuffix("]").partition("[")
        variables[name] = f"{kind}[{inside[own]}]" if own in inside else name
    data = run.data.rename(variables).assign_attrs(settings=json.dumps(settings))
    return Trajectory(data, problem=network)


def as_relu_law(run: Trajectory, law: Initializer) -> Initializer:
    """A law of first weights by the edges of a run, for the same record as a ReLU network's."""
    return law if run.problem is None else as_relu_network(run.problem, law)[1]


def _chain(problem: Problem) -> Chain:
    """Refuse a problem that is no such chain, and say why."""
    own = problem.architecture.edges
    nodes = [node for node in problem.architecture.nodes if not (problem.biases and node == BIAS)]
    inner = [ends for ends in own.values() if ends[0] in nodes]
    order = [ends[0] for ends in inner[:1]] + [ends[1] for ends in inner]
    if inner != list(itertools.pairwise(order)) or set(order) != set(nodes) or len(order) != len(nodes):
        raise _refused("its edges, as they are listed, are no chain from one input to one output")
    if problem.gates.nodes or problem.gates.edges:
        raise _refused("it has gates")
    slopes = {one.slope for one in problem.activations.values() if isinstance(one, LeakyReLU)}
    if set(problem.activations) != set(order[1:-1]) or len(slopes) != 1:
        raise _refused("not every hidden node, and no other, is rectified with one slope")
    names = dict(zip(order, ["x", *(f"h{i}" for i in range(1, len(order) - 1)), "y"], strict=True))
    joined = {edge: (names.get(source, source), names[target]) for edge, (source, target) in own.items()}
    return Chain(names, {pair: edge for edge, pair in joined.items()}, slopes.pop())


def _refused(why: str) -> ProblemError:
    return ProblemError(f"a chain of rectified layers is required; {why}: make one with ReLUNetwork(task, hidden=...)")
