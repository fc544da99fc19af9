"""Networks with parametrized weights, as problems: recurrent, convolutional, autoencoders."""

import itertools

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.errors import ProblemError, TaskError, require_count, require_kind
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.weights import Parametrization, circulant, shared, transposed

__all__ = ["autoencoder", "convolutional", "recurrent"]


def recurrent(task: Task, hidden: int, activation: str | None = None) -> Problem:
    """A recurrent network h_t = f(W h_{t-1} + U x_t), y = V h_T, unrolled in time.

    task: an input node for each time, in this order, of one size, and an output node that is read at the end; or one
    output node for each time. The weights are called "input", "recurrent" and "output" and are shared over time, so
    that they also serve the same network on sequences of another length.
    """
    require_kind("task", task, Task, TaskError)
    inputs, outputs = list(task.inputs), list(task.targets)
    if len(outputs) not in (1, len(inputs)):
        raise ProblemError(
            f"a recurrent network has one output, at the end, or one for each time; there are {len(inputs)} inputs and "
            f"{len(outputs)} outputs"
        )
    for side in (task.inputs, task.targets):
        sizes = {node: rows.shape[1] for node, rows in side.items()}
        if len(set(sizes.values())) > 1:
            raise ProblemError(f"nodes that share weights must have one size; they have {sizes}")
    layer = [f"h{time}" for time in range(1, len(inputs) + 1)]
    if taken := set(layer) & {*inputs, *outputs}:
        raise ProblemError(f"hidden nodes are called h1, h2, ...; the task has a node {min(taken)!r}: rename it")
    size = require_count("hidden", hidden)
    parts: dict[str, list[tuple[str, str]]] = {
        "input": list(zip(inputs, layer, strict=True)),
        "recurrent": list(itertools.pairwise(layer)),
        "output": list(zip(layer[-len(outputs) :], outputs, strict=True)),
    }
    nodes = {node: rows.shape[1] for node, rows in task.inputs.items()} | dict.fromkeys(layer, size)
    nodes |= {node: rows.shape[1] for node, rows in task.targets.items()}
    weights: dict[Edge, Parametrization] = {edge: shared(name) for name, edges in parts.items() for edge in edges}
    architecture = Architecture(nodes, [edge for edges in parts.values() for edge in edges], weights)
    return Problem(architecture, task, activations=dict.fromkeys(layer, activation) if activation else None)


def convolutional(task: Task, kernel: int, depth: int = 2, channels: int = 1, activation: str | None = None) -> Problem:
    """A chain of periodic one-dimensional convolutions from one input node to one output node of the same places.

    kernel: its width. depth: layers of weights. channels: of the hidden layers.
    """
    source, target = _ends(task)
    places = task.inputs[source].shape[1]
    counts = [1, *[require_count("channels", channels)] * (require_count("depth", depth) - 1), 1]
    chain = [source, *(f"h{layer}" for layer in range(1, depth)), target]
    nodes = {node: count * places for node, count in zip(chain, counts, strict=True)}
    if task.targets[target].shape[1] != places:
        raise ProblemError(
            f"a convolution keeps the number of places; there are {places} inputs and "
            f"{task.targets[target].shape[1]} outputs"
        )
    edges = list(itertools.pairwise(chain))
    channels_of = zip(edges, itertools.pairwise(counts), strict=True)
    weights: dict[Edge, Parametrization] = {edge: circulant(kernel, *ends) for edge, ends in channels_of}
    hidden = dict.fromkeys(chain[1:-1], activation) if activation else None
    return Problem(Architecture(nodes, edges, weights), task, activations=hidden)


def autoencoder(task: Task, hidden: int, tied: bool = True, activation: str | None = None) -> Problem:
    """A network x -> h -> y with outputs of the size of its inputs; tied: its decoder is the transposed encoder."""
    source, target = _ends(task)
    inputs, outputs = task.inputs[source].shape[1], task.targets[target].shape[1]
    nodes = {source: inputs, "h": require_count("hidden", hidden), target: outputs}
    encoder, decoder = (source, "h"), ("h", target)
    if tied and inputs != outputs:
        raise ProblemError(f"a tied decoder needs as many outputs as inputs; there are {outputs} and {inputs}")
    weights: dict[Edge, Parametrization] = {decoder: transposed(encoder)} if tied else {}
    architecture = Architecture(nodes, [encoder, decoder], weights)
    return Problem(architecture, task, activations={"h": activation} if activation else None)


def _ends(task: Task) -> tuple[str, str]:
    """The one input and the one output node of a task."""
    require_kind("task", task, Task, TaskError)
    if len(task.inputs) != 1 or len(task.targets) != 1:
        raise ProblemError(
            f"one input node and one output node are required; the task has {len(task.inputs)} and {len(task.targets)}"
        )
    return next(iter(task.inputs)), next(iter(task.targets))
