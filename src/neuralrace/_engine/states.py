"""The activity of each node over the examples: a few basis rows, and every example as a combination of them.

In a gated linear network the activity of a node is linear in the activity of its sources, with known gates. Two
examples that agree in everything upstream of a node share one state there; states that depend linearly on
others need no computation of their own. So a node costs as many rows as its states have rank, however many
examples there are.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from neuralrace._engine.example_rows import label_rows
from neuralrace.architecture import Architecture
from neuralrace.axes import Edge, PerExample, States
from neuralrace.task import Task


class NodeStates(NamedTuple):
    """The states of one node.

    generator: basis rows x the stacked basis rows of the sources of the incoming edges; for an input node, basis
    rows x size: the input rows themselves.
    """

    state: States  # of each example, -1 where the node is silent; (N,)
    expansion: sparse.csr_matrix  # states x basis rows
    generator: sparse.csr_matrix

    @property
    def rows(self) -> int:
        """The number of rows to compute."""
        return int(self.generator.shape[0])

    def per_example(self) -> sparse.csr_matrix:
        """Examples x basis rows; a silent example has an empty row."""
        seen = np.flatnonzero(self.state >= 0)
        shape = len(self.state), self.expansion.shape[0]
        return sparse.csr_matrix(
            sparse.csr_matrix((np.ones(len(seen)), (seen, self.state[seen])), shape=shape) @ self.expansion
        )


def node_states(
    architecture: Architecture,
    task: Task,
    carrying: Mapping[Edge, PerExample],
    *,
    reduce_outputs: bool,
    activated: Collection[str] = (),
    apart: Collection[str] = (),
) -> dict[str, NodeStates]:
    """Find the states of every node, from the inputs forward.

    With `reduce_outputs` output rows are reduced as well, to a basis that is orthonormal in the weights of the
    examples, so that a squared error over the states is one over the basis rows. activated: nodes with an activation,
    whose states are all computed, because linear dependence ends there. apart: nodes with a state for each example.
    """
    found: dict[str, NodeStates] = {}
    for node in architecture.order:
        is_input, is_output = node in architecture.inputs, node in architecture.outputs
        edges = architecture.outgoing[node] if is_input else architecture.incoming[node]
        used = np.logical_or.reduce([carrying[e] != 0 for e in edges])
        examples = np.arange(len(task)) if node in apart else np.flatnonzero(used)
        columns = list(task.inputs[node][examples].T) if is_input else []
        for edge in () if is_input else edges:
            gate = carrying[edge][examples]
            if gate.any():
                columns += [gate, np.where(gate != 0, found[architecture.source(edge)].state[examples], -1)]
        labels = np.arange(len(examples)) if node in apart else label_rows(len(examples), columns)
        state = np.full(len(task), -1)
        state[examples] = labels
        chosen = examples[np.unique(labels, return_index=True)[1]]  # the first of each state
        if is_input:
            formal = sparse.csr_matrix(task.inputs[node][chosen])
        else:  # the states as combinations of the sources' basis rows
            blocks = []
            for edge in edges:
                source, gate = found[architecture.source(edge)], carrying[edge][chosen]
                rows = np.flatnonzero(gate)
                shape = len(chosen), source.expansion.shape[0]
                pick = sparse.csr_matrix((gate[rows], (rows, source.state[chosen[rows]])), shape=shape)
                blocks.append(pick @ source.expansion)
            formal = sparse.csr_matrix(sparse.hstack(blocks, format="csr"))
        if node in activated or node in apart or (is_output and not reduce_outputs):
            expansion, generator = sparse.identity(formal.shape[0], format="csr"), formal
        else:
            seen = state >= 0
            weights = np.bincount(state[seen], task.weights[seen], formal.shape[0]) if is_output else None
            expansion, generator = row_basis(formal, weights)
        found[node] = NodeStates(state, expansion, generator)
    return found


def row_basis(
    matrix: sparse.csr_matrix, weights: np.ndarray | None = None
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Factor a matrix into expansion @ basis, with fewer basis rows wherever its rows are dependent.

    Rows that share no column are treated apart, so the factors stay as sparse as the matrix. Where rows are
    independent they are kept as they are. With weights w, expansion' diag(w) expansion is the identity on
    each reduced part.
    """
    count = matrix.shape[0]
    if count == 0:
        return sparse.identity(0, format="csr"), matrix
    bipartite = sparse.bmat([[None, matrix], [matrix.T, None]], format="csr")
    part = csgraph.connected_components(bipartite, directed=False)[1][:count]
    order = np.argsort(part, kind="stable")
    alone = np.bincount(part)[part[order]] == 1
    kept, members, expansions, bases = [order[alone]], [], [], []
    order = order[~alone]
    for rows in np.split(order, np.flatnonzero(np.diff(part[order])) + 1) if len(order) else ():
        block = matrix[rows]
        columns = np.unique(block.indices)
        # a decomposition of more operations than this is not worth the rows that it saves
        if len(rows) * len(columns) * min(len(rows), len(columns)) <= 2e9:
            root = np.ones(len(rows)) if weights is None else np.sqrt(weights[rows])
            left, values, right = np.linalg.svd(root[:, None] * block[:, columns].toarray(), full_matrices=False)
            some = int((values > values[0] * max(len(rows), len(columns)) * np.finfo(float).eps).sum())
            if some < len(rows):
                basis = np.zeros((some, matrix.shape[1]))
                basis[:, columns] = values[:some, None] * right[:some]
                members.append(rows)
                expansions.append(left[:, :some] / root[:, None])
                bases.append(sparse.csr_matrix(basis))
                continue
        kept.append(rows)
    if not members:
        return sparse.identity(count, format="csr"), matrix
    first = np.sort(np.concatenate(kept))  # rows that are kept come first
    rank = int((np.diff(matrix.indptr)[first] > 0).sum()) + sum(basis.shape[0] for basis in bases)
    if weights is None and rank == matrix.shape[1]:  # the rows span everything: there is no better basis
        return matrix, sparse.identity(rank, format="csr")
    back = np.argsort(np.concatenate([first, *members]))
    whole = sparse.block_diag([sparse.identity(len(first), format="csr"), *expansions], format="csr")
    return sparse.csr_matrix(whole)[back], sparse.vstack([matrix[first], *bases], format="csr")
