"""A network that descends an objective, as a pytree: its numbers are leaves, its shape is static."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.example_rows import carrying_gates, edge_gates
from neuralrace._engine.network import Matrices, Network, Stacks
from neuralrace.activations import Activation
from neuralrace.architecture import Architecture
from neuralrace.axes import Edge, Weights
from neuralrace.errors import ProblemError, require_known
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.training.objectives import Objective

Parameters = Any  # a tree of arrays


class Learner(eqx.Module):
    """One seed's loss and gradient as functions of its parameters, and how these are weights by edge."""

    architecture: eqx.AbstractVar[Architecture]
    objective: eqx.AbstractVar[Objective]
    example_count: eqx.AbstractVar[int]

    @abstractmethod
    def loss(self, parameters: Parameters) -> jax.Array:
        """Compute the loss that is recorded."""

    @abstractmethod
    def loss_and_gradient(self, parameters: Parameters) -> tuple[jax.Array, Parameters]:
        """Compute the loss over all examples and the direction that training descends."""

    @abstractmethod
    def pack(self, weights: Weights) -> Stacks:
        """Arrange weights for computing; leading axes are kept."""

    @abstractmethod
    def unpack(self, parameters: Mapping[str, Matrices]) -> dict[Edge, Matrices]:
        """Return weights by edge again; leading axes are kept."""

    @abstractmethod
    def batch_gradient(self, parameters: Stacks, chosen: jax.Array, *, by_weight: bool) -> Stacks:
        """Compute the gradient of the loss over some examples, as an estimate of that over all.

        by_weight: each counts by its weight; otherwise all alike, for examples that were drawn by their weights.
        """

    @abstractmethod
    def draw(self, key: jax.Array, size: int) -> jax.Array:
        """Draw examples by their weights, with replacement."""


class NetworkLearner(Learner):
    """The loss of a problem: gates and activations on any graph.

    common: with coupling "residual", the network of the pathways that are open for all examples, which descend their
    own loss. examples: inputs, targets, gates of edges, gates of neurons and weights, for mini-batches only.
    everything: the network with all examples apart, for records only.
    """

    architecture: Architecture = eqx.field(static=True)
    objective: Objective = eqx.field(static=True)
    activations: tuple[tuple[str, Activation], ...] = eqx.field(static=True)
    example_count: int = eqx.field(static=True)
    network: Network
    common: Network | None
    common_edges: tuple[Edge, ...] = eqx.field(static=True)
    examples: Mapping[str, Any] | None
    everything: Network | None

    def pack(self, weights: Weights) -> Stacks:
        """Arrange weights for computing; leading axes are kept."""
        return self.network.stack(weights)

    def unpack(self, parameters: Mapping[str, Matrices]) -> dict[Edge, Matrices]:
        """Return weights by edge again; leading axes are kept."""
        found = self.network.unstack(parameters)
        return {edge: found[edge] for edge in self.architecture.edges}

    def loss(self, parameters: Stacks) -> jax.Array:
        """Compute the loss over all examples."""
        return self.network.loss(parameters, self.objective.rows)

    def loss_and_gradient(self, parameters: Stacks) -> tuple[jax.Array, Stacks]:
        """Compute the loss over all examples and the direction that training descends."""
        loss, gradient = jax.value_and_grad(self.loss)(parameters)
        if self.common is None:
            return loss, gradient
        own = self.common
        apart = own.stack(self.network.unstack(parameters))
        first = own.unstack(jax.grad(lambda stacks: own.loss(stacks, self.objective.rows))(apart))
        merged = self.network.unstack(gradient) | {edge: first[edge] for edge in self.common_edges}
        return loss, self.network.stack(merged)

    def batch_gradient(self, parameters: Stacks, chosen: jax.Array, *, by_weight: bool) -> Stacks:
        """Compute the gradient of the loss over a batch."""
        return jax.grad(lambda stacks: self._batch_loss(stacks, chosen, by_weight))(parameters)

    def draw(self, key: jax.Array, size: int) -> jax.Array:
        """Draw by inverting the cumulative sum of the weights."""
        assert self.examples is not None
        chances = jax.random.uniform(key, (size,), dtype=jnp.float32)
        limits = jnp.cumsum(jnp.asarray(self.examples["weights"])).astype(jnp.float32)
        return jnp.minimum(jnp.searchsorted(limits, chances, side="right"), self.example_count - 1)

    def per_example(self, parameters: Stacks, nodes: tuple[str, ...], received: bool = False) -> dict[str, jax.Array]:
        """Compute the activity of some nodes, or what they receive, for every example, (N, size) each."""
        assert self.everything is not None
        rows = self.everything.rows(self.everything.stack(self.unpack(parameters)))[received]
        return {node: self.everything.per_example(rows, node) for node in nodes}

    def _batch_loss(self, parameters: Stacks, chosen: jax.Array, by_weight: bool) -> jax.Array:
        """Compute each row as it is defined: a plan of the network would be of rows that change at every step."""
        assert self.examples is not None
        batch: dict[str, Any] = jax.tree.map(lambda rows: jnp.asarray(rows)[chosen], dict(self.examples))
        gates, neuron_gates, activity = batch["gates"], batch["neuron gates"], dict(batch["inputs"])
        weights, activations = self.unpack(parameters), dict(self.activations)
        for node in self.architecture.order:
            if node in activity:
                continue
            arriving = []
            for edge in self.architecture.incoming[node]:
                sent = activity[self.architecture.source(edge)] @ weights[edge].T
                arriving.append(gates[edge][:, None] * sent if edge in gates else sent)
            received = sum(arriving[1:], start=arriving[0])
            activity[node] = activations[node](received) if node in activations else received
            if node in neuron_gates:
                activity[node] = activity[node] * neuron_gates[node]
        losses = [self.objective.rows(activity[node], batch["targets"][node]) for node in self.architecture.outputs]
        share = self.example_count * batch["weights"] if by_weight else jnp.ones_like(batch["weights"])
        return jnp.dot(share, sum(losses[1:], start=losses[0])) / chosen.shape[0]


