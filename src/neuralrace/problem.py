"""A problem: an architecture, a task, gates and activations that fit together; a ReLU network is one of a chain."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import shorten
from typing import Any

import numpy as np

from neuralrace._engine.example_rows import compress_task, edge_gates
from neuralrace._engine.network import Network, as_numpy, compiled_examples, compiled_gradient, compiled_loss
from neuralrace._engine.plan import make_network
from neuralrace.activations import Activation, as_activation, leaky_relu
from neuralrace.architecture import Architecture, check_weights
from neuralrace.arrays import float64
from neuralrace.axes import Edge, Weights
from neuralrace.errors import (
    GateError,
    ProblemError,
    RangeError,
    TaskError,
    require_count,
    require_kind,
    require_known,
    shortened,
)
from neuralrace.gates import Gates
from neuralrace.statistics import PathStatistics
from neuralrace.task import Task

BIAS = "bias"  # the input node of size one that biases are the weights of


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """A network and the examples that it learns: h_v = f_v(g_v sum_e g_e W_e h_s(e)).

    activations: node -> f_v, a name such as "relu" or a value such as leaky_relu(0.01); linear unless named. biases: an
    input node "bias" that is always one joins every other node, so a bias is the weight of an edge like any other;
    the initializers start it at zero.
    """

    architecture: Architecture
    task: Task
    gates: Gates
    activations: Mapping[str, Activation]
    biases: bool

    def __init__(
        self,
        architecture: Architecture,
        task: Task,
        gates: Gates | None = None,
        activations: Mapping[str, Any] | None = None,
        biases: bool = False,
    ) -> None:
        gates = Gates() if gates is None else gates
        require_kind("architecture", architecture, Architecture, ProblemError)
        require_kind("task", task, Task, ProblemError)
        require_kind("gates", gates, Gates, ProblemError)
        require_kind("activations", {} if activations is None else activations, Mapping, ProblemError)
        if biases:
            architecture, task = _with_biases(architecture, task)
        made: dict[str, Activation] = {}
        for node, given in (activations or {}).items():
            require_known(node, architecture.nodes, f"activations name unknown node {node!r}")
            if node in architecture.inputs:
                raise ProblemError(
                    f"an activation acts on what a node receives, and nothing enters input node {node!r}: leave it out"
                )
            made[node] = as_activation(given)
        task.check_fit(architecture)
        gates.check_fit(architecture, len(task))
        for node, activation in made.items():  # activating a gated sum and gating the activity must agree
            values = np.ones(1) if node in gates.neurons else gates.nodes.get(node, np.ones(1))
            allowed = (values >= 0) if activation.homogeneous else np.isin(values, (0.0, 1.0))
            if not allowed.all():
                required = "must not be negative" if activation.homogeneous else "must be 0 or 1"
                example = int(np.argmin(allowed))
                raise GateError(
                    f"the gate of node {node!r}, which has an activation, {required}; example {example} has "
                    f"{values[example]:g}: gate its outgoing edges instead"
                )
        object.__setattr__(self, "architecture", architecture)
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "gates", gates)
        object.__setattr__(self, "activations", made)
        object.__setattr__(self, "biases", bool(biases))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{node}: {size}" for node, size in self.architecture.nodes.items())
        parts = [f"{len(self.task)} examples", *([repr(self.gates)] if self.gates.nodes or self.gates.edges else [])]
        parts += [f"{name}: {activation!r}" for name, activation in self.activations.items()]
        shown = shorten(sizes, 80, placeholder=" ..."), shorten(", ".join(parts), 120, placeholder=" ...")
        return f"{type(self).__name__}({'; '.join(shown)})"

    def forward(self, weights: Weights) -> dict[str, np.ndarray]:
        """The outputs for every example: {output: (N, size)}."""
        activity = self.activity(weights)
        return {node: activity[node] for node in self.architecture.outputs}

    @float64
    def activity(self, weights: Weights, *, received: bool = False) -> dict[str, np.ndarray]:
        """The activity of every hidden and output node for every example: {node: (N, size)}; received: before f_v."""
        network = self.every_example
        found = compiled_examples(network, network.stack(check_weights(self.architecture, weights)), received)
        return {node: np.asarray(found[node]) for node in (*self.architecture.hidden, *self.architecture.outputs)}

    def preactivations(self, weights: Weights) -> dict[str, np.ndarray]:
        """The input of the activation of every node that has one, for every example: {node: (N, size)}."""
        received = self.activity(weights, received=True)
        return {node: received[node] for node in self.architecture.order if node in self.activations}

    @float64
    def loss(self, weights: Weights) -> float:
        """Half the weighted mean squared error, summed over the output nodes."""
        network = self.network
        return float(compiled_loss(network, network.stack(check_weights(self.architecture, weights))))

    @float64
    def gradient(self, weights: Weights) -> dict[Edge, np.ndarray]:
        """The derivative of the loss with respect to every parameter, by automatic differentiation."""
        network = self.network
        gradient = compiled_gradient(network, network.stack(check_weights(self.architecture, weights)))
        by_edge = network.unstack(as_numpy(gradient))
        return {edge: by_edge[edge] for edge in self.architecture.parameters}

    def edge_matrices(self, weights: Weights) -> dict[Edge, np.ndarray]:
        """The matrix of every edge, (target, source), from the parameters."""
        return {
            e: np.asarray(m) for e, m in self.architecture.matrices(check_weights(self.architecture, weights)).items()
        }

    def compress(self) -> "Problem":
        """Return an equivalent problem with few examples: the same loss and gradient at all weights.

        With activations or gates of single neurons only examples without weight can be left out.
        """
        if self.activations or self.gates.neurons:
            return self.with_weight
        folded = edge_gates(self.architecture, self.gates, len(self.task))
        visible = {
            node: np.logical_or.reduce([folded[e] != 0 for e in self.architecture.outgoing[node]])
            for node in self.architecture.inputs
        }
        task, origin = compress_task(self.task, folded.values(), visible)
        if task is self.task:
            return self
        return Problem(self.architecture, task, self.gates.take(origin))

    @cached_property
    def with_weight(self) -> "Problem":
        """Return the problem without the examples of weight zero."""
        kept = np.flatnonzero(self.task.weights > 0)
        if len(kept) == len(self.task):
            return self
        return Problem(self.architecture, self.task.take(kept), self.gates.take(kept), self.activations)

    def on(self, task: Task, gates: Gates | None = None) -> "Problem":
        """Return the same network on other examples, with their gates where it has some.

        Several inputs or outputs of the task are concatenated where the network has one, as in a ReLUNetwork.
        """
        require_kind("task", task, Task, ProblemError)
        if gates is None and (self.gates.nodes or self.gates.edges):
            raise ProblemError(
                "the gates of the other examples are required, because this network has gates: give a Problem of the "
                "same architecture, with these examples and their gates"
            )
        inputs, targets = dict(task.inputs), dict(task.targets)
        own = [node for node in self.architecture.inputs if not (self.biases and node == BIAS)]
        if len(own) == len(self.architecture.outputs) == 1:
            inputs = {own[0]: side_by_side(inputs)}
            targets = {self.architecture.outputs[0]: side_by_side(targets)}
        if self.biases:
            inputs[BIAS] = np.ones((len(task), 1))
        return Problem(self.architecture, Task(inputs, targets, task.weights), gates, self.activations, self.biases)

    def resized(self, sizes: Mapping[str, int], neurons: Mapping[str, Any] | None = None) -> "Problem":
        """Return the same network with other widths; built and planned once for each choice of widths.

        neurons: gates of single neurons that fit these widths, in place of those that do not.
        """
        key = tuple(sizes.items())
        if not neurons and key in self._resized:
            return self._resized[key]
        gates = Gates({**self.gates.nodes, **(neurons or {})}, self.gates.edges)
        made = Problem(self.architecture.resized(sizes), self.task, gates, self.activations, self.biases)
        return made if neurons else self._resized.setdefault(key, made)

    @cached_property
    def _resized(self) -> "dict[tuple[tuple[str, int], ...], Problem]":
        return {}

    def statistics(self) -> PathStatistics:
        """The moments of the examples that each path lets through (P1 eqs 5-6); linear nodes only."""
        if self.gates.neurons:
            raise ProblemError(
                f"statistics require one gate per node; {', '.join(map(repr, self.gates.neurons))} have one for every "
                f"neuron: make each neuron, or each group with equal gates, a node of its own"
            )
        if self.activations:
            raise ProblemError(
                f"statistics require linear nodes; {', '.join(map(repr, self.activations))} have an activation, "
                f"so moments do not determine how the network learns: predict it with method='flow', or train it"
            )
        return self._statistics

    @cached_property
    def _statistics(self) -> PathStatistics:
        return PathStatistics.of_examples(self.architecture, self.task, self.gates)

    @cached_property
    def network(self) -> Network:
        """The network as JAX functions for squared error, on the compressed examples."""
        small = self.compress()
        return make_network(small.architecture, small.task, small.gates, small.activations)

    @cached_property
    def examples_apart(self) -> Network:
        """The network as JAX functions for any loss, on the examples that have weight."""
        some = self.with_weight
        return make_network(some.architecture, some.task, some.gates, some.activations, compressed=False)

    @cached_property
    def every_example(self) -> Network:
        """The network as JAX functions of every node for every example."""
        parts = self.architecture, self.task, self.gates, self.activations
        return make_network(*parts, compressed=False, every_example=True)


def problems_to_evaluate(problem: Problem, evaluate: Mapping[str, Any] | None) -> dict[str, Problem]:
    """Check what `train` and `predict` evaluate: name -> other examples, as a task or a problem of the same graph."""
    found: dict[str, Problem] = {}
    if isinstance(evaluate, Task | Problem):
        raise TaskError("evaluate must name the other examples: give evaluate={'test': task}")
    require_kind("evaluate", {} if evaluate is None else evaluate, Mapping, TaskError)
    for name, given in (evaluate or {}).items():
        require_kind(f"evaluate[{name!r}]", given, (Task, Problem), TaskError)
        other = problem.on(given) if isinstance(given, Task) else given
        graph, own = other.architecture, problem.architecture
        if not isinstance(name, str) or "]" in name or graph != own:
            raise ProblemError(
                f"evaluate must map names, without brackets, to examples for the same graph; {name!r} has "
                f"{shortened(given)}"
            )
        found[name] = other
    return found


def ReLUNetwork(  # noqa: N802 (named after what it makes)
    task: Task, hidden: int | Sequence[int] = (128,), slope: float = 0.0, biases: bool = False
) -> Problem:
    """A fully connected network x -> h1 -> h2 -> ... -> y with rectified hidden layers, and its task, as a problem.

    Several input nodes of the task are concatenated into one, several outputs likewise. hidden: the width of each
    hidden layer. slope: the factor for negative pre-activations; 0 is the ReLU. biases: see Problem.
    """
    require_kind("task", task, Task, TaskError)
    widths: tuple[Any, ...] = (hidden,) if np.ndim(hidden) == 0 else tuple(hidden)  # type: ignore[arg-type]
    if not widths:
        raise RangeError("hidden must name the width of at least one hidden layer; it was empty")
    layers = {f"h{i}": require_count(f"the width of hidden layer {i}", w) for i, w in enumerate(widths, start=1)}
    named = {"x": task.input_names, "y": task.output_names}
    names = {node: titles for node, titles in named.items() if titles}
    one = Task({"x": side_by_side(task.inputs)}, {"y": side_by_side(task.targets)}, task.weights, names=names)
    nodes = {"x": one.inputs["x"].shape[1], **layers, "y": one.targets["y"].shape[1]}
    chain = Architecture(nodes, list(itertools.pairwise(nodes)))
    return Problem(chain, one, activations=dict.fromkeys(layers, leaky_relu(slope)), biases=biases)


def side_by_side(by_node: Any) -> np.ndarray:
    """Concatenate the rows of several nodes."""
    return np.hstack(list(by_node.values()))


def _with_biases(architecture: Architecture, task: Task) -> tuple[Architecture, Task]:
    """Connect an input node that is always one to every other node, unless there is one already."""
    if BIAS in architecture.nodes:
        rows = task.inputs.get(BIAS)
        if rows is None or rows.shape[1] != 1 or not (rows == 1).all():
            raise ProblemError(
                f"with biases=True the node {BIAS!r} is an input that is always one; this architecture has another "
                f"node of that name: rename it"
            )
        return architecture, task
    added = {f"{BIAS}->{node}": (BIAS, node) for node in architecture.nodes if node not in architecture.inputs}
    edges = architecture.listed_edges
    edges = [*edges, *added.values()] if isinstance(edges, list) else {**edges, **added}
    inputs = {**task.inputs, BIAS: np.ones((len(task), 1))}
    wider = Task(inputs, task.targets, task.weights, names=task.names)
    return Architecture({**architecture.nodes, BIAS: 1}, edges, architecture.weights), wider
