"""The reduced system in plain arrays: the modes of every open path, their terms, and exact lumping (P1 eq. 10).

A variable is a pair (edge, mode), a term a pair (path, mode). Lumping is partition refinement: start from the partition
by initial values and by S(p). Two terms stay together if the classes of their edges and, class by class, their
couplings D agree; two variables stay together if, class by class, as many terms run through them. When nothing splits
any more, members of a class have equal derivatives wherever they are equal, so they stay equal. The lumped system is
written for one member of each class.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np
from scipy import sparse

from neuralrace.architecture import Path, edge_name
from neuralrace.axes import Edge
from neuralrace.statistics import PathStatistics, shared_bases, untied
from neuralrace.theory.certificate import Assumption

PAIR_LIMIT = 4_000_000  # interacting pairs of paths that may be listed
RANK = 1e-10  # relative size of a singular value that still counts
ROUNDING = 1e-13  # a strength this much smaller than its matrix is rounding


@dataclass(frozen=True, eq=False)
class PathModes:
    """Sigma_yx(p) = U_p S_p V_p^T of one path; columns are modes, and zero where a shared basis lacks a mode."""

    path: Path
    output: np.ndarray  # U_p
    strengths: np.ndarray  # S_p
    input: np.ndarray  # V_p
    variances: np.ndarray  # diagonal of V_p^T Sigma_x(p, p) V_p

    @property
    def reach(self) -> np.ndarray:
        """The strength of each mode once the path has learned alone."""
        sizes = np.abs(self.strengths)
        return np.divide(sizes, self.variances, out=np.zeros_like(sizes), where=self.variances > 0)

    def learned(self, strengths: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """The strengths of each edge once the path has learned alone: all squares grow by the same amount."""
        layers = np.array([strengths[edge] for edge in self.path.edges])
        low, high = np.zeros_like(self.reach), self.reach ** (2 / len(layers))
        for _ in range(60):  # bisection, to rounding
            middle = 0.5 * (low + high)
            short = np.prod(layers**2 + middle, axis=0) < self.reach**2
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return dict(zip(self.path.edges, np.copysign(np.sqrt(layers**2 + low), layers), strict=True))


def path_modes(statistics: PathStatistics, own: bool) -> dict[Path, PathModes]:
    """Decompose the correlation of every open path, in shared bases or in its own singular vectors."""
    return statistics.once(_decomposed, own)


def _decomposed(statistics: PathStatistics, own: bool) -> dict[Path, PathModes]:
    found = {}
    for path in statistics.open_paths:
        correlation = statistics.input_output(path)
        if own:
            output, strengths, right = np.linalg.svd(correlation, full_matrices=False)
            kept = strengths > RANK * max(float(strengths.max(initial=0.0)), np.finfo(float).tiny)
            output, strengths, source = output[:, kept], strengths[kept], right[kept].T
            rotation = untied(strengths, source)
            output, source = output @ rotation, source @ rotation
        else:
            bases = shared_bases(statistics)
            output, source = bases.outputs[path.target], bases.inputs[path.source]
            strengths = np.sum(output * (correlation @ source), axis=0)
            strengths[np.abs(strengths) <= ROUNDING * np.linalg.norm(correlation)] = 0.0
        variances = np.sum(source * (statistics.input(path, path) @ source), axis=0)
        found[path] = PathModes(path, output, strengths, source, variances)
    return found


def couplings(statistics: PathStatistics, one: PathModes, other: PathModes, own: bool) -> np.ndarray:
    """How mode n of path j acts on mode m of path p: (U_p^T U_j)_mn (V_j^T Sigma_x(j, p) V_p)_nm.

    In shared bases only the diagonal D(j, p) is taken; it is all there is where these bases are exact.
    """
    inputs = other.input.T @ statistics.input(other.path, one.path) @ one.input
    return np.diag(np.diagonal(inputs)) if not own else np.asarray((one.output.T @ other.output) * inputs.T)


def listed_paths(statistics: PathStatistics) -> Assumption:
    """Check that some path is open, and that open paths and their interacting pairs are few enough to be listed.

    Paths are counted node by node, so none is listed here.
    """
    architecture = statistics.architecture
    everywhere = np.zeros(statistics.configuration_count)
    ways: dict[str, np.ndarray] = {}  # node -> open ways to it in each configuration
    for node in architecture.order:
        ways[node] = everywhere + (node in architecture.inputs)
        for edge in architecture.incoming[node]:
            ways[node] = ways[node] + (statistics.edge_gates[edge] != 0) * ways[architecture.source(edge)]
    into = np.array([ways[node] for node in architecture.outputs])
    pairs, together = float((into**2).sum()), float(into.sum(axis=0).max(initial=0.0))
    if together == 0:
        return Assumption("open paths", 1.0, 0.0, "at least one path must be open for some example; none is")
    few = pairs <= PAIR_LIMIT and together <= statistics.limit and statistics.listable
    detail = (
        f"{len(statistics.open_paths):,} open path(s)"
        if few
        else f"at most {PAIR_LIMIT:,} interacting pairs of {statistics.limit:,} paths can be listed; this problem has "
        f"{pairs:,.0f} pairs and {architecture.count_paths():,} paths"
    )
    return Assumption("paths that can be listed", 0.0 if few else 1.0, 0.0, detail)


def paths_apart(statistics: PathStatistics) -> tuple[Assumption, ...]:
    """Check that no two open paths share an edge or a hidden node, and that each has a correlation to align to."""
    users: dict[object, Path] = {}
    shared, where = 0, "no edge or node is shared"
    for path in statistics.open_paths:
        inner = [statistics.architecture.target(edge) for edge in path.edges[:-1]]
        for thing in (*path.edges, *inner):
            other = users.setdefault(thing, path)
            if other != path:
                name = f"edge {edge_name(thing)}" if thing in path.edges else f"node {thing!r}"
                where = where if shared else f"{name} is on both {other} and {path}"
                shared += 1
    silent = [path for path in statistics.open_paths if not np.any(statistics.input_output(path))]
    found = f"that of path {silent[0]} is zero" if silent else "every path"
    return (
        Assumption("paths that share nothing", shared, 0.0, where),
        Assumption("a correlation on every path", len(silent), 0.0, found),
    )


def off_diagonal(statistics: PathStatistics, products: Mapping[Path, np.ndarray]) -> tuple[float, str]:
    """The largest force that turns modes of a path into each other or out of their span, relative to S_p.

    products: the strengths of the modes of each path, (times, modes).
    """
    worst, where, modes = 0.0, "every path", path_modes(statistics, own=True)
    for path, own in modes.items():
        partners = statistics.partners(path)
        strengths = np.concatenate([products[partner] for partner in partners], axis=1)[:, None, :]
        outputs = np.hstack([modes[partner].output for partner in partners])
        inputs = np.hstack([statistics.input(path, partner) @ modes[partner].input for partner in partners])
        written, read = own.output.T @ outputs, own.input.T @ inputs
        outside = (outputs - own.output @ written, inputs - own.input @ read)
        # in the fewest rows that preserve lengths and angles
        out, into = (np.asarray(np.linalg.qr(columns, mode="r")) for columns in outside)
        within = written * strengths @ read.T
        within[:, np.arange(len(written)), np.arange(len(written))] = 0.0
        forces = (within, written * strengths @ into.T, out * strengths @ read.T)
        force = np.sqrt(sum((one**2).sum(axis=(1, 2)) for one in forces).max(initial=0.0))
        relative = float(force / max(float(np.linalg.norm(own.strengths)), np.finfo(float).tiny))
        worst, where = (relative, f"path {path}") if relative > worst else (worst, where)
    return worst, where


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
    modes, graph = path_modes(statistics, own), statistics.architecture
    rows = [(path, m) for path, one in modes.items() for m in range(len(one.strengths))]
    if own:
        named = [(edge, m) for path, one in modes.items() for edge in path.edges for m in range(len(one.strengths))]
    else:  # mode by mode
        rows.sort(key=lambda row: row[1])
        many = max((m for _, m in rows), default=-1) + 1
        named = [(key, m) for m in range(many) for key in graph.parameters]
    row_of, variable_of = dict(zip(rows, count())), dict(zip(named, count()))
    first = {path: [row_of[path, m] for m in range(len(one.strengths))] for path, one in modes.items()}
    factors = np.full((len(rows), max((len(path.edges) for path in modes), default=1)), len(named))
    for k, (path, m) in enumerate(rows):
        factors[k, : len(path.edges)] = [variable_of[graph.key(edge), m] for edge in path.edges]
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
    return np.unique(one * (int(two.max(initial=0)) + 2) + two, return_inverse=True)[1].astype(np.int64)


def _numbered(labels: np.ndarray) -> np.ndarray:
    """Number the classes in the order in which they are met."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