def make_learner(
    problem: Problem,
    objective: Objective,
    coupling: str = "joint",
    *,
    batches: bool = False,
    every_example: bool = False,
) -> NetworkLearner:
    """Plan what a training needs.

    coupling "joint": every pathway descends the loss of the whole network. "residual" (as published for P2): the
    pathways that are open for all examples descend their own loss, and the others the loss of what those leave.
    """
    require_known(coupling, ("joint", "residual"), f"coupling must be 'joint' or 'residual'; it was {coupling!r}")
    common_edges: tuple[Edge, ...] = ()
    common: Network | None = None
    examples: dict[str, Any] | None = None
    folded = edge_gates(problem.architecture, problem.gates, len(problem.task))
    if coupling == "residual":
        if batches:
            raise ProblemError("mini-batches go with coupling='joint'; leave batch_size out for 'residual'")
        common_edges = _always_open_edges(problem, folded)
        closed = {edge: np.zeros(len(problem.task)) for edge in problem.architecture.edges if edge not in common_edges}
        gates = Gates(problem.gates.nodes, {**problem.gates.edges, **closed})
        common = _planned(Problem(problem.architecture, problem.task, gates, problem.activations), objective)
    if batches:
        partly = {edge: gate for edge, gate in folded.items() if not (gate == 1).all()}
        task, neurons = problem.task, dict(problem.gates.neurons)
        rows = {"inputs": dict(task.inputs), "targets": dict(task.targets), "weights": task.weights}
        examples = rows | {"gates": partly, "neuron gates": neurons}
    return NetworkLearner(
        architecture=problem.architecture,
        objective=objective,
        activations=tuple(problem.activations.items()),
        example_count=len(problem.task),
        network=_planned(problem, objective),
        common=common,
        common_edges=common_edges,
        examples=examples,
        everything=problem.every_example if every_example else None,
    )


def _planned(problem: Problem, objective: Objective) -> Network:
    """The network on as few rows as the objective allows, with the loss that no weights can change."""
    if objective.compresses:
        return problem.network
    counted = problem.with_weight
    carrying = carrying_gates(problem.architecture, counted.task, counted.gates)
    constant = 0.0
    for node, rows in counted.task.targets.items():
        reached = np.logical_or.reduce([carrying[edge] != 0 for edge in problem.architecture.incoming[node]])
        if not reached.all():
            silent = jnp.asarray(rows[~reached])
            constant += float(counted.task.weights[~reached] @ objective.rows(jnp.zeros_like(silent), silent))
    return replace(problem.examples_apart, constant_loss=np.asarray(constant))


def _always_open_edges(problem: Problem, folded: Mapping[Edge, np.ndarray]) -> tuple[Edge, ...]:
    """The edges of the paths that are fully open for every example."""
    kept = problem.task.weights > 0
    always = {edge for edge, gate in folded.items() if (gate[kept] == 1).all()}
    paths = [path.edges for path in problem.architecture.paths() if always.issuperset(path.edges)]
    common = tuple(edge for edge in folded if any(edge in path for path in paths))
    if not common or len(common) == len(folded):
        raise ProblemError(
            "residual coupling needs a pathway that is open for every example and others that are not; "
            f"{len(common)} of {len(folded)} edges are on always-open paths: use coupling='joint'"
        )
    return common
