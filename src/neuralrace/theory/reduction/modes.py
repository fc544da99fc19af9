"""The modes of every open path: in bases that all paths share, or in the singular vectors of each path."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neuralrace.architecture import Path, edge_name
from neuralrace.axes import Edge
from neuralrace.statistics import PathStatistics, shared_bases, untied
from neuralrace.theory.certificate import Assumption

PAIR_LIMIT = 4_000_000  # interacting pairs of paths that may be listed
RANK = 1e-10  # relative size of a singular value that still counts


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
    for path, (partners, (written, read, outputs, inputs)) in statistics.once(_forces).items():
        strengths = np.concatenate([products[partner] for partner in partners], axis=1)[:, None, :]
        within = written * strengths @ read
        within[:, np.arange(len(written)), np.arange(len(written))] = 0.0
        forces = (within, written * strengths @ inputs, outputs * strengths @ read)
        force = np.sqrt(sum((one**2).sum(axis=(1, 2)) for one in forces).max(initial=0.0))
        relative = float(force / max(float(np.linalg.norm(modes[path].strengths)), np.finfo(float).tiny))
        worst, where = (relative, f"path {path}") if relative > worst else (worst, where)
    return worst, where


def _forces(statistics: PathStatistics) -> dict[Path, tuple[tuple[Path, ...], list[np.ndarray]]]:
    """For each path and the strengths of all modes of its partners j: U_p^T U_j, V_j^T Sigma_x(j, p) V_p, and the
    parts of either that its own modes do not span, in as few rows as keep their lengths and angles.
    """
    found, modes = {}, path_modes(statistics, own=True)
    for path, own in modes.items():
        partners = tuple(statistics.partners(path))
        outputs = np.hstack([modes[partner].output for partner in partners])
        inputs = np.hstack([statistics.input(path, partner) @ modes[partner].input for partner in partners])
        written, read = own.output.T @ outputs, own.input.T @ inputs
        outside = (outputs - own.output @ written, inputs - own.input @ read)
        outputs, inputs = (np.asarray(np.linalg.qr(columns, mode="r")) for columns in outside)
        found[path] = (partners, [written, read.T, outputs, inputs.T])
    return found
