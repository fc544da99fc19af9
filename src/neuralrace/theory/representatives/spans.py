"""A network with one hidden layer in the coordinates of what its examples span, with any number of neurons."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neuralrace.activations import LeakyReLU
from neuralrace.axes import Edge
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.theory.certificate import Assumption

RANK = 1e-10  # of the largest singular value, below which a direction is not there


def one_hidden_layer(problem: Problem) -> Assumption:
    """One hidden node, rectified, between linear inputs and outputs, without gates; direct edges may lie beside it."""
    nodes, hidden = problem.architecture.nodes, problem.architecture.hidden
    wrong = not_rectified(problem) if len(hidden) == 1 else f"there are {len(hidden)} hidden nodes"
    found = wrong or f"{hidden[0]!r} with {nodes[hidden[0]]} neurons"
    return Assumption("one rectified hidden layer", float(bool(wrong)), 0.0, found)


def not_rectified(problem: Problem) -> str:
    """What keeps a problem from having rectifiers at all hidden nodes, and there alone, and no gates; or nothing."""
    kinds, gates = problem.activations, problem.gates
    if set(kinds) != set(problem.architecture.hidden) or not all(isinstance(k, LeakyReLU) for k in kinds.values()):
        return f"activations are at {', '.join(map(repr, kinds)) or 'no node'}"
    return "the network has gates" if gates.nodes or gates.edges or gates.neurons else ""


@dataclass(frozen=True, eq=False)
class Spans:
    """The problem seen in orthonormal bases of the span of each input's and each output's rows.

    Inputs outside the span are never shown. Outgoing weights outside the span of the targets only decay; they are left
    out, which the small first weights allow. A Gaussian law with one std per edge is the same law in any such bases.
    """

    problem: Problem
    bases: Mapping[str, np.ndarray]  # input or output node -> (size, rank)

    @classmethod
    def of(cls, problem: Problem) -> "Spans":
        """Of the examples that have weight."""
        seen = problem.task.weights > 0
        rows = {**problem.task.inputs, **problem.task.targets}
        return cls(problem, {node: _span(values[seen]) for node, values in rows.items()})

    @property
    def hidden(self) -> str:
        """The hidden node."""
        return self.problem.architecture.hidden[0]

    @cached_property
    def incoming(self) -> tuple[Edge, ...]:
        """The edges that end at it."""
        return tuple(self.problem.architecture.incoming[self.hidden])

    @cached_property
    def outgoing(self) -> tuple[Edge, ...]:
        """The edges that start from it."""
        return tuple(self.problem.architecture.outgoing[self.hidden])

    @property
    def inputs(self) -> int:
        """The number of inputs of a neuron that are told apart."""
        edges = self.problem.architecture.edges
        return sum(self.bases[edges[edge][0]].shape[1] for edge in self.incoming)

    @property
    def outputs(self) -> int:
        """The number of outputs of a neuron that matter."""
        edges = self.problem.architecture.edges
        return sum(self.bases[edges[edge][1]].shape[1] for edge in self.outgoing)

    def network(self, neurons: int) -> Problem:
        """The problem in these coordinates with that many neurons; the same loss."""
        task, sizes = self.problem.task, {node: basis.shape[1] for node, basis in self.bases.items()}
        return Problem(
            self.problem.architecture.resized(sizes | {self.hidden: neurons}),
            Task(
                {node: rows @ self.bases[node] for node, rows in task.inputs.items()},
                {node: rows @ self.bases[node] for node, rows in task.targets.items()},
                task.weights,
            ),
            activations=self.problem.activations,
            biases=self.problem.biases,
        )

    def leave(self, weights: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """Weights in these coordinates as weights between the inputs and outputs that were asked about."""
        left = {}
        for edge, (source, target) in self.problem.architecture.edges.items():
            matrix = weights[edge]
            if target in self.bases:
                matrix = self.bases[target] @ matrix
            if source in self.bases:
                matrix = matrix @ self.bases[source].T
            left[edge] = matrix
        return left

    def neurons(self, weights: Mapping[Edge, np.ndarray]) -> np.ndarray:
        """What enters and what leaves every neuron, side by side; (neurons, inputs + outputs)."""
        return np.hstack([*(weights[edge] for edge in self.incoming), *(weights[edge].T for edge in self.outgoing)])

    def weights(self, neurons: np.ndarray, beside: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """The neurons as weights again, with what lies beside them."""
        edges = self.problem.architecture.edges
        outer = [*(edges[edge][0] for edge in self.incoming), *(edges[edge][1] for edge in self.outgoing)]
        parts = np.split(neurons, np.cumsum([self.bases[node].shape[1] for node in outer])[:-1], axis=1)
        places = enumerate((*self.incoming, *self.outgoing))
        found = {**beside, **{e: parts[i] if e in self.incoming else parts[i].T for i, e in places}}
        return {edge: found[edge] for edge in edges}


def _span(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what the rows span, at least one direction; (size, rank)."""
    if rows.shape[1] == 1:
        return np.ones((1, 1))
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    rank = int((values > RANK * max(float(values.max(initial=0.0)), np.finfo(float).tiny)).sum())
    return np.asarray(right[: max(rank, 1)].T)
