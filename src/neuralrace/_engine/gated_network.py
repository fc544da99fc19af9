"""A planned gated network as pure JAX functions of its stacked weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.plan import Block, Group, Plan
from neuralrace._engine.sparse_rows import Apply, row_map
from neuralrace.axes import Edge, Weights

Stacks = dict[str, jax.Array]  # group -> (edges, target size, source size); "idle:..." -> a closed edge's matrix


Key = TypeVar("Key")
Matrices = TypeVar("Matrices", jax.Array, np.ndarray)


@jax.custom_vjp
def batched_product(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """rows @ weights.T for each edge: (edges, rows, source) by (edges, target, source).

    Its derivative is written out so that the gradient comes out in the layout of the weights, which a
    third of the time of a step depends on.
    """
    return jnp.einsum("gks,gts->gkt", rows, weights)


def _product_forward(rows: jax.Array, weights: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return batched_product(rows, weights), (rows, weights)


def _product_backward(kept: tuple[jax.Array, jax.Array], slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    rows, weights = kept
    return jnp.einsum("gkt,gts->gks", slope, weights), jnp.einsum("gkt,gks->gts", slope, rows)


batched_product.defvjp(_product_forward, _product_backward)


@dataclass(frozen=True, eq=False)
class GatedNetwork:
    """Forward pass, loss and rows of a gated linear network, following its plan."""

    plan: Plan

    def stack(self, weights: Weights) -> Stacks:
        """Gather the matrices of each group into one array."""
        stacks = {f"group {i}": _stacked([weights[e] for e in group.edges]) for i, group in enumerate(self.plan.groups)}
        return stacks | {f"idle {i}": jnp.asarray(weights[e]) for i, e in enumerate(self.plan.idle)}

    def unstack(self, stacks: Mapping[str, Matrices]) -> dict[Edge, Matrices]:
        """Take the matrices of the edges out again; further leading axes are kept."""
        weights: dict[Edge, Matrices] = {}
        for i, group in enumerate(self.plan.groups):
            for k, edge in enumerate(group.edges):
                weights[edge] = stacks[f"group {i}"][..., k, :, :]
        return weights | {edge: stacks[f"idle {i}"] for i, edge in enumerate(self.plan.idle)}

    def blocks(self, stacks: Mapping[str, jax.Array]) -> dict[Block, jax.Array]:
        """Compute the basis rows of every node, block by block."""
        rows: dict[Block, jax.Array] = {}
        for i, group in enumerate(self.plan.groups):
            product = self._product(group, i, stacks[f"group {i}"], rows)
            spread = self._spread[i](product)
            rows[group.target] = rows[group.target] + spread if group.target in rows else spread
        for block, count in self.plan.block_rows.items():
            rows.setdefault(block, jnp.zeros((count, block[1])))
        return rows

    def loss(self, stacks: Mapping[str, jax.Array]) -> jax.Array:
        """Half the weighted mean squared error over the examples."""
        rows = self.blocks(stacks)
        total = jnp.asarray(self.plan.constant_loss)
        for block, output in self.plan.outputs.items():
            error = jnp.sum((rows[block] - output.targets) ** 2, axis=1)
            total = total + 0.5 * jnp.dot(output.weights, error)
        return total

    @cached_property
    def compiled_blocks(self) -> Callable[[Stacks], dict[Block, jax.Array]]:
        """The basis rows of every node, compiled once."""
        return jax.jit(self.blocks)

    @cached_property
    def compiled_loss(self) -> Callable[[Stacks], jax.Array]:
        """The loss, compiled once."""
        return jax.jit(self.loss)

    @cached_property
    def compiled_gradient(self) -> Callable[[Stacks], Stacks]:
        """The derivative of the loss by automatic differentiation, compiled once."""
        return jax.jit(jax.grad(self.loss))

    def node_rows(self, rows: Mapping[Block, jax.Array], node: str) -> jax.Array:
        """The basis rows of one node."""
        block, place = self.plan.place[node]
        return rows[block][place]

    def activity(self, rows: Mapping[Block, jax.Array], node: str) -> jax.Array:
        """The activity of one node for every example, (N, size)."""
        return self._per_example[node](self.node_rows(rows, node))

    def _product(self, group: Group, index: int, weights: jax.Array, rows: Mapping[Block, jax.Array]) -> jax.Array:
        if group.source is None:
            product = batched_product(jnp.asarray(group.constant), weights)
        elif group.shared:
            product = jnp.einsum("ks,gts->gkt", self._gather[index](rows[group.source]), weights)
        else:
            gathered = self._gather[index](rows[group.source])
            product = batched_product(gathered.reshape(len(group.edges), -1, gathered.shape[-1]), weights)
        return product.reshape(-1, product.shape[-1])

    @cached_property
    def _gather(self) -> list[Apply]:
        return [row_map(g.gather) if g.gather is not None else lambda x: x for g in self.plan.groups]

    @cached_property
    def _spread(self) -> list[Apply]:
        return [row_map(group.spread) for group in self.plan.groups]

    @cached_property
    def _per_example(self) -> dict[str, Apply]:
        return {node: row_map(self.plan.states[node].per_example()) for node in self.plan.place}


def as_numpy(weights: Mapping[Key, jax.Array]) -> dict[Key, np.ndarray]:
    """Bring a set of weights to the host."""
    return {edge: np.asarray(matrix) for edge, matrix in weights.items()}


def _stacked(matrices: list[Any]) -> jax.Array:
    """Stack matrices; those that are on the host are stacked there, which needs no compiling."""
    if all(isinstance(matrix, np.ndarray) for matrix in matrices):
        return jnp.asarray(np.stack(matrices))
    return jnp.stack([jnp.asarray(matrix) for matrix in matrices])
