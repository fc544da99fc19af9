"""The open paths of a problem in its shared bases: one row of strengths per path, one per pair that interacts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.architecture import Path
from neuralrace.bases import SharedBases
from neuralrace.statistics import PathStatistics
from neuralrace.types import Edge

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
        strengths=np.array(strengths).reshape(-1, modes),
        first=np.array(first, dtype=int),
        second=np.array(second, dtype=int),
        variances=np.array(variances).reshape(-1, modes),
        target_energy=statistics.target_energy,
    )


def count_pairs(statistics: PathStatistics) -> int:
    """How many ordered pairs of open paths into one output share a configuration, at most."""
    per_configuration: dict[tuple[int, str], int] = {}
    for path, entry in statistics.open_paths.items():
        for configuration in entry.configurations.tolist():
            key = (configuration, path.target)
            per_configuration[key] = per_configuration.get(key, 0) + 1
    return sum(count**2 for count in per_configuration.values())


def path_strengths(table: PathTable, edge_strengths: Mapping[Edge, np.ndarray]) -> dict[Path, np.ndarray]:
    """B_p: the product of the strengths along each path; leading axes are kept."""
    found = {}
    for path in table.paths:
        product = np.ones(())
        for edge in path.edges:
            product = product * edge_strengths[edge]
        found[path] = np.asarray(product)
    return found
