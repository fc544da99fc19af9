"""The gated network that a ReLU network is, gate by gate, at given weights (P2 Definition 3.1)."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from neuralrace._engine.example_rows import label_rows, representatives
from neuralrace.activations import LeakyReLU, leaky_relu
from neuralrace.architecture import Architecture, check_weights
from neuralrace.arrays import frozen_array
from neuralrace.axes import Edge, Weights
from neuralrace.errors import ProblemError, RangeError, WeightError, require_number
from neuralrace.gates import Gates
from neuralrace.problem import BIAS, Problem
from neuralrace.task import Task

MOST_EDGES = 20_000  # a plan of more edges than this takes minutes


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
    if not isinstance(network, Problem):
        raise ProblemError(
            f"a ReLUNetwork, or a Problem with activations, is required; {type(network).__name__} came: use "
            "equivalent_arrays for plain matrices, equivalent_torch for a PyTorch module"
        )
    for node, activation in network.activations.items():
        if not isinstance(activation, LeakyReLU) or node in network.architecture.outputs:
            raise ProblemError(
                f"ReLU (or leaky ReLU) hidden nodes are required; node {node!r} has another activation, or is an output"
            )
    checked = check_weights(network.architecture, weights)
    return _split(network, checked, network.preactivations(checked))


def equivalent_arrays(
    inputs: Any,
    matrices: Sequence[Any],
    *,
    biases: Sequence[Any] | None = None,
    targets: Any = None,
    slope: float = 0.0,
) -> Equivalent:
    """Return the gated network of a ReLU network that is given as plain arrays.

    inputs: (N, size). matrices: from first to last, (target, source) each. biases: one vector, or None, per matrix.
    targets: (N, outputs), for training it on; its own outputs if not given.
    """
    slopes = [require_number("slope", slope)] * (len(matrices) - 1)
    return equivalent(*_chain(inputs, matrices, biases, slopes, targets))


def equivalent_torch(module: Any, inputs: Any, targets: Any = None) -> Equivalent:
    """Return the gated network of a PyTorch nn.Sequential of Linear, with or without bias, and ReLU or LeakyReLU.

    Computed in double precision, whatever the module's own; a bias is the edge from an input node "bias" that is
    always 1. Layers may differ in slope.
    """
    try:
        import torch
    except ImportError:
        raise ProblemError("equivalent_torch needs PyTorch, which is not installed: pip install torch") from None
    matrices: list[Any] = []
    biases: list[Any] = []
    slopes: list[float] = []
    for part in module:
        if isinstance(part, torch.nn.Linear) and len(matrices) == len(slopes):
            own = [
                None if one is None else one.detach().cpu().numpy().astype(float) for one in (part.weight, part.bias)
            ]
            matrices.append(own[0])
            biases.append(own[1])
        elif isinstance(part, (torch.nn.ReLU, torch.nn.LeakyReLU)) and len(matrices) == len(slopes) + 1:
            slopes.append(float(getattr(part, "negative_slope", 0.0)))
        else:
            raise ProblemError(
                "Linear and ReLU (or LeakyReLU) are required in turn, Linear first and last; "
                f"{type(part).__name__} came after {len(matrices)} Linear"
            )
    if len(matrices) < 2 or len(matrices) == len(slopes):
        raise ProblemError(f"at least one ReLU between two Linear is required; {len(matrices)} Linear came")
    return equivalent(*_chain(inputs, matrices, biases, slopes, targets))


def _chain(
    inputs: Any, matrices: Sequence[Any], biases: Sequence[Any] | None, slopes: Sequence[float], targets: Any
) -> tuple[Problem, dict[Edge, np.ndarray]]:
    """The network x -> h1 -> h2 -> ... -> y of some arrays, and its weights."""
    count = len(matrices)
    if count < 2:
        raise RangeError(f"matrices must hold at least two, one of them a read-out; it held {count}")
    given = [None] * count if biases is None else list(biases)
    if len(given) != count:
        raise WeightError(f"biases must hold a vector or None for each of {count} matrices; it held {len(given)}")
    rows = frozen_array("inputs", inputs, 2, WeightError)
    layers = [frozen_array(f"matrix {i}", matrix, 2, WeightError) for i, matrix in enumerate(matrices)]
    nodes = {"x": rows.shape[1]} | {f"h{i}": len(m) for i, m in enumerate(layers[:-1], 1)} | {"y": len(layers[-1])}
    chain = Architecture(nodes, list(itertools.pairwise(nodes)))
    weights: dict[Edge, np.ndarray] = dict(zip(chain.edges, layers, strict=True))
    biased = any(bias is not None for bias in given)
    for i, (node, bias) in enumerate(zip(list(nodes)[1:], given, strict=True)):
        if biased:
            vector = np.zeros(nodes[node]) if bias is None else frozen_array(f"bias {i}", bias, 1, WeightError)
            weights[BIAS, node] = vector[:, None]
    activations = {f"h{i}": leaky_relu(slope) for i, slope in enumerate(slopes, 1)}

    def with_targets(wanted: np.ndarray) -> Problem:
        return Problem(chain, Task({"x": rows}, {"y": wanted}), activations=activations, biases=biased)

    if targets is None:
        targets = with_targets(np.zeros((len(rows), nodes["y"]))).forward(weights)["y"]
    network = with_targets(frozen_array("targets", targets, 2, WeightError))
    return network, check_weights(network.architecture, weights)


def _split(network: Problem, weights: Weights, received: Mapping[str, np.ndarray]) -> Equivalent:
    """Split every ReLU node into nodes of one gate, and every edge between all parts of its ends."""
    parts = {node: {node: np.arange(size)} for node, size in network.architecture.nodes.items()}
    gates = {node: gate for node, gate in network.gates.nodes.items() if node not in received}
    for node, z in received.items():
        activation, own = network.activations[node], network.gates.nodes.get(node, np.ones(1))
        slope = activation.slope if isinstance(activation, LeakyReLU) else 1.0
        gate = np.where(z > 0, 1.0, slope) * (own if own.ndim == 2 else own[:, None])
        labels = label_rows(z.shape[1], gate)
        groups = range(len(representatives(labels)))
        parts[node] = {f"{node}_{label}": np.flatnonzero(labels == label) for label in groups}
        gates |= {name: gate[:, neurons[0]] for name, neurons in parts[node].items()}
    count = sum(len(parts[source]) * len(parts[target]) for source, target in network.architecture.edges.values())
    if count > MOST_EDGES:
        raise ProblemError(
            f"the gated network may have at most {MOST_EDGES:,} edges; this one has {count:,}, because its neurons "
            "have that many different gate patterns: take fewer neurons or examples, or find modules with discover"
        )
    ends: dict[Edge, tuple[str, str]] = {}
    matrices: dict[Edge, np.ndarray] = {}
    edge_gates: dict[Edge, np.ndarray] = {}
    for edge, (source, target) in network.architecture.edges.items():
        for s, t in itertools.product(parts[source], parts[target]):
            name: Edge = f"{edge} {s}->{t}" if isinstance(edge, str) else (s, t)
            ends[name] = (s, t)
            matrices[name] = weights[edge][np.ix_(parts[target][t], parts[source][s])]
            if edge in network.gates.edges:
                edge_gates[name] = network.gates.edges[edge]
    nodes = {part: len(neurons) for pieces in parts.values() for part, neurons in pieces.items()}
    named = {name: pair for name, pair in ends.items() if isinstance(name, str)}
    architecture = Architecture(nodes, named or list(ends.values()))
    problem = Problem(architecture, network.task, Gates(gates, edge_gates), biases=network.biases)
    members = {part: neurons for node in received for part, neurons in parts[node].items()}
    return Equivalent(problem, matrices, members)
