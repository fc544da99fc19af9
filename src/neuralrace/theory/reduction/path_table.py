"""The open paths of a problem in its modes: one row of strengths per path, one per pair that interacts."""

from dataclasses import dataclass

import numpy as np

from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.path_statistics import PathStatistics
from neuralrace.shared_bases import shared_bases
from neuralrace.theory.certificate import Assumption

PAIR_LIMIT = 4_000_000


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

    def label(self, row: int, column: int) -> tuple[Edge, int]:
        """The edge and the mode of a variable."""
        return self.edges[row], int(self.first_mode[row]) + column


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


def listed_paths(statistics: PathStatistics) -> Assumption:
    """Whether some path is open, and few enough of them and of their interacting pairs to be listed; lists none."""
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
