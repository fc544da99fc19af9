"""The open paths of a problem in its shared bases: one row of strengths per path, one per pair that interacts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.architecture import Path
from neuralrace.errors import AssumptionError, PathLimitError
from neuralrace.path_statistics import PathStatistics
from neuralrace.shared_bases import SharedBases

PAIR_LIMIT = 4_000_000


@dataclass(frozen=True, eq=False)
class PathTable:
    """S(p) and D(j, p) of P1 eqs 7-8 as arrays over paths and modes."""

    edges: tuple[Any, ...]
    paths: tuple[Path, ...]
    route: np.ndarray  # (paths, longest), the number of each edge, -1 beyond the end
    strengths: np.ndarray  # S(p), (paths, modes)
    first: np.ndarray  # (pairs,), j
    second: np.ndarray  # (pairs,), p
    variances: np.ndarray  # D(j, p), (pairs, modes)
    target_energy: float
    own_modes: bool = False  # every row of `edges` is an (edge, mode) pair and there is one column

    @property
    def modes(self) -> int:
        """The number of modes."""
        return int(self.strengths.shape[1])


def path_table(statistics: PathStatistics, bases: SharedBases) -> PathTable:
    """Take the diagonals of all statistics in the shared bases."""
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
        paths=paths,
        route=route,
        strengths=np.array(strengths).reshape(len(paths), modes),
        first=np.array(first, dtype=int),
        second=np.array(second, dtype=int),
        variances=np.array(variances).reshape(len(first), modes),
        target_energy=statistics.target_energy,
    )


def check_listable(statistics: PathStatistics) -> None:
    """Refuse no open path, or more of them or of their interacting pairs than can be listed, without listing any."""
    architecture = statistics.architecture
    ways: dict[str, np.ndarray] = {}  # node -> open ways to it in each configuration
    for node in architecture.order:
        ways[node] = np.ones(statistics.configuration_count) if node in architecture.inputs else np.zeros(1)
        for edge in architecture.incoming[node]:
            ways[node] = ways[node] + (statistics.edge_gates[edge] != 0) * ways[architecture.source(edge)]
    into = np.array([ways[node] + np.zeros(statistics.configuration_count) for node in architecture.outputs])
    pairs, together = float((into**2).sum()), float(into.sum(axis=0).max(initial=0.0))
    if together == 0:
        raise AssumptionError("at least one path must be open for some example; none is, so nothing is learned")
    if pairs > PAIR_LIMIT or together > statistics.limit:
        raise PathLimitError(
            f"at most {PAIR_LIMIT:,} interacting pairs of {statistics.limit:,} paths can be listed; this problem has "
            f"{pairs:,.0f} pairs and {architecture.count_paths():,} paths: use method='flow', which lists none"
        )
