"""What each node does over the examples: a few basis rows, and every example as a combination of them.

In a gated linear network the activity of a node is linear in the activity of its sources, with known gates. Two
examples that look alike from a node's upstream side share one state there; states that depend linearly on
others need no computation of their own. So a node costs as many rows as its states have rank, however many
examples there are.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from neuralrace._engine.example_rows import label_rows, representatives
from neuralrace.architecture import Architecture
from neuralrace.axes import Chosen, Edge, PerExample, Rows, States
from neuralrace.task import Task

RANK_WORK = 2e9  # a decomposition above this many operations is not worth the rows that it saves


@dataclass(frozen=True)
class NodeStates:
    """The states of one node.

    state: (N,), the state of each example, -1 where the node is silent. expansion: states x basis rows.
    generator: basis rows x the stacked basis rows of the sources of the incoming edges; for an input node, basis
    rows x size: the input rows themselves.
    """

    state: States
    expansion: sparse.csr_matrix
    generator: sparse.csr_matrix

    @property
    def rows(self) -> int:
        """How many rows must be computed."""
        return int(self.generator.shape[0])

    def per_example(self) -> sparse.csr_matrix:
        """Examples x basis rows; a silent example has an empty row."""
        seen = np.flatnonzero(self.state >= 0)
        pick = sparse.csr_matrix(
            (np.ones(len(seen)), (seen, self.state[seen])), shape=(len(self.state), self.expansion.shape[0])
        )
        return sparse.csr_matrix(pick @ self.expansion)


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
    whose states are all computed: what is linear before it is not behind it. apart: nodes that keep all examples apart.
    """
    found: dict[str, NodeStates] = {}
    for node in architecture.order:
        if node in architecture.inputs:
            used = [carrying[e] != 0 for e in architecture.outgoing[node]]
            formal, state = _input_states(task.inputs[node], np.logical_or.reduce(used))
        else:
            formal, state = _formal_states(architecture, carrying, found, node, apart=node in apart)
        is_output = node in architecture.outputs
        seen = state >= 0
        weights = np.bincount(state[seen], task.weights[seen], formal.shape[0]) if is_output else None
        if node in activated or node in apart or (is_output and not reduce_outputs):
            expansion, generator = sparse.identity(formal.shape[0], format="csr"), formal
        else:
            expansion, generator = row_basis(formal, weights)
        found[node] = NodeStates(state, expansion, generator)
    return found


def _input_states(rows: Rows, used: Chosen) -> tuple[sparse.csr_matrix, States]:
    examples = np.flatnonzero(used)
    labels = label_rows(len(examples), rows[examples].T)
    state = np.full(len(rows), -1)
    state[examples] = labels
    return sparse.csr_matrix(rows[examples[representatives(labels)]]), state


def _formal_states(
    architecture: Architecture,
    carrying: Mapping[Edge, PerExample],
    found: Mapping[str, NodeStates],
    node: str,
    *,
    apart: bool = False,
) -> tuple[sparse.csr_matrix, States]:
    """The states of a node as formal combinations of its sources' basis rows."""
    edges = architecture.incoming[node]
    heard = np.logical_or.reduce([carrying[e] != 0 for e in edges])
    examples = np.arange(len(heard)) if apart else np.flatnonzero(heard)
    columns = []
    for edge in edges:
        gate = carrying[edge][examples]
        if gate.any():
            columns += [gate, np.where(gate != 0, found[architecture.source(edge)].state[examples], -1)]
    labels = np.arange(len(examples)) if apart else label_rows(len(examples), columns)
    state = np.full(len(heard), -1)
    state[examples] = labels
    chosen = examples[representatives(labels)]
    blocks = []
    for edge in edges:
        source = found[architecture.source(edge)]
        gate = carrying[edge][chosen]
        open_rows = np.flatnonzero(gate)
        pick = sparse.csr_matrix(
            (gate[open_rows], (open_rows, source.state[chosen[open_rows]])),
            shape=(len(chosen), source.expansion.shape[0]),
        )
        blocks.append(pick @ source.expansion)
    return sparse.csr_matrix(sparse.hstack(blocks, format="csr")), state


def row_basis(
    matrix: sparse.csr_matrix, weights: np.ndarray | None = None
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Factor a matrix into expansion @ basis, with fewer basis rows wherever its rows are dependent.

    Rows that share no column are treated apart, so the factors stay as sparse as the matrix. Where rows are
    independent they are kept as they are. With weights w, expansion' diag(w) expansion is the identity on
    each reduced part.
    """
    rows = matrix.shape[0]
    if rows == 0:
        return sparse.identity(0, format="csr"), matrix
    part = _interacting(matrix)
    order = np.argsort(part, kind="stable")
    alone = np.bincount(part)[part] == 1
    kept = [np.flatnonzero(alone)]
    reduced: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
    for members in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        if len(members) > 1:
            block = matrix[members]
            columns = np.unique(block.indices)
            factors = _dense_basis(block[:, columns].toarray(), None if weights is None else weights[members])
            if factors is None:
                kept.append(members)
            else:
                reduced.append((members, columns, *factors))
    if not reduced:
        return sparse.identity(rows, format="csr"), matrix
    rank = int((np.diff(matrix.indptr)[np.concatenate(kept)] > 0).sum()) + sum(len(basis) for *_, basis in reduced)
    if weights is None and rank == matrix.shape[1]:  # the rows span everything: there is no better basis
        return matrix, sparse.identity(rank, format="csr")
    return _assemble(matrix, np.sort(np.concatenate(kept)), reduced)


def _interacting(matrix: sparse.csr_matrix) -> np.ndarray:
    """Label the rows so that rows which share a column, directly or through others, are together."""
    rows = matrix.shape[0]
    bipartite = sparse.bmat([[None, matrix], [matrix.T, None]], format="csr")
    labels: np.ndarray = csgraph.connected_components(bipartite, directed=False)[1][:rows]
    return labels


def _assemble(
    matrix: sparse.csr_matrix,
    kept: np.ndarray,
    reduced: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]],
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Rows that are kept come first, then the bases of the reduced parts."""
    expansions = [sparse.identity(len(kept), format="csr")]
    bases = [matrix[kept]]
    members = [kept]
    for rows, columns, expansion, basis in reduced:
        wide = np.zeros((len(basis), matrix.shape[1]))
        wide[:, columns] = basis
        expansions.append(expansion)
        bases.append(sparse.csr_matrix(wide))
        members.append(rows)
    back = np.argsort(np.concatenate(members))
    expansion = sparse.csr_matrix(sparse.block_diag(expansions, format="csr"))[back]
    return expansion, sparse.vstack(bases, format="csr")


def _dense_basis(block: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Expansion and basis by a singular value decomposition, or None where the rows are independent."""
    rows, columns = block.shape
    if rows * columns * min(rows, columns) > RANK_WORK:
        return None
    root = np.ones(rows) if weights is None else np.sqrt(weights)
    left, values, right = np.linalg.svd(root[:, None] * block, full_matrices=False)
    rank = int((values > values[0] * max(rows, columns) * np.finfo(float).eps).sum())
    if rank == rows:
        return None
    return left[:, :rank] / root[:, None], values[:rank, None] * right[:rank]
