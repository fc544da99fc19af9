"""A network, planned in `plan`, as pure JAX functions of its stacked weights.

A network is a pytree: the numbers of the plan are leaves, its shape is static. So a program that was compiled for one
network serves every network of the same shape, and several of them can be stacked and mapped over.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled
from neuralrace.architecture import Architecture
from neuralrace.axes import Array, Edge, Weights

Block = tuple[int, int, bool]  # (level, size, outputs or not): the nodes whose rows are stacked into one array
# group -> (edges, target size, source size), transposed for known inputs; "idle ..." -> a closed edge's matrix
Stacks = dict[str, jax.Array]
BlockRows = dict[Block, jax.Array]  # block -> the basis rows of its nodes
LossOfRows = Callable[[jax.Array, jax.Array], jax.Array]  # outputs and targets, (rows, size) each -> (rows,)

Key = TypeVar("Key")
Matrices = TypeVar("Matrices", jax.Array, np.ndarray)


@jax.custom_vjp
def batched_product(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """rows @ weights.T for each edge: (edges, rows, source) by (edges, target, source).

    Product and derivative are written out so that each runs along contiguous rows and the gradient comes out in the
    layout of the weights, which a third of the time of a step depends on.
    """
    return jnp.swapaxes(jnp.einsum("gts,gks->gtk", weights, rows), 1, 2)


def _product_forward(rows: jax.Array, weights: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return batched_product(rows, weights), (rows, weights)


def _product_backward(kept: tuple[jax.Array, jax.Array], slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    rows, weights = kept
    return jnp.einsum("gkt,gts->gks", slope, weights), _turned(slope) @ rows


batched_product.defvjp(_product_forward, _product_backward)


def _turned(rows: jax.Array) -> jax.Array:
    """Transpose each matrix; on a CPU in memory too, because a product with strided reads takes 1.5 times as long."""
    across = jnp.swapaxes(rows, 1, 2)
    if jax.default_backend() == "cpu":  # on a GPU a copy costs more
        across = jax.lax.optimization_barrier(across)  # type: ignore[no-untyped-call]
    return across


@jax.custom_vjp
def known_product(rows: jax.Array, weights: jax.Array) -> jax.Array:
    """rows @ weights for each edge, of rows that are known: (edges, rows, source) by (edges, source, target)."""
    return jnp.einsum("gks,gst->gkt", rows, weights)


def _known_forward(rows: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    return known_product(rows, weights), rows


def _known_backward(rows: jax.Array, slope: jax.Array) -> tuple[None, jax.Array]:
    return None, _turned(rows) @ slope


known_product.defvjp(_known_forward, _known_backward)


class SparseRows(eqx.Module):
    """A sparse matrix whose transposed product is also a gather, which avoids a scatter in the backward pass.

    index, value: the terms of each row, (rows, longest). back_index, back_value: those of the transposed matrix.
    """

    index: Array
    value: Array
    back_index: Array
    back_value: Array

    def __matmul__(self, rows: jax.Array) -> jax.Array:
        """The product."""
        return _sparse_product(rows, self)


@eqx.filter_custom_vjp
def _sparse_product(rows: jax.Array, matrix: SparseRows) -> jax.Array:
    return jnp.sum(jnp.asarray(matrix.value)[..., None] * rows[matrix.index], axis=1)


@_sparse_product.def_fwd  # type: ignore[untyped-decorator]
def _sparse_forward(perturbed: object, rows: jax.Array, matrix: SparseRows) -> tuple[jax.Array, None]:
    return _sparse_product(rows, matrix), None


@_sparse_product.def_bwd  # type: ignore[untyped-decorator]
def _sparse_backward(residual: None, slope: jax.Array, seen: object, rows: jax.Array, matrix: SparseRows) -> jax.Array:
    return jnp.sum(jnp.asarray(matrix.back_value)[..., None] * slope[matrix.back_index], axis=1)


ConstantMatrix = Array | SparseRows | None  # a constant matrix that multiplies rows; None is the identity


def mapped(matrix: ConstantMatrix, rows: jax.Array) -> jax.Array:
    """matrix @ rows."""
    if matrix is None:
        return rows
    return matrix @ rows if isinstance(matrix, SparseRows) else jnp.asarray(matrix) @ rows


class OutputRows(eqx.Module):
    """The rows of one output block over which a loss is summed (the squared error up to a constant)."""

    weights: Array  # (rows,)
    targets: Array  # (rows, size)


class EdgeGroup(eqx.Module):
    """Edges that are one batched product: rows of the source block, times weights, spread over the target block."""

    edges: tuple[Edge, ...] = eqx.field(static=True)
    source: Block | None = eqx.field(static=True)  # None: the rows are known inputs
    target: Block = eqx.field(static=True)
    shared: bool = eqx.field(static=True)  # every edge multiplies the same rows
    constant: Array | None  # (edges, rows, source size), for known inputs
    gather: ConstantMatrix  # (edges * rows, source block rows), or (rows, ...) if shared
    spread: ConstantMatrix  # (target block rows, edges * rows)
    gates: Array | None = None  # (edges, rows), of the examples of a mini-batch; else they are in gather and spread

    def stack(self, weights: Weights) -> jax.Array:
        """The matrices of the edges as one array; leading axes are kept."""
        return stack_matrices([self.turned(weights[edge]) for edge in self.edges])

    def turned(self, matrices: Matrices) -> Matrices:
        """Matrices that multiply known inputs are kept transposed: a product then runs along contiguous rows."""
        return matrices.swapaxes(-1, -2) if self.source is None else matrices

    def __call__(self, weights: jax.Array, rows: BlockRows) -> jax.Array:
        """Compute the contribution of the edges to the rows of the target block."""
        if self.source is None:
            product = known_product(jnp.asarray(self.constant), weights)
        elif self.shared:
            product = jnp.einsum("ks,gts->gkt", mapped(self.gather, rows[self.source]), weights)
        else:
            gathered = mapped(self.gather, rows[self.source])
            product = batched_product(gathered.reshape(len(self.edges), -1, gathered.shape[-1]), weights)
        if self.gates is not None:
            product = product * self.gates[..., None]
        return mapped(self.spread, product.reshape(-1, product.shape[-1]))


class Network(eqx.Module):
    """The schedule of a forward pass over the examples, in the order in which it runs."""

    groups: tuple[EdgeGroup, ...]
    blocks: tuple[tuple[Block, int], ...] = eqx.field(static=True)  # in the order of their levels, with their rows
    place: tuple[tuple[str, Block, int, int], ...] = eqx.field(static=True)  # node, its block, first and last row
    activations: tuple[tuple[str, Callable[[jax.Array], jax.Array]], ...] = eqx.field(static=True)
    idle: tuple[Edge, ...] = eqx.field(static=True)  # edges that are closed for every example
    outputs: dict[Block, OutputRows]
    constant_loss: Array  # the part of the loss that no weights can change
    neuron_gates: dict[str, Array]  # node -> (rows, size), where every neuron has a gate of its own
    row_weights: dict[str, Array]  # node with an activation -> weight of the examples behind each row, (rows,)
    examples: dict[str, ConstantMatrix]  # node -> from its basis rows to every example; empty unless requested
    tied: Architecture | None = eqx.field(static=True)  # where some matrices are functions of parameters

    def stack(self, weights: Weights) -> Stacks:
        """Arrange parameters for computing; leading axes are kept.

        The matrices of each group are one array, or, if some are functions of parameters, each parameter is.
        """
        if self.tied is not None:
            return {f"parameter {i}": on_device(weights[key]) for i, key in enumerate(self.tied.parameters)}
        return self._groups(weights)

    def _groups(self, weights: Weights) -> Stacks:
        stacks = {f"group {i}": group.stack(weights) for i, group in enumerate(self.groups)}
        return stacks | {f"idle {i}": on_device(weights[e]) for i, e in enumerate(self.idle)}

    def unstack(self, stacks: Mapping[str, Matrices]) -> dict[Edge, Matrices]:
        """Take the matrices of the edges out again; further leading axes are kept."""
        if self.tied is not None:
            return {key: stacks[f"parameter {i}"] for i, key in enumerate(self.tied.parameters)}
        weights: dict[Edge, Matrices] = {}
        for i, group in enumerate(self.groups):
            for k, edge in enumerate(group.edges):
                weights[edge] = group.turned(stacks[f"group {i}"][..., k, :, :])
        return weights | {edge: stacks[f"idle {i}"] for i, edge in enumerate(self.idle)}

    def rows(self, stacks: Mapping[str, jax.Array]) -> tuple[BlockRows, BlockRows]:
        """The basis rows of every node, block by block: activity, and the input of the activations."""
        if self.tied is not None:
            stacks = self._groups(self.tied.matrices(self.unstack(stacks)))
        received: BlockRows = {}
        activity: BlockRows = {}
        for block, count in self.blocks:
            arriving = [
                group(stacks[f"group {i}"], activity) for i, group in enumerate(self.groups) if group.target == block
            ]
            received[block] = sum(arriving[1:], start=arriving[0]) if arriving else jnp.zeros((count, block[1]))
            activity[block] = self._activity(block, received[block])
        return activity, received

    def loss(self, stacks: Mapping[str, jax.Array], of_rows: LossOfRows) -> jax.Array:
        """The weighted mean over the examples of a loss of their outputs."""
        activity, _ = self.rows(stacks)
        total = jnp.asarray(self.constant_loss)
        for block, output in self.outputs.items():
            total = total + jnp.dot(output.weights, of_rows(activity[block], jnp.asarray(output.targets)))
        return total

    def node_rows(self, rows: BlockRows, node: str) -> jax.Array:
        """The basis rows of one node."""
        block, first, last = next(entry[1:] for entry in self.place if entry[0] == node)
        return rows[block][first:last]

    def per_example(self, rows: BlockRows, node: str) -> jax.Array:
        """The rows of one node for every example, (N, size)."""
        return mapped(self.examples[node], self.node_rows(rows, node))

    def _activity(self, block: Block, received: jax.Array) -> jax.Array:
        """Apply activations, and gates of single neurons, to the rows of their nodes."""
        kinds, nodes = dict(self.activations), [entry for entry in self.place if entry[1] == block]
        activity = received
        if len({kinds.get(node) for node, *_ in nodes}) == 1:  # rows of no node are zero, and stay zero
            activation = kinds.get(nodes[0][0])
            activity = received if activation is None else activation(received)
        else:
            for node, _, first, last in nodes:
                if node in kinds:
                    activity = activity.at[first:last].set(kinds[node](received[first:last]))
        for node, _, first, last in nodes:
            if node in self.neuron_gates:
                gates, whole = self.neuron_gates[node], last - first == len(activity)
                activity = activity * gates if whole else activity.at[first:last].multiply(gates)
        return activity


def half_squares(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Half the squared error of each row."""
    return 0.5 * jnp.sum((outputs - targets) ** 2, axis=-1)


