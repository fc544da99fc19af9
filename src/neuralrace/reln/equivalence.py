"""The gated network that a ReLU network is, gate by gate, at given weights (P2 Definition 3.1)."""

import itertools
from typing import NamedTuple

import numpy as np

from neuralrace._engine.example_rows import label_rows
from neuralrace.activations import LeakyReLU
from neuralrace.architecture import Architecture, check_weights
from neuralrace.axes import Edge, Weights
from neuralrace.errors import ProblemError, require_kind
from neuralrace.gates import Gates
from neuralrace.problem import Problem

MOST_EDGES = 20_000  # planning more edges than this takes minutes


class Equivalent(NamedTuple):
    """A gated network with the output of a ReLU network.

    problem: one node for each gate pattern of each ReLU node, named h1_0, h1_1, ..., h2_0, ... weights: edge ->
    matrix. members: node -> the neurons of its layer that share the pattern.
    """

    problem: Problem
    weights: dict[Edge, np.ndarray]
    members: dict[str, np.ndarray]


def equivalent(network: Problem, weights: Weights) -> Equivalent:
    """Return the gated network that computes, for every example, what a ReLU network computes at these weights.

    Neurons of a node that are on for the same examples form one node; its gate is 1 where they are on and the slope
    elsewhere. Its gradient is the ReLU network's too, but only while no neuron changes its pattern.
    """
    require_kind("network", network, Problem, ProblemError)
    graph, gates = network.architecture, dict(network.gates.nodes)
    if graph.weights:
        raise ProblemError("a network of free weight matrices is required; this network has parametrized ones")
    checked = check_weights(graph, weights)
    parts = {node: {node: np.arange(size)} for node, size in graph.nodes.items()}
    members: dict[str, np.ndarray] = {}
    for node, received in network.preactivations(checked).items():
        kind = network.activations[node]
        if not isinstance(kind, LeakyReLU) or node in graph.outputs:
            raise ProblemError(
                f"ReLU (or leaky ReLU) hidden nodes are required; node {node!r} has another activation, or is an output"
            )
        own = gates.pop(node, np.ones(1))
        gate = np.where(received > 0, 1.0, kind.slope) * (own if own.ndim == 2 else own[:, None])
        labels = label_rows(received.shape[1], gate)
        parts[node] = {f"{node}_{label}": np.flatnonzero(labels == label) for label in range(labels.max() + 1)}
        gates |= {name: gate[:, neurons[0]] for name, neurons in parts[node].items()}
        members |= parts[node]
    count = sum(len(parts[source]) * len(parts[target]) for source, target in graph.edges.values())
    if count > MOST_EDGES:
        raise ProblemError(
            f"the gated network may have at most {MOST_EDGES:,} edges; this one has {count:,}, because its neurons "
            "have that many different gate patterns: take fewer neurons or examples, or find modules with discover"
        )
    ends: dict[Edge, tuple[str, str]] = {}
    matrices: dict[Edge, np.ndarray] = {}
    edge_gates: dict[Edge, np.ndarray] = {}
    for edge, (source, target) in graph.edges.items():  # every edge joins all parts of its ends
        for s, t in itertools.product(parts[source], parts[target]):
            name: Edge = f"{edge} {s}->{t}" if isinstance(edge, str) else (s, t)
            ends[name] = (s, t)
            matrices[name] = checked[edge][np.ix_(parts[target][t], parts[source][s])]
            if edge in network.gates.edges:
                edge_gates[name] = network.gates.edges[edge]
    nodes = {part: len(neurons) for pieces in parts.values() for part, neurons in pieces.items()}
    named = {name: pair for name, pair in ends.items() if isinstance(name, str)}
    architecture = Architecture(nodes, named or list(ends.values()))
    problem = Problem(architecture, network.task, Gates(gates, edge_gates), biases=network.biases)
    return Equivalent(problem, matrices, members)
