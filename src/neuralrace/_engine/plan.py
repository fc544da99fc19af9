"""Plan the computation of a gated network: which rows each edge multiplies, and which edges are batched.

The examples are replaced by the states of `states`; an edge multiplies only the rows that it is open for; edges
between nodes of the same sizes and levels are stacked into one batched product.
"""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from scipy import sparse

from neuralrace._engine.example_rows import carrying_gates
from neuralrace._engine.network import Block, ConstantMatrix, EdgeGroup, Network, OutputRows, SparseRows
from neuralrace._engine.states import NodeStates, node_states
from neuralrace.activations import Activation
from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.errors import ResourceError
from neuralrace.gates import Gates
from neuralrace.memory import require_memory
from neuralrace.task import Task

SHARED_FRACTION = 0.35  # above this one product for all sources' rows beats gathering each edge's own
DENSE_ENTRIES, DENSE_FRACTION = 1 << 14, 0.25  # below, or above, a dense product beats any gather

LAYERS = 500  # 15 to 30 ms each on one core

Key = TypeVar("Key")
Product = tuple[
    sparse.csr_matrix, sparse.csr_matrix
]  # gather and spread: h_target += spread @ (gather @ h_source) @ W.T


def make_network(
    architecture: Architecture,
    task: Task,
    gates: Gates,
    activations: Mapping[str, Activation] | None = None,
    *,
    compressed: bool = True,
    every_example: bool = False,
    apart: bool = False,
) -> Network:
    """Plan the forward pass of a network over its examples: for squared error, or with all distinct examples.

    every_example: with the activity of every node for every example, even if no output depends on it. apart: with a
    row of every node for each example, duplicates included.
    """
    if (layers := max(architecture.level.values())) > LAYERS:
        raise ResourceError(f"at most {LAYERS} layers can be compiled in reasonable time; this network has {layers:,}")
    activated = activations or {}
    carrying = carrying_gates(architecture, task, gates, to_outputs_only=not every_example)
    states = node_states(
        architecture,
        task,
        carrying,
        reduce_outputs=compressed,
        activated=activated,
        apart=architecture.nodes if apart else gates.neurons,
    )
    # nodes with similar numbers of rows are neighbors, padded alike: a batched product then needs no moving of rows
    place: dict[str, tuple[Block, slice]] = {}
    block_rows: dict[Block, int] = {}
    members: dict[Block, dict[str, int]] = {}
    for node in architecture.order:
        if node not in architecture.inputs:
            block = architecture.level[node], architecture.nodes[node], node in architecture.outputs
            members.setdefault(block, {})[node] = states[node].rows
    for block, counts in members.items():
        start = 0
        for bucket in _buckets(counts):
            for node in bucket:
                place[node] = (block, slice(start, start + counts[node]))
                start += counts[bucket[0]]
        block_rows[block] = start

    activity = sum(rows * block[1] for block, rows in block_rows.items())
    require_memory(
        f"the activity of all neurons, {activity:,} numbers,", 8 * activity, "give fewer examples or neurons"
    )
    products = _products(architecture, states)
    kinds: dict[tuple[object, ...], list[Edge]] = {}
    for edge in products:
        source, target = architecture.edges[edge]
        level = architecture.level
        kind = source in architecture.inputs, level[source], level[target], architecture.shape(edge), place[target][0]
        kinds.setdefault(kind, []).append(edge)
    groups = []
    for key in sorted(kinds, key=str):
        for edges in _buckets({edge: products[edge][0].shape[0] for edge in kinds[key]}):
            edges.sort(key=lambda edge: [place[node][1].start for node in architecture.edges[edge] if node in place])
            groups.append(_group(architecture, states, place, block_rows, edges, products))
    groups.sort(key=lambda group: group.target)

    # the squared error over examples as one over basis rows, plus a constant
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
    return Network(
        groups=tuple(groups),
        blocks=tuple(sorted(block_rows.items())),
        place=tuple((node, block, rows.start, rows.stop) for node, (block, rows) in place.items()),
        activations=tuple(activated.items()),
        idle=tuple(edge for edge in architecture.edges if edge not in products),
        outputs={block: OutputRows(weights[block], targets[block]) for block in weights},
        constant_loss=np.asarray(constant),
        neuron_gates=dict(gates.neurons),
        row_weights={n: np.asarray(abs(states[n].per_example()).T @ task.weights) for n in activated if n in place},
        examples={node: constant_matrix(states[node].per_example()) for node in place} if every_example else {},
        tied=architecture if architecture.weights else None,
    )


def constant_matrix(matrix: sparse.csr_matrix) -> ConstantMatrix:
    """None for the identity, a full matrix where that is small or mostly filled, else a sparse one."""
    rows, columns = matrix.shape
    if rows == columns and (matrix != sparse.identity(rows, format="csr")).nnz == 0:
        return None
    longest = max(np.diff(matrix.indptr).max(initial=0), np.bincount(matrix.indices, minlength=1).max())
    if rows * columns <= DENSE_ENTRIES or longest * max(rows, columns) >= DENSE_FRACTION * rows * columns:
        return np.asarray(matrix.toarray())
    return SparseRows(*_padded(matrix), *_padded(sparse.csr_matrix(matrix.T)))


