"""The method `representatives`: a few neurons that represent a rectified hidden layer of any width.

By 2-homogeneity a neuron scaled by sqrt(w) counts w times.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np

from neuralrace._engine.subspace import Bases, lift
from neuralrace.activations import LeakyReLU
from neuralrace.axes import Edge
from neuralrace.initial import Gaussian
from neuralrace.memory import require_size
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.flow.method import examples, outcome_of
from neuralrace.theory.flow.simulation import Simulation
from neuralrace.theory.method import Method, Outcome, Request


@dataclass(frozen=True, repr=False)
class Representatives(Method["Spans"]):
    """Draw neurons from the initializer, each for several of the layer, and follow them.

    A layer of up to `most` neurons is followed as it is, in the coordinates that its examples span. Of a wider one
    `most` neurons are drawn: in opposite pairs, with the second moments of the initializer, each for width / most. The
    rule is the same for every task. small: tolerance of the initial output relative to the targets. at_once: the most
    steps that are taken as one with dynamics="descent", once the loss has halved and as far as its curvature allows.
    """

    name: ClassVar[str] = "representatives"
    linear: ClassVar[bool] = False
    most: int = 1024
    small: float = 0.01
    at_once: int = 6

    def setup(self, request: Request) -> "tuple[tuple[Assumption, ...], Spans | None]":
        """Require one rectified layer of independent normal neurons with a small initial output."""
        problem, there = examples(request)
        if problem is None:
            return (there,), None
        layer, initial = one_hidden_layer(problem), request.initial
        normal = Assumption("independent normal neurons", 0.0, 0.0, repr(initial))
        if not isinstance(initial, Gaussian):
            kind = repr(initial) if callable(initial) else "weights were given"
            return (there, layer, Assumption("independent normal neurons", 1.0, 0.0, kind)), None
        if not layer.holds:
            return (there, layer, normal), None
        size = initial_output(problem, initial)
        tiny = Assumption("small initial weights", size, self.small, "the initial output relative to the targets")
        return (there, layer, normal, tiny), Spans.of(problem)

    def solve(self, request: Request, prepared: "Spans") -> Outcome:
        """Follow the layer itself, or a subsample of its neurons."""
        assert isinstance(request.initial, Gaussian)
        width = prepared.problem.architecture.nodes[prepared.hidden]
        count = min(self.most, width)
        require_size([prepared.network(count)], request.draws, "draws", evaluations=len(request.times))
        streams = [jax.random.fold_in(request.stream, draw) for draw in range(request.draws)]
        first = [drawn_neurons(prepared, request.initial, count, width, stream) for stream in streams]
        each = "the whole layer" if count == width else f"each for {width / count:.4g} of {width}"
        inputs, outputs = (sum(prepared.bases[node].shape[1] for node in side) for side in prepared.sides)
        note = (
            f"simulated: {request.draws} draws of {count} neurons from the initializer, {each}, in {inputs} inputs and "
            f"{outputs} outputs that the examples span; no trained network was seen"
        )
        simulation = Simulation(prepared.network(count), first, request, self.at_once)
        return outcome_of(simulation, note, prepared.problem.resized({prepared.hidden: count}), prepared.lift)


def one_hidden_layer(problem: Problem) -> Assumption:
    """One rectified hidden node without gates; inputs may also reach the outputs directly."""
    nodes, hidden, gates = problem.architecture.nodes, problem.architecture.hidden, problem.gates
    wrong = ""
    if len(hidden) != 1:
        wrong = f"there are {len(hidden)} hidden nodes"
    elif set(problem.activations) != set(hidden) or not isinstance(problem.activations[hidden[0]], LeakyReLU):
        wrong = f"activations are at {', '.join(map(repr, problem.activations)) or 'no node'}"
    elif gates.nodes or gates.edges or gates.neurons:
        wrong = "the network has gates"
    elif problem.architecture.weights:
        wrong = "some edges have parametrized weights"
    found = wrong or f"{hidden[0]!r} with {nodes[hidden[0]]} neurons"
    return Assumption("one rectified hidden layer", float(bool(wrong)), 0.0, found)


@dataclass(frozen=True, eq=False)
class Spans:
    """The problem in orthonormal bases of the span of each input's and each output's rows.

    Inputs outside the span are never shown. Outgoing weights outside the span of the targets only decay; they are left
    out, which small initial weights allow. Gaussian weights with one std per edge have the same distribution in any
    such bases.
    """

    problem: Problem
    bases: Bases  # input or output node -> (size, rank)

    @classmethod
    def of(cls, problem: Problem) -> "Spans":
        """Find the spans of the examples that have weight."""

        def span(rows: np.ndarray) -> np.ndarray:
            if rows.shape[1] == 1:
                return np.ones((1, 1))
            _, values, right = np.linalg.svd(rows, full_matrices=False)
            rank = int((values > 1e-10 * max(float(values.max(initial=0.0)), np.finfo(float).tiny)).sum())
            return np.asarray(right[: max(rank, 1)].T)

        rows, seen = {**problem.task.inputs, **problem.task.targets}, problem.task.weights > 0
        return cls(problem, {node: span(values[seen]) for node, values in rows.items()})

    @property
    def hidden(self) -> str:
        """The hidden node."""
        return self.problem.architecture.hidden[0]

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """The nodes that enter it, and those that it enters."""
        graph = self.problem.architecture
        entering, leaving = graph.incoming[self.hidden], graph.outgoing[self.hidden]
        return [graph.source(edge) for edge in entering], [graph.target(edge) for edge in leaving]

    def network(self, neurons: int) -> Problem:
        """Return the problem in these coordinates with this many neurons; it has the same loss."""
        task, sizes = self.problem.task, {node: basis.shape[1] for node, basis in self.bases.items()}
        inputs, targets = (
            {node: rows @ self.bases[node] for node, rows in side.items()} for side in (task.inputs, task.targets)
        )
        architecture = self.problem.architecture.resized(sizes | {self.hidden: neurons})
        data, activations = Task(inputs, targets, task.weights), self.problem.activations
        return Problem(architecture, data, activations=activations, biases=self.problem.biases)

    def lift(self, weights: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """Return weights in these coordinates as weights between the original inputs and outputs."""
        edges, bases = self.problem.architecture.edges.items(), self.bases
        return {edge: lift(weights[edge], bases.get(target), bases.get(source)) for edge, (source, target) in edges}

    def neurons(self, weights: Mapping[Edge, np.ndarray]) -> np.ndarray:
        """Stack what enters and what leaves every neuron side by side; (neurons, inputs + outputs)."""
        graph = self.problem.architecture
        entering = [weights[edge] for edge in graph.incoming[self.hidden]]
        return np.hstack([*entering, *(weights[edge].T for edge in graph.outgoing[self.hidden])])

    def weights(self, neurons: np.ndarray, others: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """Return neurons as weights again, with the edges that join other nodes."""
        graph = self.problem.architecture
        ends = np.cumsum([self.bases[node].shape[1] for side in self.sides for node in side])
        parts = iter(np.split(neurons, ends[:-1], axis=1))
        found = {**others, **{edge: next(parts) for edge in graph.incoming[self.hidden]}}
        found |= {edge: next(parts).T for edge in graph.outgoing[self.hidden]}
        return {edge: found[edge] for edge in graph.edges}


def drawn_neurons(spans: Spans, initial: Gaussian, count: int, width: int, key: jax.Array) -> dict[Edge, np.ndarray]:
    """Draw `count` neurons in the coordinates of the spans, each for width / count of them.

    A subsample of the layer is drawn in opposite pairs and given the exact second moments, as a wide layer has them. A
    cone of neurons, such as those that some examples open, then has with its opposite the expected mass; on the mixed
    task a thousand are as close to a wide layer as four thousand independent draws.
    """
    network = spans.network(count)
    weights = initial(network, key)
    neurons = spans.neurons(weights)
    if count < width:
        half = neurons[: -(-count // 2)]
        scales, shape = initial.scales(network), network.architecture.shape
        of_all = spans.neurons({edge: np.full(shape(edge), scale) for edge, scale in scales.items()})
        neurons = whitened(np.vstack([half, -half])[:count], of_all[0])
    return spans.weights(neurons * np.sqrt(width / count), weights)


def whitened(neurons: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Give neurons the second moments scales^2 exactly, turned as little as possible."""
    varied = scales > 0
    unit = neurons[:, varied] / scales[varied]
    if len(unit) < 2 * unit.shape[1]:  # too few to have all moments
        return neurons
    values, vectors = np.linalg.eigh(unit.T @ unit / len(unit))
    found = np.zeros_like(neurons)
    found[:, varied] = unit @ (vectors / np.sqrt(values)) @ vectors.T * scales[varied]
    return found


def initial_output(problem: Problem, initial: Gaussian) -> float:
    """The root mean square of the hidden layer's initial contribution to the outputs, relative to the targets."""
    graph, task, scales = problem.architecture, problem.task, initial.scales(problem)
    (hidden,) = graph.hidden
    kind = problem.activations[hidden]
    slope = kind.slope if isinstance(kind, LeakyReLU) else 1.0
    incoming = ((scales[edge], task.inputs[graph.source(edge)]) for edge in graph.incoming[hidden])
    received = sum(scale**2 * (rows**2).sum(axis=1) for scale, rows in incoming)  # variance of a neuron's input
    sent = graph.nodes[hidden] * 0.5 * (1 + slope**2) * float(task.weights @ received)
    output = sum(graph.nodes[graph.target(edge)] * scales[edge] ** 2 * sent for edge in graph.outgoing[hidden])
    target = sum(float(task.weights @ (rows**2).sum(axis=1)) for rows in task.targets.values())
    return float(np.sqrt(output / target)) if target > 0 else (0.0 if output == 0 else float("inf"))
