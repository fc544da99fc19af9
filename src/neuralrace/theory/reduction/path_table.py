"""The open paths of a problem in its modes, and exact lumping: one scalar for all edges and modes that evolve alike.

Of the paths there is one row of strengths each, and one for each pair that interacts. Edges and modes that must evolve
alike are found by partition refinement and kept once. A variable is a pair (edge, mode), a term a pair (path, mode).
Start from the partition by initial values and by S(p). Two terms stay together if the classes of their edges and, class
by class, their couplings D agree; two variables stay together if, class by class, as many terms run through them. When
nothing splits any more, members of a class have equal derivatives wherever they are equal, so they stay equal for ever.
The lumped system is written for one member of each class (P1 eq. 10).
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.statistics import PathStatistics, shared_bases


@dataclass(frozen=True, eq=False)
class PathTable:
    """S(p) and D(j, p) of P1 eqs 7-8 as arrays over paths and modes.

    A row of variables is an edge and a run of its modes: all of them in shared bases; one of them, in a row of its own,
    where paths have modes of their own.
    """

    edges: tuple[Edge, ...]  # the edge of each row
    first_mode: np.ndarray  # (rows,), the number of the first mode of each
    paths: tuple[Path, ...]
    route: np.ndarray  # (paths, longest), the row of each edge, -1 beyond the end
    strengths: np.ndarray  # S(p), (paths, modes)
    first: np.ndarray  # (pairs,), j
    second: np.ndarray  # (pairs,), p
    variances: np.ndarray  # D(j, p), (pairs, modes)
    target_energy: float

    @property
    def modes(self) -> int:
        """The number of modes of a row."""
        return int(self.strengths.shape[1])


def path_table(statistics: PathStatistics) -> PathTable:
    """Take the diagonals of all statistics in the shared bases."""
    bases = shared_bases(statistics)
    edges = tuple(statistics.architecture.edges)
    number = {edge: i for i, edge in enumerate(edges)}
    paths = tuple(statistics.open_paths)
    position = {path: i for i, path in enumerate(paths)}
    longest = max((len(path.edges) for path in paths), default=1)
    route = np.full((len(paths), longest), -1)
    strengths, first, second, variances = [], [], [], []
    for i, path in enumerate(paths):
        route[i, : len(path.edges)] = [number[edge] for edge in path.edges]
        strengths.append(bases.strengths(statistics, path))
        for partner in statistics.partners(path):
            first.append(position[partner])
            second.append(i)
            variances.append(bases.variances(statistics, partner, path))
    modes = next(iter(bases.inputs.values())).shape[1]
    return PathTable(
        edges=edges,
        first_mode=np.zeros(len(edges), dtype=int),
        paths=paths,
        route=route,
        strengths=np.array(strengths).reshape(len(paths), modes),
        first=np.array(first, dtype=int),
        second=np.array(second, dtype=int),
        variances=np.array(variances).reshape(len(first), modes),
        target_energy=statistics.target_energy,
    )


EQUAL = 1e-9  # relative to the largest value compared


@dataclass(frozen=True, eq=False)
class Lumping:
    """Classes of variables and of terms; -1 marks what takes no part in the dynamics."""

    variables: np.ndarray  # (edges, modes)
    terms: np.ndarray  # (paths, modes)

    @property
    def variable_count(self) -> int:
        """The number of classes of variables."""
        return int(self.variables.max(initial=-1)) + 1

    @property
    def term_count(self) -> int:
        """The number of classes of terms."""
        return int(self.terms.max(initial=-1)) + 1


def nothing_lumped(table: PathTable) -> Lumping:
    """Every variable and every term for itself."""
    live, used = _live(table)
    variables, terms = np.full(used.shape, -1), np.full(live.shape, -1)
    variables[used], terms[live] = np.arange(used.sum()), np.arange(live.sum())
    return Lumping(variables, terms)


def coarsest_lumping(table: PathTable, initial: np.ndarray | None) -> Lumping:
    """The coarsest partition that the dynamics respect.

    initial: (draws, edges, modes), values that members of a class must share, or None to demand symmetry alone.
    """
    live, used = _live(table)
    random = np.random.default_rng(0)
    variables = np.zeros(used.shape, dtype=np.int64)
    for values in [] if initial is None else initial:
        variables = _join(variables, _codes(values, used))
    terms = _codes(table.strengths, live)
    count = -1
    while count != (count := _classes(variables, used) + _classes(terms, live)):
        terms = _split_terms(table, variables, terms, live, random)
        variables = _split_variables(table, variables, terms, live, used, random)
    return Lumping(_numbered(variables, used), _numbered(terms, live))


def _live(table: PathTable) -> tuple[np.ndarray, np.ndarray]:
    """Terms with any statistic, and the variables that they use."""
    live = np.abs(table.strengths) > 0
    np.logical_or.at(live, table.second, np.abs(table.variances) > 0)
    used = np.zeros((len(table.edges), table.modes), dtype=bool)
    for column in table.route.T:
        there = column >= 0
        np.logical_or.at(used, column[there], live[there])
    return live, used


def _split_terms(
    table: PathTable, variables: np.ndarray, terms: np.ndarray, live: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Tell terms apart by the classes of their edges and by the sum of couplings to each class of terms."""
    along = np.where(table.route[:, :, None] >= 0, variables[table.route], -1)  # (paths, longest, modes)
    for column in np.moveaxis(np.sort(along, axis=1), 1, 0):
        terms = _join(terms, column)
    before = terms
    for _ in range(2):  # random weights per class: equal sums mean equal sums class by class
        label = random.uniform(0.5, 1.5, size=before.max(initial=0) + 1)
        total = np.zeros(terms.shape)
        np.add.at(total, table.second, table.variances * label[before[table.first]])
        terms = _join(terms, _codes(total, live))
    return terms


