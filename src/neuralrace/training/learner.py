"""A network that descends an objective, as a pytree: what it computes on are leaves, its shape is static."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.example_rows import carrying_gates, edge_gates
from neuralrace._engine.network import BlockRows, Matrices, Network, Stacks
from neuralrace.activations import Activation
from neuralrace.architecture import Architecture
from neuralrace.axes import Array, Edge, Weights
from neuralrace.errors import ProblemError, require_known
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.training.objectives import Objective

COUPLINGS = ("joint", "residual")

Parameters = Any  # a tree of arrays


class Examples(eqx.Module):
    """Every example with its gates, for mini-batches."""

    inputs: Mapping[str, Array]
    targets: Mapping[str, Array]
    gates: Mapping[str, Array]  # "edge i" -> (N,), for the edges that are not always open
    neuron_gates: Mapping[str, Array]
    weights: Array


class Penalty(eqx.Module):
    """Something that training descends beside the loss: a function of the outputs for all examples together."""

    @abstractmethod
    def __call__(self, outputs: Mapping[str, jax.Array]) -> jax.Array:
        """outputs: node -> (N, size)."""


class Landscape(eqx.Module):
    """One seed's loss and gradient as functions of its parameters: all that the loop needs to descend."""

    @abstractmethod
    def loss(self, parameters: Stacks) -> jax.Array:
        """The loss that is recorded."""

    @abstractmethod
    def loss_and_gradient(self, parameters: Stacks) -> tuple[jax.Array, Stacks]:
        """The loss over all examples and the direction that training descends."""


class Learner(Landscape):
    """That of a network on examples: it knows weights by edge, for records and optimizers, and mini-batches."""

    architecture: eqx.AbstractVar[Architecture]
    objective: eqx.AbstractVar[Objective]
    example_count: eqx.AbstractVar[int]

    @abstractmethod
    def pack(self, weights: Weights) -> Stacks:
        """Arrange weights for computing; leading axes are kept."""

    @abstractmethod
    def unpack(self, parameters: Mapping[str, Matrices]) -> dict[Edge, Matrices]:
        """Weights by edge again; leading axes are kept."""

    @abstractmethod
    def batch_gradient(self, parameters: Stacks, chosen: jax.Array, *, by_weight: bool) -> Stacks:
        """The gradient of the loss over some examples, to stand for all of them.

        by_weight: each counts by its weight; otherwise all alike, for examples that were drawn by their weights.
        """

    @abstractmethod
    def draw(self, key: jax.Array, size: int) -> jax.Array:
        """So many examples, drawn by their weights with replacement."""


class GatedLearner(Learner):
    """A planned network: gates and activations on any graph.

    common: with coupling "residual", the network of the pathways that are open for all examples, which descend their
    own loss. examples: there for mini-batches only. everything: the network with all examples apart, there only if
    something of it is recorded or penalised. penalty: descended with the loss, and no part of it.
    """

    architecture: Architecture = eqx.field(static=True)
    objective: Objective = eqx.field(static=True)
    activations: tuple[tuple[str, Activation], ...] = eqx.field(static=True)
    example_count: int = eqx.field(static=True)
    network: Network
    common: Network | None
    common_edges: tuple[Edge, ...] = eqx.field(static=True)
    examples: Examples | None
    everything: Network | None
    penalty: Penalty | None

    def pack(self, weights: Weights) -> Stacks:
        """Arrange weights for computing; leading axes are kept."""
        return self.network.stack(weights)

    def unpack(self, parameters: Mapping[str, Matrices]) -> dict[Edge, Matrices]:
        """Weights by edge again; leading axes are kept."""
        found = self.network.unstack(parameters)
        return {edge: found[edge] for edge in self.architecture.edges}

    def loss(self, parameters: Stacks) -> jax.Array:
        """The loss over all examples."""
        return self.network.loss(parameters, self.objective.rows)

    def loss_and_gradient(self, parameters: Stacks) -> tuple[jax.Array, Stacks]:
        """The loss over all examples and the direction that training descends."""

        def descended(stacks: Stacks) -> tuple[jax.Array, jax.Array]:
            loss = self.loss(stacks)
            return loss + self._penalised(stacks), loss

        (_, loss), gradient = jax.value_and_grad(descended, has_aux=True)(parameters)
        if self.common is None:
            return loss, gradient
        own = self.common
        apart = own.stack(self.network.unstack(parameters))
        first = own.unstack(jax.grad(lambda stacks: own.loss(stacks, self.objective.rows))(apart))
        merged = self.network.unstack(gradient) | {edge: first[edge] for edge in self.common_edges}
        return loss, self.network.stack(merged)

    def batch_gradient(self, parameters: Stacks, chosen: jax.Array, *, by_weight: bool) -> Stacks:
        """The gradient of the loss over a batch; a penalty is over all examples."""
        return jax.grad(lambda s: self._batch_loss(s, chosen, by_weight) + self._penalised(s))(parameters)

    def draw(self, key: jax.Array, size: int) -> jax.Array:
        """By inverting the sums of their weights."""
        assert self.examples is not None
        chances = jax.random.uniform(key, (size,), dtype=jnp.float32)
        limits = jnp.cumsum(self.examples.weights).astype(jnp.float32)
        return jnp.minimum(jnp.searchsorted(limits, chances, side="right"), self.example_count - 1)

    def see(self, parameters: Stacks) -> tuple[BlockRows, BlockRows]:
        """Activity, and what nodes received, of `everything`."""
        assert self.everything is not None
        return self.everything.rows(self.everything.stack(self.unpack(parameters)))

    def _penalised(self, parameters: Stacks) -> jax.Array | float:
        if self.penalty is None or self.everything is None:
            return 0.0
        activity, _ = self.see(parameters)
        return self.penalty({node: self.everything.per_example(activity, node) for node in self.architecture.outputs})

    def _batch_loss(self, parameters: Stacks, chosen: jax.Array, by_weight: bool) -> jax.Array:
        """As the definition has it, edge by edge."""
        assert self.examples is not None
        batch = jax.tree.map(lambda rows: jnp.asarray(rows)[chosen], self.examples)
        weights, architecture = self.unpack(parameters), self.architecture
        place = {edge: f"edge {i}" for i, edge in enumerate(architecture.edges)}
        activations, activity = dict(self.activations), dict(batch.inputs)
        for node in architecture.order:
            if node in architecture.inputs:
                continue
            terms = []
            for edge in architecture.incoming[node]:
                term = activity[architecture.source(edge)] @ weights[edge].T
                terms.append(batch.gates[place[edge]][:, None] * term if place[edge] in batch.gates else term)
            received = sum(terms[1:], start=terms[0])
            activity[node] = activations[node](received) if node in activations else received
            if node in batch.neuron_gates:
                activity[node] = activity[node] * batch.neuron_gates[node]
        share = batch.weights * self.example_count if by_weight else jnp.ones_like(batch.weights)
        losses = [self.objective.rows(activity[node], batch.targets[node]) for node in architecture.outputs]
        return jnp.dot(share, sum(losses[1:], start=losses[0])) / chosen.shape[0]


