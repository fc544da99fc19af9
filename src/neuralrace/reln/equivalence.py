"""The gated network that a ReLU network is, gate by gate, at given weights (P2 Definition 3.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from neuralrace._engine.equal_rows import partition, representatives
from neuralrace.architecture import Architecture
from neuralrace.arrays import frozen_array
from neuralrace.axes import Edge, Weights
from neuralrace.errors import ProblemError, RangeError, WeightError, require_number
from neuralrace.gates import Gates
from neuralrace.problem import Problem, check_weights
from neuralrace.task import Task
from neuralrace.training import ReLUNetwork

BIAS = "one"  # an input node that is always 1 and sends the biases
MOST_EDGES = 20_000  # a plan of more edges than this takes minutes


class Equivalent(NamedTuple):
    """A gated network with the output of a ReLU network.

    problem: one hidden node for each gate pattern of each layer, named h1_0, h1_1, ..., h2_0, ... weights: edge ->
    matrix. members: hidden node -> the neurons of its layer that share the pattern.
    """

    problem: Problem
    weights: dict[Edge, np.ndarray]
    members: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class AffineMap:
    """One linear map and the slope, for negative values, of the rectifier after it (None after the last)."""

    matrix: np.ndarray  # (target, source)
    bias: np.ndarray | None
    slope: float | None


def equivalent(network: ReLUNetwork, weights: Weights) -> Equivalent:
    """Return the gated network that computes, for every example, what a ReLU network computes at these weights.

    Neurons of a layer that are on for the same examples form one node; its gate is 1 where they are on and the slope of
    the rectifier elsewhere. Its gradient is the ReLU network's too, but only while no neuron changes its pattern.
    """
    if not isinstance(network, ReLUNetwork):
        raise ProblemError(
            f"a ReLUNetwork is required; {type(network).__name__} came: use equivalent_arrays for plain matrices, "
            "equivalent_torch for a PyTorch module"
        )
    checked = check_weights(network.architecture, weights)
    matrices = [checked[edge] for edge in network.architecture.edges]
    received = list(network.preactivations(checked).values())
    slopes = [*(network.slope for _ in network.hidden), None]
    layers = [AffineMap(matrix, None, slope) for matrix, slope in zip(matrices, slopes, strict=True)]
    return _build(network.inputs, network.targets, network.task.weights, layers, received)


def equivalent_arrays(
    inputs: Any,
    matrices: Sequence[Any],
    preactivations: Sequence[Any] | None = None,
    *,
    biases: Sequence[Any] | None = None,
    targets: Any = None,
    slope: float = 0.0,
) -> Equivalent:
    """Return the gated network of a ReLU network that is given as plain arrays.

    inputs: (N, size). matrices: from first to last, (target, source) each. preactivations: (N, width) for every hidden
    layer, whose signs are the gates; computed if not given. biases: one vector, or None, per matrix. targets:
    (N, outputs), for training it on; its own outputs if not given.
    """
    slope = require_number("slope", slope)
    count = len(matrices)
    if count < 2:
        raise RangeError(f"matrices must hold at least two, one of them a read-out; it held {count}")
    given = [None] * count if biases is None else list(biases)
    if len(given) != count:
        raise WeightError(f"biases must hold a vector or None for each of {count} matrices; it held {len(given)}")
    layers = [
        AffineMap(
            frozen_array(f"matrix {i}", matrix, 2, WeightError),
            None if bias is None else frozen_array(f"bias {i}", bias, 1, WeightError),
            slope if i < count - 1 else None,
        )
        for i, (matrix, bias) in enumerate(zip(matrices, given, strict=True))
    ]
    rows = frozen_array("inputs", inputs, 2, WeightError)
    _check_chain(rows, layers)
    received, output = _propagate(rows, layers)
    if preactivations is not None:
        received = [frozen_array(f"preactivations {i}", z, 2, WeightError) for i, z in enumerate(preactivations)]
        _check_received(received, layers, len(rows))
    wanted = output if targets is None else frozen_array("targets", targets, 2, WeightError)
    return _build(rows, wanted, None, layers, received)


def equivalent_torch(module: Any, inputs: Any, targets: Any = None) -> Equivalent:
    """Return the gated network of a PyTorch nn.Sequential of Linear, with or without bias, and ReLU or LeakyReLU.

    Computed in double precision, whatever the module's own; a bias is the edge from an input node "one" that is
    always 1. Rectifiers may differ in slope.
    """
    try:
        import torch
    except ImportError:
        raise ProblemError("equivalent_torch needs PyTorch, which is not installed: pip install torch") from None
    layers: list[AffineMap] = []
    for part in module:
        if isinstance(part, torch.nn.Linear) and (not layers or layers[-1].slope is not None):
            bias = None if part.bias is None else _from_torch(part.bias)
            layers.append(AffineMap(_from_torch(part.weight), bias, None))
        elif isinstance(part, (torch.nn.ReLU, torch.nn.LeakyReLU)) and layers and layers[-1].slope is None:
            slope = float(getattr(part, "negative_slope", 0.0))
            layers[-1] = AffineMap(layers[-1].matrix, layers[-1].bias, slope)
        else:
            raise ProblemError(
                "Linear and ReLU (or LeakyReLU) are required in turn, Linear first and last; "
                f"{type(part).__name__} came after {len(layers)} Linear"
            )
    if len(layers) < 2 or layers[-1].slope is not None:
        raise ProblemError(f"at least one ReLU between two Linear is required; {len(layers)} Linear came")
    rows = frozen_array("inputs", inputs, 2, WeightError)
    _check_chain(rows, layers)
    received, output = _propagate(rows, layers)
    wanted = output if targets is None else frozen_array("targets", targets, 2, WeightError)
    return _build(rows, wanted, None, layers, received)


def _from_torch(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float64)


def _check_chain(rows: np.ndarray, layers: Sequence[AffineMap]) -> None:
    size = rows.shape[1]
    for i, layer in enumerate(layers):
        if layer.matrix.shape[1] != size:
            raise WeightError(
                f"matrix {i} must have {size} columns, what it receives; it has shape {layer.matrix.shape}"
            )
        size = layer.matrix.shape[0]
        if layer.bias is not None and len(layer.bias) != size:
            raise WeightError(f"bias {i} must have {size} entries; it has {len(layer.bias)}")


def _check_received(received: Sequence[np.ndarray], layers: Sequence[AffineMap], count: int) -> None:
    wanted = [(count, len(layer.matrix)) for layer in layers[:-1]]
    found = [z.shape for z in received]
    if found != wanted:
        raise WeightError(f"preactivations must have the shapes (examples, width) {wanted}; they have {found}")


def _propagate(rows: np.ndarray, layers: Sequence[AffineMap]) -> tuple[list[np.ndarray], np.ndarray]:
    """Pre-activations of the hidden layers, and the output."""
    received: list[np.ndarray] = []
    for layer in layers:
        arriving = rows @ layer.matrix.T + (0.0 if layer.bias is None else layer.bias)
        if layer.slope is None:
            return received, arriving
        received.append(arriving)
        rows = np.where(arriving > 0, arriving, layer.slope * arriving)
    raise ProblemError("the last layer must be linear")  # the callers have seen to it


def _build(
    inputs: np.ndarray,
    targets: np.ndarray,
    example_weights: np.ndarray | None,
    layers: Sequence[AffineMap],
    received: Sequence[np.ndarray],
) -> Equivalent:
    """Split every hidden layer into nodes of one pattern and join all nodes of one layer to all of the next."""
    biased = any(layer.bias is not None for layer in layers)
    nodes: dict[str, int] = {"x": inputs.shape[1]} | ({BIAS: 1} if biased else {})
    members: dict[str, np.ndarray] = {}
    gates: dict[str, np.ndarray] = {}
    weights: dict[Edge, np.ndarray] = {}
    sources: Mapping[str, np.ndarray] = {"x": np.arange(inputs.shape[1])}
    for number, layer in enumerate(layers, start=1):
        if layer.slope is None:
            targets_of_layer = {"y": np.arange(len(layer.matrix))}
        else:
            targets_of_layer, own = _split(f"h{number}", received[number - 1], layer.slope)
            members, gates = members | targets_of_layer, gates | own
        _check_size(len(weights) + len(sources) * len(targets_of_layer))
        for target, rows in targets_of_layer.items():
            nodes[target] = len(rows)
            for source, columns in sources.items():
                weights[source, target] = layer.matrix[np.ix_(rows, columns)]
            if layer.bias is not None:
                weights[BIAS, target] = layer.bias[rows][:, None]
        sources = targets_of_layer
    data = {"x": inputs} | ({BIAS: np.ones((len(inputs), 1))} if biased else {})
    architecture = Architecture(nodes, list(weights))  # type: ignore[arg-type]
    problem = Problem(architecture, Task(data, {"y": targets}, example_weights), Gates(nodes=gates))
    return Equivalent(problem, weights, members)


def _split(name: str, received: np.ndarray, slope: float) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Nodes of one layer: name -> neurons, and name -> gate."""
    on = received > 0
    labels = partition(on.shape[1], on)
    neurons = {f"{name}_{label}": np.flatnonzero(labels == label) for label in range(len(representatives(labels)))}
    return neurons, {node: np.where(on[:, chosen[0]], 1.0, slope) for node, chosen in neurons.items()}


def _check_size(edges: int) -> None:
    if edges > MOST_EDGES:
        raise ProblemError(
            f"the gated network may have at most {MOST_EDGES:,} edges; this one has {edges:,}, because its neurons "
            "have so many different gate patterns: take fewer neurons or examples, or look for modules with discover"
        )