def cross_entropies(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """-sum target log softmax(output) of each row."""
    return -jnp.sum(targets * jax.nn.log_softmax(outputs, axis=-1), axis=-1)


def squared_loss(network: Network, stacks: Mapping[str, jax.Array]) -> jax.Array:
    """Half the weighted mean squared error over the examples."""
    return network.loss(stacks, half_squares)


def squared_gradient(network: Network, stacks: Stacks) -> Stacks:
    """The gradient of `squared_loss`."""
    return jax.grad(lambda inner: squared_loss(network, inner))(stacks)


@compiled
def compiled_examples(network: Network, stacks: Stacks, received: bool) -> dict[str, jax.Array]:
    """The activity of every node for every example, or the input of its activation."""
    rows = network.rows(stacks)[received]
    return {node: network.per_example(rows, node) for node in network.examples}


@compiled
def compiled_loss(network: Network, stacks: Stacks) -> jax.Array:
    """The squared error."""
    return squared_loss(network, stacks)


@compiled
def compiled_gradient(network: Network, stacks: Stacks) -> Stacks:
    """The derivative of the squared error by automatic differentiation."""
    return squared_gradient(network, stacks)


@compiled
def compiled_slope(network: Network, stacks: Stacks, of_rows: LossOfRows) -> tuple[jax.Array, Stacks]:
    """A loss, and its derivative."""
    return jax.value_and_grad(lambda at: network.loss(at, of_rows))(stacks)


@compiled
def compiled_descent(network: Network, stacks: Stacks, learning_rate: Array, count: Array) -> Stacks:
    """The weights after steps of gradient descent on the squared error."""

    def step(_: Any, at: Stacks) -> Stacks:
        return jax.tree.map(lambda w, g: w - learning_rate * g, at, squared_gradient(network, at))

    return jax.lax.fori_loop(0, count, step, stacks)


def as_numpy(weights: Mapping[Key, jax.Array]) -> dict[Key, np.ndarray]:
    """Bring a set of weights to the host."""
    return {edge: np.asarray(matrix) for edge, matrix in weights.items()}


def on_device(array: Any) -> jax.Array:
    """Return an array on the device; moving one from the host compiles nothing."""
    return jax.device_put(array) if isinstance(array, np.ndarray) else jnp.asarray(array)


def stack_matrices(matrices: list[Any]) -> jax.Array:
    """Stack matrices behind their leading axes; those on the host are stacked there, which compiles nothing."""
    if all(isinstance(matrix, np.ndarray) for matrix in matrices):
        return on_device(np.stack(matrices, axis=-3))
    return jnp.stack([jnp.asarray(matrix) for matrix in matrices], axis=-3)
