"""The reduced system in plain arrays, and exact lumping: one scalar for all strengths that evolve alike (P1 eq. 10).

A variable is a pair (edge, mode), a term a pair (path, mode). Lumping is partition refinement: start from the partition
by initial values and by S(p). Two terms stay together if the classes of their edges and, class by class, their
couplings D agree; two variables stay together if, class by class, as many terms run through them. When nothing splits
any more, members of a class have equal derivatives wherever they are equal, so they stay equal. The lumped system is
written for one member of each class.
"""

from dataclasses import dataclass
from itertools import count

import numpy as np
from scipy import sparse

from neuralrace.axes import Edge
from neuralrace.statistics import PathStatistics
from neuralrace.theory.reduction.modes import couplings, path_modes


@dataclass(frozen=True, eq=False)
class Terms:
    """db_v/dt = sum over (v, k) of count * (product of the other factors of k) * (S_k - sum_l coupling_kl a_l)."""

    factors: np.ndarray  # (terms, longest): variables; the number of variables marks the end
    strengths: np.ndarray  # S_k
    coupling: sparse.csr_matrix  # total D from class l onto one member of class k
    multiplicity: np.ndarray  # members of each class of terms
    through: sparse.csr_matrix  # (variables, terms): terms of a class that run through one member of a variable
    target_energy: float

    def of(self, term: int) -> list[int]:
        """The variables of a term, one for each layer."""
        return [int(v) for v in self.factors[term] if v < self.through.shape[0]]


def path_terms(statistics: PathStatistics, own: bool) -> tuple[Terms, tuple[tuple[Edge, int], ...]]:
    """Write one term for each path and mode, in shared bases or in the paths' own modes; also name the variables.

    Terms without any statistic, and strengths that are in no other term, take no part in the dynamics.
    """
    modes = path_modes(statistics, own)
    rows = [(path, m) for path, one in modes.items() for m in range(len(one.strengths))]
    if own:
        named = [(edge, m) for path, one in modes.items() for edge in path.edges for m in range(len(one.strengths))]
    else:  # mode by mode
        rows.sort(key=lambda row: row[1])
        many = max((m for _, m in rows), default=-1) + 1
        named = [(edge, m) for m in range(many) for edge in statistics.architecture.edges]
    row_of, variable_of = dict(zip(rows, count())), dict(zip(named, count()))
    first = {path: [row_of[path, m] for m in range(len(one.strengths))] for path, one in modes.items()}
    factors = np.full((len(rows), max((len(path.edges) for path in modes), default=1)), len(named))
    for k, (path, m) in enumerate(rows):
        factors[k, : len(path.edges)] = [variable_of[edge, m] for edge in path.edges]
    places, values = [np.zeros((2, 0), dtype=int)], [np.zeros(0)]
    for path, one in modes.items():
        for partner in statistics.partners(path):
            coupling = couplings(statistics, one, modes[partner], own)
            onto, by = np.nonzero(coupling)
            places.append(np.array([np.array(first[path])[onto], np.array(first[partner])[by]], dtype=int))
            values.append(coupling[onto, by])
    matrix = sparse.csr_matrix((np.concatenate(values), np.hstack(places)), shape=(len(rows), len(rows)))
    strengths = np.array([modes[path].strengths[m] for path, m in rows])
    live = (strengths != 0) | (np.diff(matrix.indptr) > 0)
    used = np.setdiff1d(factors[live], [len(named)])
    renamed = np.full(len(named) + 1, len(used))
    renamed[used] = np.arange(len(used))
    factors, strengths, matrix = renamed[factors[live]], strengths[live], matrix[live][:, live]
    term, place = np.nonzero(factors < len(used))
    through = sparse.csr_matrix((np.ones(len(term)), (factors[term, place], term)), shape=(len(used), len(factors)))
    system = Terms(factors, strengths, matrix, np.ones(len(factors)), through, statistics.target_energy)
    return system, tuple(named[v] for v in used)


def lump(system: Terms, initial: np.ndarray) -> tuple[Terms, np.ndarray]:
    """The coarsest lumping that the dynamics respect from initial values (draws, variables); and the class of each."""
    random = np.random.default_rng(0)
    variables = np.zeros(system.through.shape[0], dtype=np.int64)
    for values in initial:
        variables = _join(variables, _codes(values))
    terms = _codes(system.strengths)
    classes = 0
    while classes != (classes := len(np.unique(variables)) + len(np.unique(terms))):
        for column in np.sort(np.append(variables, -1)[system.factors], axis=1).T:
            terms = _join(terms, column)
        before = terms
        for _ in range(2):  # random weights per class: equal sums mean equal sums class by class
            label = random.uniform(0.5, 1.5, size=before.max(initial=0) + 1)
            terms = _join(terms, _codes(system.coupling @ label[before]))
        for _ in range(2):
            label = random.uniform(0.5, 1.5, size=terms.max(initial=0) + 1)
            variables = _join(variables, _codes(system.through @ label[terms]))
    variables, terms = _numbered(variables), _numbered(terms)
    member, of_class = (np.unique(labels, return_index=True)[1] for labels in (variables, terms))
    sums = sparse.csr_matrix((np.ones(len(terms)), (np.arange(len(terms)), terms)), shape=(len(terms), len(of_class)))
    through, coupling = (system.through[member] @ sums).tocsr(), (system.coupling[of_class] @ sums).tocsr()
    through.sort_indices()
    coupling.sort_indices()
    lumped = Terms(
        factors=np.append(variables, len(member))[system.factors[of_class]],
        strengths=system.strengths[of_class],
        coupling=coupling,
        multiplicity=np.bincount(terms, minlength=len(of_class)).astype(float),
        through=through,
        target_energy=system.target_energy,
    )
    return lumped, variables


def _codes(values: np.ndarray) -> np.ndarray:
    """Number the distinct values, those closer than rounding as one."""
    order = np.argsort(values, kind="stable")
    apart = 1e-9 * max(float(np.abs(values).max(initial=0.0)), np.finfo(float).tiny)
    codes = np.empty(len(values), dtype=np.int64)
    codes[order] = np.cumsum(np.diff(values[order], prepend=values[order][:1]) > apart)
    return codes


def _join(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """The common refinement of two numberings."""
    low = int(two.min(initial=0))
    joint = one * (int(two.max(initial=0)) - low + 1) + (two - low)
    return np.unique(joint, return_inverse=True)[1].astype(np.int64)


def _numbered(labels: np.ndarray) -> np.ndarray:
    """Number the classes in the order in which they are met."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
