"""A network that descends an objective, as a pytree: its numbers are leaves, its shape is static."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.example_rows import edge_gates
from neuralrace._engine.network import Matrices, Network, OutputRows, Stacks
from neuralrace._engine.plan import make_network
from neuralrace.architecture import Architecture
from neuralrace.axes import Edge, Weights
from neuralrace.errors import ProblemError, require_known
from neuralrace.gates import Gates
from neuralrace.objectives import Objective, planned
from neuralrace.problem import Problem
from neuralrace.task import Task

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

        by_weight: weight the examples; otherwise all count equally, as examples drawn by their weights must.
        """

    @abstractmethod
    def draw(self, key: jax.Array, size: int) -> jax.Array:
        """Draw examples by their weights, with replacement."""


class NetworkLearner(Learner):
    """The loss of a problem: gates and activations on any graph.

    common: with coupling "residual", the network of the pathways that are open for all examples, which descend their
    own loss. batch: a network with as many rows as a mini-batch has examples; examples: inputs, targets, gates of
    edges, gates of neurons and weights, that are put in there. everything: the network with all examples apart, for
    records only.
    """

    architecture: Architecture = eqx.field(static=True)
    objective: Objective = eqx.field(static=True)
    example_count: int = eqx.field(static=True)
    network: Network
    common: Network | None
    common_edges: tuple[Edge, ...] = eqx.field(static=True)
    batch: Network | None
    examples: Mapping[str, Any] | None
    everything: Network | None

    def pack(self, weights: Weights) -> Stacks:
        """Arrange weights for computing; leading axes are kept."""
        return self.network.stack(weights)

    def unpack(self, parameters: Mapping[str, Matrices]) -> dict[Edge, Matrices]:
        """Return weights by edge again; leading axes are kept."""
        found = self.network.unstack(parameters)
        return {edge: found[edge] for edge in self.architecture.parameters}

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
        batch = self._mini_batch(chosen, by_weight)
        return jax.grad(lambda stacks: batch.loss(batch.stack(self.network.unstack(stacks)), self.objective.rows))(
            parameters
        )

    def draw(self, key: jax.Array, size: int) -> jax.Array:
        """Draw examples by their weights, with replacement."""
        assert self.examples is not None
        return jax.random.choice(key, self.example_count, (size,), p=jnp.asarray(self.examples["weights"]))

    def per_example(self, parameters: Stacks, nodes: tuple[str, ...], received: bool = False) -> dict[str, jax.Array]:
        """Compute the activity of some nodes, or their input, for every example, (N, size) each."""
        assert self.everything is not None
        rows = self.everything.rows(self.everything.stack(self.unpack(parameters)))[received]
        return {node: self.everything.per_example(rows, node) for node in nodes}

    def _mini_batch(self, chosen: jax.Array, by_weight: bool) -> Network:
        """Put the rows of some examples in the network that was planned for as many."""
        assert self.batch is not None
        batch: dict[str, Any] = jax.tree.map(lambda rows: jnp.asarray(rows)[chosen], dict(self.examples or {}))
        ones = jnp.ones_like(batch["weights"])
        share = (self.example_count * batch["weights"] if by_weight else ones) / len(chosen)
        groups = []
        for group in self.batch.groups:
            known = [batch["inputs"].get(self.architecture.source(edge)) for edge in group.edges]
            constant = None if group.constant is None else jnp.stack(known)
            gates = jnp.stack([batch["gates"].get(edge, ones) for edge in group.edges])
            groups.append(replace(group, constant=constant, gates=gates))
        outputs = {}
        for block in self.batch.outputs:  # all of its rows, node after node
            targets = [batch["targets"][node] for node, of, *_ in self.batch.place if of == block]
            outputs[block] = OutputRows(jnp.tile(share, len(targets)), jnp.concatenate(targets))
        return replace(self.batch, groups=tuple(groups), outputs=outputs, neuron_gates=batch["neuron gates"])


def make_learner(
    problem: Problem,
    objective: Objective,
    coupling: str = "joint",
    *,
    batch_size: int | None = None,
    every_example: bool = False,
) -> NetworkLearner:
    """Plan the loss and the gradient of a training.

    coupling "joint": every pathway descends the loss of the whole network. "residual" (as published for P2): the
    pathways that are open for all examples descend their own loss, and the others the loss of what those leave.
    """
    require_known(coupling, ("joint", "residual"), f"coupling must be 'joint' or 'residual'; it was {coupling!r}")
    common_edges: tuple[Edge, ...] = ()
    common: Network | None = None
    batch: Network | None = None
    examples: dict[str, Any] | None = None
    folded = edge_gates(problem.architecture, problem.gates, len(problem.task))
    if coupling == "residual":
        if batch_size is not None:
            raise ProblemError("mini-batches require coupling='joint'; leave batch_size out for 'residual'")
        if problem.architecture.weights:
            raise ProblemError(
                "residual coupling needs free weight matrices, and this network shares some: use 'joint'"
            )
        common_edges = _always_open_edges(problem, folded)
        closed = {edge: np.zeros(len(problem.task)) for edge in problem.architecture.edges if edge not in common_edges}
        gates = Gates(problem.gates.nodes, {**problem.gates.edges, **closed})
        common = planned(Problem(problem.architecture, problem.task, gates, problem.activations), objective)
    if batch_size is not None:
        partly = {edge: gate for edge, gate in folded.items() if not (gate == 1).all()}
        task, neurons = problem.task, dict(problem.gates.neurons)
        rows = {"inputs": dict(task.inputs), "targets": dict(task.targets), "weights": task.weights}
        examples = rows | {"gates": partly, "neuron gates": neurons}
        sizes = problem.architecture.nodes
        some = Task(
            {node: np.ones((batch_size, sizes[node])) for node in task.inputs},
            {node: np.zeros((batch_size, sizes[node])) for node in task.targets},
        )
        batch = make_network(problem.architecture, some, Gates(), problem.activations, compressed=False, apart=True)
    return NetworkLearner(
        architecture=problem.architecture,
        objective=objective,
        example_count=len(problem.task),
        network=planned(problem, objective),
        common=common,
        common_edges=common_edges,
        batch=batch,
        examples=examples,
        everything=problem.every_example if every_example else None,
    )


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
