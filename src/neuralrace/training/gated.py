"""A gated linear network as a learner: all pathways together, or the common one first and the rest on its residual."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.gated_network import GatedNetwork, Stacks
from neuralrace._engine.open_edges import carrying_gates, edge_gates
from neuralrace._engine.plan import Plan, make_plan
from neuralrace.architecture import Architecture
from neuralrace.axes import Edge, Weights
from neuralrace.errors import ProblemError, UnknownNameError, nearest
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.training.learner import Data, Views
from neuralrace.training.objective import Objective

COUPLINGS = ("joint", "residual")


@dataclass(frozen=True, eq=False)
class GatedLearner:
    """A problem that descends an objective.

    coupling "joint": every pathway descends the loss of the whole network. "residual" (as published for P2): the
    pathways that are open for all examples descend their own loss, and the others the loss of what those leave.
    """

    problem: Problem
    objective: Objective
    coupling: str = "joint"

    def __post_init__(self) -> None:
        if self.coupling not in COUPLINGS:
            raise UnknownNameError(
                f"coupling must be 'joint' or 'residual'; it was {self.coupling!r}; {nearest(self.coupling, COUPLINGS)}"
            )

    @property
    def architecture(self) -> Architecture:
        """The graph whose edges carry the weights."""
        return self.problem.architecture

    @property
    def example_count(self) -> int:
        """How many examples mini-batches are drawn from."""
        return len(self.problem.task)

    @cached_property
    def network(self) -> GatedNetwork:
        """The planned network that the loss is computed on."""
        return self._planned(self.problem.gates)

    def data(self, mini_batches: bool) -> Data:
        """Nothing for the full batch, whose rows are part of the plan; inputs, targets, gates for mini-batches."""
        if not mini_batches:
            return ()
        task = self.problem.task
        folded = edge_gates(self.architecture, self.problem.gates, len(task))
        gates = {edge: gate for edge, gate in folded.items() if not (gate == 1).all()}
        return dict(task.inputs), dict(task.targets), gates, task.weights

    def pack(self, weights: Weights) -> Stacks:
        """Arrange weights for computing."""
        return self.network.stack(weights)

    def unpack(self, parameters: Mapping[str, jax.Array]) -> dict[Edge, jax.Array]:
        """Weights by edge again; leading axes are kept."""
        found = self.network.unstack(parameters)
        return {edge: found[edge] for edge in self.architecture.edges}

    def loss_and_gradient(self, parameters: Stacks, data: Data) -> tuple[jax.Array, Stacks]:
        """The loss over all examples and the direction that training descends."""
        loss, gradient = jax.value_and_grad(lambda stacks: self._loss(self.network, stacks))(parameters)
        if self.coupling == "joint":
            return loss, gradient
        own = self._common
        common = own.stack(self.network.unstack(parameters))
        common_gradient = own.unstack(jax.grad(lambda stacks: self._loss(own, stacks))(common))
        merged = self.network.unstack(gradient) | {edge: common_gradient[edge] for edge in self.common_edges}
        return loss, self.network.stack(merged)

    def batch_gradient(self, parameters: Stacks, data: Data, examples: jax.Array) -> Stacks:
        """The gradient of the loss over some examples, scaled to stand for all of them."""
        if self.coupling != "joint":
            raise ProblemError("mini-batches go with coupling='joint'; use the full batch for 'residual'")
        return jax.grad(lambda stacks: self._batch_loss(stacks, data, examples))(parameters)

    def views(self, names: tuple[str, ...]) -> Callable[[Stacks, Data], Views]:
        """What to record of the network itself: outputs and hidden activity for every example."""
        if "gate_patterns" in names:
            raise ProblemError("a gated network has fixed gates: see problem.gates; gate_patterns is for ReLU networks")
        nodes: list[tuple[str, str]] = []
        nodes += [("outputs", node) for node in self.architecture.outputs if "outputs" in names]
        nodes += [("activity", node) for node in self.architecture.hidden if "activity" in names]
        if not nodes:
            return lambda parameters, data: {}
        network = GatedNetwork(self._every_example)

        def look(parameters: Stacks, data: Data) -> Views:
            rows = network.blocks(network.stack(self.unpack(parameters)))
            return {f"{kind}[{node}]": network.activity(rows, node) for kind, node in nodes}

        return look

    @cached_property
    def common_edges(self) -> tuple[Edge, ...]:
        """The edges of the paths that are fully open for every example."""
        kept = self.problem.task.weights > 0
        folded = edge_gates(self.architecture, self.problem.gates, self.example_count)
        open_always = {edge: np.where((gate[kept] == 1).all(), 1.0, 0.0) for edge, gate in folded.items()}
        probe = Task(
            {n: np.ones((1, self.architecture.nodes[n])) for n in self.architecture.inputs},
            {n: np.zeros((1, self.architecture.nodes[n])) for n in self.architecture.outputs},
        )
        carrying = carrying_gates(
            self.architecture, probe, Gates(edges={e: np.array([g]) for e, g in open_always.items()})
        )
        common = tuple(edge for edge, gate in carrying.items() if gate[0] != 0)
        if not common or len(common) == len(carrying):
            raise ProblemError(
                "residual coupling needs a pathway that is open for every example and others that are not; "
                f"{len(common)} of {len(carrying)} edges are on always-open paths: use coupling='joint'"
            )
        return common

    @cached_property
    def _common(self) -> GatedNetwork:
        """The network with only its always-open paths."""
        closed = {e: np.zeros(self.example_count) for e in self.architecture.edges if e not in self.common_edges}
        gates = Gates(self.problem.gates.nodes, {**self.problem.gates.edges, **closed})
        return self._planned(gates)

    def _planned(self, gates: Gates) -> GatedNetwork:
        if self.objective.name == "squared":
            return Problem(self.architecture, self.problem.task, gates).network
        kept = np.flatnonzero(self.problem.task.weights > 0)
        task = self.problem.task.take(kept)
        return GatedNetwork(make_plan(self.architecture, task, gates.take(kept), reduce_outputs=False))

    def _loss(self, network: GatedNetwork, parameters: Mapping[str, jax.Array]) -> jax.Array:
        if self.objective.name == "squared":
            return network.loss(parameters)
        rows = network.blocks(parameters)
        total = jnp.asarray(self._silent_loss(network.plan))
        for block, output in network.plan.outputs.items():
            total = total + jnp.dot(output.weights, self.objective.rows(rows[block], jnp.asarray(output.targets)))
        return total

    def _silent_loss(self, plan: Plan) -> float:
        """The cross-entropy of the examples for which an output is closed: all classes alike."""
        kept = self.problem.task.weights > 0
        weights = self.problem.task.weights[kept]
        total = 0.0
        for node, rows in self.problem.task.targets.items():
            silent = plan.states[node].state < 0
            total += float(weights[silent] @ rows[kept][silent].sum(axis=1)) * float(np.log(rows.shape[1]))
        return total

    @cached_property
    def _every_example(self) -> Plan:
        """The plan that keeps every example apart and every node's activity."""
        problem = self.problem
        return make_plan(problem.architecture, problem.task, problem.gates, reduce_outputs=False, to_outputs_only=False)

    def _batch_loss(self, parameters: Stacks, data: Data, examples: jax.Array) -> jax.Array:
        inputs, targets, gates, weights = jax.tree.map(lambda rows: rows[examples], data)
        outputs = edge_by_edge(self.architecture, self.unpack(parameters), inputs, gates)
        scale = self.example_count / examples.shape[0]
        total = jnp.zeros(())
        for node, rows in outputs.items():
            total = total + scale * jnp.dot(weights, self.objective.rows(rows, targets[node]))
        return total


def edge_by_edge(
    architecture: Architecture,
    weights: Mapping[Edge, jax.Array],
    inputs: Mapping[str, jax.Array],
    gates: Mapping[Edge, jax.Array],
) -> dict[str, jax.Array]:
    """The outputs for a batch of examples as the definition has it: h_v = g_v sum_e g_e W_e h_s(e)."""
    activity = dict(inputs)
    for node in architecture.order:
        for edge in architecture.incoming[node]:
            term = activity[architecture.source(edge)] @ weights[edge].T
            term = gates[edge][:, None] * term if edge in gates else term
            activity[node] = activity[node] + term if node in activity else term
    return {node: activity[node] for node in architecture.outputs}
