"""How a gated network is computed: which rows each edge multiplies, and which edges go together.

The examples are replaced by the states of `states`; an edge multiplies only the rows that it is open for; edges
between nodes of the same sizes and levels are stacked into one batched product.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy import sparse

from neuralrace._engine.example_rows import carrying_gates
from neuralrace._engine.network import Block, ConstantMatrix, EdgeGroup, Network, OutputRows
from neuralrace._engine.sparse_rows import sparse_rows
from neuralrace._engine.states import NodeStates, node_states
from neuralrace.activations import Activation
from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.gates import Gates
from neuralrace.task import Task

SHARED_FRACTION = 0.35  # above this one product for all sources' rows beats gathering each edge's own

DENSE_ENTRIES = 1 << 14  # below this a dense product beats any gather
DENSE_FRACTION = 0.25

Key = TypeVar("Key")


def make_network(
    architecture: Architecture,
    task: Task,
    gates: Gates,
    activations: Mapping[str, Activation] | None = None,
    *,
    compressed: bool = True,
    every_example: bool = False,
) -> Network:
    """Plan the forward pass of a network over its examples: for squared error, or with all distinct examples apart.

    every_example: with the activity of every node for every example, whether an output hears it or not.
    """
    activated = activations or {}
    carrying = carrying_gates(architecture, task, gates, to_outputs_only=not every_example)
    states = node_states(
        architecture, task, carrying, reduce_outputs=compressed, activated=activated, apart=gates.neurons
    )
    place, block_rows = _places(architecture, states)
    products = _products(architecture, states)
    groups = []
    for key in sorted({_group_key(architecture, edge) for edge in products}, key=str):
        members = [edge for edge in products if _group_key(architecture, edge) == key]
        for bucket in _buckets({edge: products[edge].gather.shape[0] for edge in members}):
            bucket.sort(key=lambda edge: _stand(architecture, place, edge))
            groups.append(_group(architecture, states, place, block_rows, bucket, products))
    groups.sort(key=lambda group: group.target)
    outputs, constant = _output_rows(architecture, task, states, place, block_rows)
    return Network(
        groups=tuple(groups),
        blocks=tuple(sorted(block_rows.items())),
        place=tuple((node, block, rows.start, rows.stop) for node, (block, rows) in place.items()),
        activations=tuple(activated.items()),
        idle=tuple(edge for edge in architecture.edges if edge not in products),
        outputs=outputs,
        constant_loss=np.asarray(constant),
        neuron_gates=dict(gates.neurons),
        row_weights={n: np.asarray(abs(states[n].per_example()).T @ task.weights) for n in activated if n in place},
        examples={node: constant_matrix(states[node].per_example()) for node in place} if every_example else {},
    )


def constant_matrix(matrix: sparse.csr_matrix) -> ConstantMatrix:
    """None for the identity, a full matrix where that is small or mostly filled, else a sparse one."""
    rows, columns = matrix.shape
    if rows == columns and (matrix != sparse.identity(rows, format="csr")).nnz == 0:
        return None
    if rows * columns <= DENSE_ENTRIES or matrix.nnz >= DENSE_FRACTION * rows * columns:
        return np.asarray(matrix.toarray())
    return sparse_rows(matrix)


def _places(
    architecture: Architecture, states: Mapping[str, NodeStates]
) -> tuple[dict[str, tuple[Block, slice]], dict[Block, int]]:
    """Nodes with like numbers of rows stand together, padded alike: a batched product then fits without moving rows."""
    place: dict[str, tuple[Block, slice]] = {}
    rows: dict[Block, int] = {}
    members: dict[Block, list[str]] = {}
    for node in architecture.order:
        if node not in architecture.inputs:
            kind = architecture.level[node], architecture.nodes[node], node in architecture.outputs
            members.setdefault(kind, []).append(node)
    for block, nodes in members.items():
        start = 0
        for bucket in _buckets({node: states[node].rows for node in nodes}):
            for node in bucket:
                place[node] = (block, slice(start, start + states[node].rows))
                start += states[bucket[0]].rows
        rows[block] = start
    return place, rows


@dataclass(frozen=True)
class _Product:
    """One edge: h_target += spread @ (gather @ h_source) @ W.T."""

    gather: sparse.csr_matrix  # (rows, source basis rows)
    spread: sparse.csr_matrix  # (target basis rows, rows)


def _products(architecture: Architecture, states: Mapping[str, NodeStates]) -> dict[Edge, _Product]:
    """Mix before or after the product, whichever multiplies fewer rows; known rows are mixed beforehand for nothing."""
    products: dict[Edge, _Product] = {}
    for node in architecture.order:
        start = 0
        for edge in architecture.incoming[node]:
            width = states[architecture.source(edge)].rows
            mixing = sparse.csr_matrix(states[node].generator[:, start : start + width])
            start += width
            used_rows, used_columns = np.unique(mixing.nonzero()[0]), np.unique(mixing.nonzero()[1])
            if len(used_rows) == 0:
                continue
            source = architecture.source(edge)
            after = mixing.nnz / architecture.nodes[source] if source in architecture.inputs else 0.0
            if len(used_rows) <= len(used_columns) + after:
                products[edge] = _Product(mixing[used_rows], _selection(used_rows, mixing.shape[0]).T.tocsr())
            else:
                products[edge] = _Product(_selection(used_columns, width), mixing[:, used_columns])
    return products


def _selection(chosen: np.ndarray, count: int) -> sparse.csr_matrix:
    return sparse.csr_matrix((np.ones(len(chosen)), (np.arange(len(chosen)), chosen)), shape=(len(chosen), count))


def _stand(architecture: Architecture, place: Mapping[str, tuple[Block, slice]], edge: Edge) -> tuple[int, ...]:
    """Where the rows of an edge's source and target stand in their blocks."""
    return tuple(place[node][1].start for node in architecture.edges[edge] if node in place)


