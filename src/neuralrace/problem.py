"""A problem: an architecture, a task and gates that fit together."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neuralrace._engine.compression import compress_task
from neuralrace._engine.gated_network import GatedNetwork, as_numpy
from neuralrace._engine.open_edges import edge_gates
from neuralrace._engine.plan import make_plan
from neuralrace.architecture import Architecture, edge_name
from neuralrace.axes import Edge, Weights
from neuralrace.errors import GateError, ProblemError, UnknownNameError, WeightError, nearest
from neuralrace.gates import Gates
from neuralrace.path_statistics import PathStatistics
from neuralrace.precision import float64
from neuralrace.task import Task


@dataclass(frozen=True, eq=False)
class Problem:
    """A gated deep linear network and the examples that it learns."""

    architecture: Architecture
    task: Task
    gates: Gates

    def __init__(self, architecture: Architecture, task: Task, gates: Gates | None = None) -> None:
        for name, value, kind in (
            ("architecture", architecture, Architecture),
            ("task", task, Task),
            ("gates", Gates() if gates is None else gates, Gates),
        ):
            if not isinstance(value, kind):
                raise ProblemError(f"{name} must be of type {kind.__name__}; it was {type(value).__name__}")
        object.__setattr__(self, "architecture", architecture)
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "gates", Gates() if gates is None else gates)
        _check_data(architecture, task)
        _check_gates(architecture, task, self.gates)

    @float64
    def forward(self, weights: Weights) -> dict[str, np.ndarray]:
        """The outputs for every example: {output: (N, size)}."""
        activity = self.activity(weights)
        return {node: activity[node] for node in self.architecture.outputs}

    @float64
    def activity(self, weights: Weights) -> dict[str, np.ndarray]:
        """The activity of every hidden and output node for every example: {node: (N, size)}."""
        network = self._evaluation_network
        rows = network.compiled_blocks(network.stack(check_weights(self.architecture, weights)))
        return {
            node: network.plan.states[node].per_example() @ np.asarray(network.node_rows(rows, node))
            for node in (*self.architecture.hidden, *self.architecture.outputs)
        }

    @float64
    def loss(self, weights: Weights) -> float:
        """Half the weighted mean squared error, summed over the output nodes."""
        network = self.network
        return float(network.compiled_loss(network.stack(check_weights(self.architecture, weights))))

    @float64
    def gradient(self, weights: Weights) -> dict[Edge, np.ndarray]:
        """The derivative of the loss with respect to every weight matrix, by automatic differentiation."""
        network = self.network
        gradient = network.compiled_gradient(network.stack(check_weights(self.architecture, weights)))
        by_edge = network.unstack(as_numpy(gradient))
        return {edge: by_edge[edge] for edge in self.architecture.edges}

    def compress(self) -> "Problem":
        """An equal problem with few examples: the same loss and gradient at every weight."""
        folded = edge_gates(self.architecture, self.gates, len(self.task))
        visible = {
            node: np.logical_or.reduce([folded[e] != 0 for e in self.architecture.outgoing[node]])
            for node in self.architecture.inputs
        }
        task, origin = compress_task(self.task, folded.values(), visible)
        if task is self.task:
            return self
        return Problem(self.architecture, task, self.gates.take(origin))

    def statistics(self) -> PathStatistics:
        """The moments of the examples that each path lets through (P1 eqs 5-6)."""
        return self._statistics

    def describe(self) -> dict[str, object]:
        """What the problem is, in plain values that can be stored with a result."""
        return {
            "nodes": dict(self.architecture.nodes),
            "edges": {edge_name(e): list(ends) for e, ends in self.architecture.edges.items()},
            "examples": len(self.task),
            "gated_nodes": list(self.gates.nodes),
            "gated_edges": [edge_name(e) for e in self.gates.edges],
        }

    @cached_property
    def _statistics(self) -> PathStatistics:
        return PathStatistics.of_examples(self.architecture, self.task, self.gates)

    @cached_property
    def network(self) -> GatedNetwork:
        """The network as JAX functions for squared error, on the compressed examples."""
        small = self.compress()
        return GatedNetwork(make_plan(small.architecture, small.task, small.gates))

    @cached_property
    def _evaluation_network(self) -> GatedNetwork:
        plan = make_plan(self.architecture, self.task, self.gates, reduce_outputs=False, to_outputs_only=False)
        return GatedNetwork(plan)


def check_weights(architecture: Architecture, weights: Weights) -> dict[Edge, np.ndarray]:
    """Return the weights as float64 matrices in the order of the edges, or name the edge that does not fit."""
    if not isinstance(weights, Mapping):
        raise WeightError(f"weights must map every edge to its matrix; it was {type(weights).__name__}")
    for edge in weights:
        if edge not in architecture.edges:
            raise UnknownNameError(
                f"weights name edge {edge!r}, which is not there; {nearest(edge, architecture.edges)}"
            )
    checked: dict[Edge, np.ndarray] = {}
    for edge in architecture.edges:
        if edge not in weights:
            raise WeightError(f"weights must have a matrix for edge {edge!r}; it is missing")
        try:
            matrix = np.asarray(weights[edge], dtype=np.float64)
        except (TypeError, ValueError):
            raise WeightError(
                f"the weights of edge {edge!r} must be a matrix of numbers; they were {type(weights[edge]).__name__}"
            ) from None
        if matrix.shape != architecture.shape(edge):
            raise WeightError(
                f"the weights of edge {edge!r} must have shape (target, source) = {architecture.shape(edge)}; "
                f"they have {matrix.shape}"
            )
        if not np.isfinite(matrix).all():
            row, column = (int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
            raise WeightError(
                f"the weights of edge {edge!r} must be finite; they hold {matrix[row, column]} in row {row}, "
                f"column {column}"
            )
        checked[edge] = matrix
    return checked


def _check_data(architecture: Architecture, task: Task) -> None:
    for kind, nodes, rows, fault in (
        ("input", architecture.inputs, task.inputs, "no edge enters it, so it is unreachable"),
        ("output", architecture.outputs, task.targets, "no edge leaves it, so it is a dead end"),
    ):
        for node in nodes:
            if node not in rows:
                raise ProblemError(
                    f"the task must give rows for every {kind} node; node {node!r} has none ({fault}): "
                    f"give it data, or join it to the rest; the task has {', '.join(map(repr, rows))}"
                )
        for node, array in rows.items():
            if node not in architecture.nodes:
                raise UnknownNameError(
                    f"the task has {kind} rows for node {node!r}, which is not there; {nearest(node, nodes)}"
                )
            if node not in nodes:
                raise ProblemError(
                    f"the task has {kind} rows for node {node!r}, which is not an {kind} node of the architecture; "
                    f"{kind} nodes: {', '.join(map(repr, nodes))}"
                )
            if array.shape[1] != architecture.nodes[node]:
                raise ProblemError(
                    f"node {node!r} has size {architecture.nodes[node]} and its {kind} rows have {array.shape[1]} "
                    f"columns: make them equal"
                )


def _check_gates(architecture: Architecture, task: Task, gates: Gates) -> None:
    for kind, given, known in (
        ("node", gates.nodes, architecture.nodes),
        ("edge", gates.edges, architecture.edges),
    ):
        for name, values in given.items():
            if name not in known:
                raise GateError(f"there is a gate for {kind} {name!r}, which is not there; {nearest(name, known)}")
            if len(values) != len(task):
                raise GateError(
                    f"the gate of {kind} {name!r} must have one value per example, {len(task)}; it has {len(values)}"
                )