def make_learner(
    problem: Problem,
    objective: Objective,
    coupling: str = "joint",
    *,
    batches: bool = False,
    see: bool = False,
    penalty: Penalty | None = None,
) -> GatedLearner:
    """Plan what a training needs.

    coupling "joint": every pathway descends the loss of the whole network. "residual" (as published for P2): the
    pathways that are open for all examples descend their own loss, and the others the loss of what those leave.
    """
    require_known(coupling, COUPLINGS, f"coupling must be 'joint' or 'residual'; it was {coupling!r}")
    common: tuple[Edge, ...] = ()
    if coupling == "residual":
        if batches:
            raise ProblemError("mini-batches go with coupling='joint'; leave batch_size out for 'residual'")
        common = always_open_edges(problem)
    return GatedLearner(
        architecture=problem.architecture,
        objective=objective,
        activations=tuple(problem.activations.items()),
        example_count=len(problem.task),
        network=_planned(problem, objective),
        common=_planned(_only(problem, common), objective) if common else None,
        common_edges=common,
        examples=_examples(problem) if batches else None,
        everything=problem.every_example if see or penalty is not None else None,
        penalty=penalty,
    )


def _planned(problem: Problem, objective: Objective) -> Network:
    """The network on as few rows as the objective allows, with the loss that no weights can change."""
    if objective.compresses:
        return problem.network
    task = problem.with_weight.task
    carrying = carrying_gates(problem.architecture, task, problem.with_weight.gates)
    silent = 0.0
    for node, rows in task.targets.items():
        reached = np.logical_or.reduce([carrying[edge] != 0 for edge in problem.architecture.incoming[node]])
        silent += float(task.weights[~reached] @ objective.silence(rows[~reached]))
    return replace(problem.examples_apart, constant_loss=np.asarray(silent))


def _examples(problem: Problem) -> Examples:
    task = problem.task
    folded = edge_gates(problem.architecture, problem.gates, len(task))
    gates = {f"edge {i}": gate for i, gate in enumerate(folded.values()) if not (gate == 1).all()}
    return Examples(dict(task.inputs), dict(task.targets), gates, problem.gates.neurons, task.weights)


def always_open_edges(problem: Problem) -> tuple[Edge, ...]:
    """The edges of the paths that are fully open for every example."""
    architecture, kept = problem.architecture, problem.task.weights > 0
    folded = edge_gates(architecture, problem.gates, len(problem.task))
    open_always = {edge: np.array([float((gate[kept] == 1).all())]) for edge, gate in folded.items()}
    probe = Task(
        {node: np.ones((1, architecture.nodes[node])) for node in architecture.inputs},
        {node: np.zeros((1, architecture.nodes[node])) for node in architecture.outputs},
    )
    carrying = carrying_gates(architecture, probe, Gates(edges=open_always))
    common = tuple(edge for edge, gate in carrying.items() if gate[0] != 0)
    if not common or len(common) == len(carrying):
        raise ProblemError(
            "residual coupling needs a pathway that is open for every example and others that are not; "
            f"{len(common)} of {len(carrying)} edges are on always-open paths: use coupling='joint'"
        )
    return common


def _only(problem: Problem, edges: tuple[Edge, ...]) -> Problem:
    """The problem with all other edges closed."""
    closed = {e: np.zeros(len(problem.task)) for e in problem.architecture.edges if e not in edges}
    gates = Gates(problem.gates.nodes, {**problem.gates.edges, **closed})
    return Problem(problem.architecture, problem.task, gates, problem.activations)