def _group_key(architecture: Architecture, edge: Edge) -> tuple[object, ...]:
    source, target = architecture.edges[edge]
    known = source in architecture.inputs
    levels = architecture.level[source], architecture.level[target]
    return (known, *levels, architecture.shape(edge), target in architecture.outputs)


def _buckets(rows: Mapping[Key, int]) -> list[list[Key]]:
    """Split things by their number of rows, most first, so that padding to the first at most doubles the work."""
    buckets: list[list[Key]] = []
    for key in sorted(rows, key=lambda key: -rows[key]):
        if buckets and 2 * rows[key] > rows[buckets[-1][0]]:
            buckets[-1].append(key)
        else:
            buckets.append([key])
    return buckets


def _group(
    architecture: Architecture,
    states: Mapping[str, NodeStates],
    place: Mapping[str, tuple[Block, slice]],
    block_rows: Mapping[Block, int],
    edges: list[Edge],
    products: Mapping[Edge, _Product],
) -> EdgeGroup:
    target = place[architecture.target(edges[0])][0]
    most = max(products[edge].gather.shape[0] for edge in edges)
    starts = [place[architecture.target(edge)][1].start for edge in edges]
    shape = (block_rows[target], most)
    spreads = [_embed(products[e].spread, shape, row=start) for e, start in zip(edges, starts, strict=True)]
    padding = np.concatenate([np.arange(most) >= products[edge].gather.shape[0] for edge in edges])
    spread = _completed(sparse.hstack(spreads, format="csr"), padding)
    if architecture.source(edges[0]) in architecture.inputs:
        known = [
            _padded((products[e].gather @ states[architecture.source(e)].generator).toarray(), most) for e in edges
        ]
        return EdgeGroup(tuple(edges), None, target, False, np.stack(known), None, constant_matrix(spread))
    source = place[architecture.source(edges[0])][0]
    starts = [place[architecture.source(edge)][1].start for edge in edges]
    shape = (most, block_rows[source])
    gathers = [_embed(products[e].gather, shape, column=start) for e, start in zip(edges, starts, strict=True)]
    used = np.zeros(block_rows[source], dtype=bool)
    for block, rows in place.values():
        if block == source:
            used[rows] = True
    gather = _completed(sparse.vstack(gathers, format="csr"), ~used)
    union = _shared(gather, len(edges), most)
    if union is None:
        return EdgeGroup(tuple(edges), source, target, False, None, constant_matrix(gather), constant_matrix(spread))
    rows, pick = union
    spread = sparse.csr_matrix(spread @ pick)
    return EdgeGroup(tuple(edges), source, target, True, None, constant_matrix(rows), constant_matrix(spread))