def _padded(matrix: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """The columns and values of each row, padded to the longest."""
    lengths = np.diff(matrix.indptr)
    shape = len(lengths), int(lengths.max(initial=0))
    index, value = np.zeros(shape, dtype=np.int32), np.zeros(shape)
    row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], lengths)
    index[row, place], value[row, place] = matrix.indices, matrix.data
    return index, value


def _buckets(rows: Mapping[Key, int]) -> list[list[Key]]:
    """Split keys by their number of rows, most first, so that padding to the first at most doubles the work."""
    buckets: list[list[Key]] = []
    for key in sorted(rows, key=lambda key: -rows[key]):
        if buckets and 2 * rows[key] > rows[buckets[-1][0]]:
            buckets[-1].append(key)
        else:
            buckets.append([key])
    return buckets


def _selection(chosen: np.ndarray, count: int) -> sparse.csr_matrix:
    return sparse.csr_matrix((np.ones(len(chosen)), (np.arange(len(chosen)), chosen)), shape=(len(chosen), count))


def _products(architecture: Architecture, states: Mapping[str, NodeStates]) -> dict[Edge, Product]:
    """Mix before or after the product, whichever multiplies fewer rows; known rows are mixed in advance at no cost."""
    products: dict[Edge, Product] = {}
    for node in architecture.order:
        start = 0
        for edge in architecture.incoming[node]:
            source = architecture.source(edge)
            width = states[source].rows
            mixing = sparse.csr_matrix(states[node].generator[:, start : start + width])
            start += width
            used_rows, used_columns = (np.unique(axis) for axis in mixing.nonzero())
            if len(used_rows) == 0:
                continue
            after = mixing.nnz / architecture.nodes[source] if source in architecture.inputs else 0.0
            if len(used_rows) <= len(used_columns) + after:
                products[edge] = mixing[used_rows], _selection(used_rows, mixing.shape[0]).T.tocsr()
            else:
                products[edge] = _selection(used_columns, width), mixing[:, used_columns]
    return products


def _group(
    architecture: Architecture,
    states: Mapping[str, NodeStates],
    place: Mapping[str, tuple[Block, slice]],
    block_rows: Mapping[Block, int],
    edges: list[Edge],
    products: Mapping[Edge, Product],
) -> EdgeGroup:
    """Stack the products of some edges, each padded to the most rows of any."""
    ends = [architecture.edges[edge] for edge in edges]
    target, most = place[ends[0][1]][0], max(products[edge][0].shape[0] for edge in edges)

    def embedded(matrix: sparse.csr_matrix, shape: tuple[int, int], row: int, column: int) -> sparse.csr_matrix:
        entries = matrix.tocoo()
        return sparse.csr_matrix((entries.data, (entries.row + row, entries.col + column)), shape=shape)

    def completed(matrix: sparse.csr_matrix, silent: np.ndarray) -> sparse.csr_matrix:
        """Make a map the identity where it lacks only rows that are zero anyway, so that it costs nothing."""
        if matrix.shape[0] != matrix.shape[1]:
            return matrix
        full = sparse.csr_matrix(matrix + sparse.diags((silent & (matrix.diagonal() == 0)).astype(float)))
        return full if (full != sparse.identity(len(silent), format="csr")).nnz == 0 else matrix

    shape = block_rows[target], most
    spreads = [embedded(products[e][1], shape, place[end][1].start, 0) for e, (_, end) in zip(edges, ends, strict=True)]
    padding = np.concatenate([np.arange(most) >= products[edge][0].shape[0] for edge in edges])
    spread = completed(sparse.hstack(spreads, format="csr"), padding)
    if ends[0][0] in architecture.inputs:
        known = np.zeros((len(edges), most, architecture.nodes[ends[0][0]]))
        for stacked, edge, (begin, _) in zip(known, edges, ends, strict=True):
            rows = (products[edge][0] @ states[begin].generator).toarray()
            stacked[: len(rows)] = rows
        return EdgeGroup(tuple(edges), None, target, False, known, None, constant_matrix(spread))
    source = place[ends[0][0]][0]
    shape = most, block_rows[source]
    gathers = [embedded(products[e][0], shape, 0, place[end][1].start) for e, (end, _) in zip(edges, ends, strict=True)]
    unused = np.ones(block_rows[source], dtype=bool)
    for block, taken in place.values():
        if block == source:
            unused[taken] = False
    gather = completed(sparse.vstack(gathers, format="csr"), unused)
    used, picks = np.unique(gather.indices), gather.nnz and np.diff(gather.indptr).max() == 1
    picks = picks and (gather.data == 1).all()
    shared = len(edges) > 1 and picks and gather.nnz >= SHARED_FRACTION * len(edges) * len(used)
    if shared:  # all used rows for all edges: gather = pick @ rows for each, so the picking moves behind the product
        position, entries = np.full(gather.shape[1], -1), gather.tocoo()
        position[used] = np.arange(len(used))
        placed = entries.row, (entries.row // most) * len(used) + position[entries.col]
        pick = sparse.csr_matrix((entries.data, placed), shape=(gather.shape[0], len(edges) * len(used)))
        gather, spread = _selection(used, gather.shape[1]), sparse.csr_matrix(spread @ pick)
    return EdgeGroup(tuple(edges), source, target, bool(shared), None, constant_matrix(gather), constant_matrix(spread))