def _split_variables(
    table: PathTable,
    variables: np.ndarray,
    terms: np.ndarray,
    live: np.ndarray,
    used: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """Tell variables apart by how many terms of each class run through them."""
    for _ in range(2):
        label = random.uniform(0.5, 1.5, size=terms.max(initial=0) + 1)
        worth = np.where(live, label[terms], 0.0)
        total = np.zeros(variables.shape)
        for column in table.route.T:
            there = column >= 0
            np.add.at(total, column[there], worth[there])
        variables = _join(variables, _codes(total, used))
    return variables


def _codes(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Number the distinct values, values closer than rounding being one."""
    codes = np.zeros(values.shape, dtype=np.int64)
    flat = values[where]
    order = np.argsort(flat, kind="stable")
    gaps = np.diff(flat[order]) > EQUAL * max(float(np.abs(flat).max(initial=0.0)), np.finfo(float).tiny)
    ranks = np.empty(len(flat), dtype=np.int64)
    ranks[order] = np.concatenate([[0], np.cumsum(gaps)]) if len(flat) else 0
    codes[where] = ranks
    return codes


def _join(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """The common refinement of two numberings."""
    low = int(two.min(initial=0))
    joint = one * (int(two.max(initial=0)) - low + 1) + (two - low)
    return np.unique(joint, return_inverse=True)[1].reshape(one.shape).astype(np.int64)


def _classes(labels: np.ndarray, where: np.ndarray) -> int:
    return len(np.unique(labels[where]))


def _numbered(labels: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Number the classes in the order in which they are met, mode by mode."""
    numbered = np.full(labels.shape, -1)
    flat = labels.T[where.T]
    _, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    numbered.T[where.T] = rank[inverse]
    return numbered


@dataclass(frozen=True, eq=False)
class Terms:
    """The lumped system in plain arrays.

    db_v/dt = sum over (v, k) of count * (product of the other factors of k) * (S_k - sum_l coupling_kl a_l).
    """

    factors: np.ndarray  # (terms, longest): variables; the number of variables marks the end
    strengths: np.ndarray  # S_k
    coupling: sparse.csr_matrix  # total D from class l onto one member of class k
    multiplicity: np.ndarray  # members of each class of terms
    through: np.ndarray  # (uses, 2): variable, term
    counts: np.ndarray  # (uses,): how many terms of that class run through one member of the variable
    variable_count: int
    target_energy: float


def lumped_terms(table: PathTable, lumping: Lumping) -> Terms:
    """Write the system for one member of each class."""
    count, size = lumping.term_count, lumping.variable_count
    paths, modes = _representatives(lumping.terms, count)
    along = lumping.variables[table.route[paths], modes[:, None]]
    factors = np.where(table.route[paths] >= 0, along, size)
    edges, edge_modes = _representatives(lumping.variables, size)
    through, counts = _uses(table, lumping, edges, edge_modes)
    return Terms(
        factors=factors,
        strengths=table.strengths[paths, modes],
        coupling=_coupling(table, lumping, paths, modes),
        multiplicity=np.bincount(lumping.terms[lumping.terms >= 0], minlength=count).astype(float),
        through=through,
        counts=counts,
        variable_count=size,
        target_energy=table.target_energy,
    )


def _representatives(labels: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first member (row, mode) of each class."""
    rows, modes = np.nonzero(labels.T >= 0)[::-1]
    numbers, first = np.unique(labels[rows, modes], return_index=True)
    assert len(numbers) == count
    return rows[first], modes[first]


def _coupling(table: PathTable, lumping: Lumping, paths: np.ndarray, modes: np.ndarray) -> sparse.csr_matrix:
    count = len(paths)
    by_path = sparse.csr_matrix(
        (np.arange(1, len(table.second) + 1), (table.second, np.arange(len(table.second)))),
        shape=(len(table.paths), len(table.second)),
    )
    chosen = by_path[paths].tocoo()  # the pairs of each representative
    pair, term = chosen.col, chosen.row
    other = lumping.terms[table.first[pair], modes[term]]
    value = table.variances[pair, modes[term]]
    kept = (other >= 0) & (value != 0)
    return sparse.csr_matrix((value[kept], (term[kept], other[kept])), shape=(count, count))


def _uses(table: PathTable, lumping: Lumping, edges: np.ndarray, modes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    longest = table.route.shape[1]
    flat = table.route.ravel()
    there = flat >= 0
    on_edge = sparse.csr_matrix(
        (np.ones(there.sum()), (flat[there], np.repeat(np.arange(len(table.paths)), longest)[there])),
        shape=(len(table.edges), len(table.paths)),
    )[edges].tocoo()
    term = lumping.terms[on_edge.col, modes[on_edge.row]]
    kept = term >= 0
    pairs, counts = np.unique(np.stack([on_edge.row[kept], term[kept]], axis=1), axis=0, return_counts=True)
    return pairs, counts.astype(float)