def _shared(gather: sparse.csr_matrix, count: int, most: int) -> tuple[sparse.csr_matrix, sparse.csr_matrix] | None:
    """All source rows, for all edges, where most pairs are used anyway and rows are only picked; and the picking.

    gather = pick @ rows for each edge; so spread @ pick moves the picking behind the product.
    """
    used = np.unique(gather.indices)
    picks = gather.nnz and np.diff(gather.indptr).max() == 1 and (gather.data == 1).all()
    if count < 2 or not picks or gather.nnz < SHARED_FRACTION * count * len(used):
        return None
    position = np.full(gather.shape[1], -1)
    position[used] = np.arange(len(used))
    entries = gather.tocoo()
    placed = (entries.row, (entries.row // most) * len(used) + position[entries.col])
    pick = sparse.csr_matrix((entries.data, placed), shape=(gather.shape[0], count * len(used)))
    return _selection(used, gather.shape[1]), pick


def _embed(matrix: sparse.csr_matrix, shape: tuple[int, int], row: int = 0, column: int = 0) -> sparse.csr_matrix:
    """Place an edge's map inside its block, padded to the group's number of rows."""
    entries = matrix.tocoo()
    return sparse.csr_matrix((entries.data, (entries.row + row, entries.col + column)), shape=shape)


def _completed(matrix: sparse.csr_matrix, silent: np.ndarray) -> sparse.csr_matrix:
    """Make a map the identity where it lacks only rows that are zero anyway, so that it costs nothing."""
    if matrix.shape[0] != matrix.shape[1]:
        return matrix
    full = sparse.csr_matrix(matrix + sparse.diags((silent & (matrix.diagonal() == 0)).astype(float)))
    return full if (full != sparse.identity(len(silent), format="csr")).nnz == 0 else matrix


def _padded(rows: np.ndarray, count: int) -> np.ndarray:
    return np.vstack([rows, np.zeros((count - len(rows), rows.shape[1]))])


def _output_rows(
    architecture: Architecture,
    task: Task,
    states: Mapping[str, NodeStates],
    place: Mapping[str, tuple[Block, slice]],
    block_rows: Mapping[Block, int],
) -> tuple[dict[Block, OutputRows], float]:
    """Write the squared error over examples as one over basis rows, plus what is left over."""
    weights = {place[node][0]: np.zeros(block_rows[place[node][0]]) for node in architecture.outputs}
    targets = {block: np.zeros((block_rows[block], block[1])) for block in weights}
    constant = 0.0
    for node in architecture.outputs:
        block, rows = place[node]
        per_example = states[node].per_example()
        weighted = sparse.csr_matrix(per_example.multiply(task.weights[:, None]))
        # the basis is orthogonal in the weights of the examples (see row_basis), so this Gram matrix is diagonal
        weight = np.asarray(weighted.multiply(per_example).sum(axis=0)).ravel()
        target = (weighted.T @ task.targets[node]) / np.where(weight > 0, weight, 1.0)[:, None]
        weights[block][rows], targets[block][rows] = weight, target
        left = task.targets[node] - per_example @ target
        constant += 0.5 * float(task.weights @ (left**2).sum(axis=1))
    return {block: OutputRows(weights[block], targets[block]) for block in weights}, constant
