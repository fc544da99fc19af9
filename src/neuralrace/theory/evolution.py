"""The weights of one draw of a forecast over time, whatever method they come from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from neuralrace.architecture import Architecture, Path
from neuralrace.axes import Edge
from neuralrace.theory.reduction.system import ReducedSystem, States

MatricesAt = Callable[[np.ndarray], Iterator[dict[Edge, np.ndarray]]]
Strengths = Mapping[Edge, np.ndarray]


class Evolution(Protocol):
    """Weights and mode strengths at increasing times."""

    def weights(self, times: np.ndarray) -> list[dict[Edge, np.ndarray]]:
        """The weight matrices."""

    def edges(self, edges: Sequence[Edge], times: np.ndarray) -> list[np.ndarray]:
        """The strengths of the modes of some edges; (times, modes) each."""

    def paths(self, paths: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
        """The strengths of the modes of some paths; (times, modes) each."""


@dataclass(frozen=True, eq=False)
class ReducedEvolution:
    """Strengths of the reduced system, of one of its draws; matrices: turns strengths at one time into weights."""

    reduction: ReducedSystem
    states: States
    draw: int
    matrices: Callable[[Strengths], dict[Edge, np.ndarray]]

    def weights(self, times: np.ndarray) -> list[dict[Edge, np.ndarray]]:
        """W_e = R_t B_e R_s^T."""
        strengths = self._strengths(times)
        return [self.matrices({edge: values[i] for edge, values in strengths.items()}) for i in range(len(times))]

    def edges(self, edges: Sequence[Edge], times: np.ndarray) -> list[np.ndarray]:
        """The strengths of the edges' modes."""
        strengths = self._strengths(times)
        return [strengths[edge] for edge in edges]

    def paths(self, paths: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
        """The product of the strengths along each path."""
        strengths = self._strengths(times)
        return [np.prod([strengths[edge] for edge in path.edges], axis=0) for path in paths]

    def _strengths(self, times: np.ndarray) -> dict[Edge, np.ndarray]:
        states = self.states(times)[:, self.draw]
        return self.reduction.spread_out(states, self.draw)


@dataclass(frozen=True, eq=False)
class MatrixEvolution:
    """Whole weight matrices; modes are read off in given bases.

    matrices: times -> weights, one set after the other. modes: path -> its output and input vectors. at_hand: where the
    method has the strengths of paths without the weights, (paths, times) -> (times, modes) each.
    """

    matrices: MatricesAt
    modes: Callable[[Path], tuple[np.ndarray, np.ndarray]]
    at_hand: Callable[[Sequence[Path], np.ndarray], list[np.ndarray]] | None = None

    def weights(self, times: np.ndarray) -> list[dict[Edge, np.ndarray]]:
        """The weight matrices."""
        return list(self.matrices(times))

    def edges(self, edges: Sequence[Edge], times: np.ndarray) -> list[np.ndarray]:
        """The singular values of the edges' matrices."""
        values = [[np.linalg.svd(w[edge], compute_uv=False) for edge in edges] for w in self.matrices(times)]
        return [np.array(column) for column in zip(*values, strict=True)]

    def paths(self, paths: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
        """The diagonal of U^T W_p V of each path, all of them from one pass over the times."""
        if self.at_hand is not None:
            return self.at_hand(paths, times)
        modes = [self.modes(path) for path in paths]
        found = [np.zeros((len(times), output.shape[1])) for output, _ in modes]
        for i, weights in enumerate(self.matrices(times)):
            for path, (output, product), values in zip(paths, modes, found, strict=True):
                for edge in path.edges:
                    product = weights[edge] @ product
                values[i] = np.sum(output * product, axis=0)
        return found


@dataclass(frozen=True, eq=False)
class HandedOver:
    """The exact flow up to a time, the reduction from there on, in the bases of the hand-over."""

    architecture: Architecture
    before: MatrixEvolution
    after: ReducedEvolution
    time: float
    bases: Mapping[str, np.ndarray]

    def weights(self, times: np.ndarray) -> list[dict[Edge, np.ndarray]]:
        """The weight matrices."""
        early = times < self.time
        return self.before.weights(times[early]) + self.after.weights(times[~early] - self.time)

    def edges(self, edges: Sequence[Edge], times: np.ndarray) -> list[np.ndarray]:
        """The diagonal of R_t^T W_e R_s of each edge."""

        def seen(edge: Edge, matrix: np.ndarray) -> np.ndarray:
            source, target = self.architecture.edges[edge]
            return np.asarray(np.sum(self.bases[target] * (matrix @ self.bases[source]), axis=0))

        early = times < self.time
        before = [[seen(edge, weights[edge]) for edge in edges] for weights in self.before.matrices(times[early])]
        late = self.after.edges(edges, times[~early] - self.time)
        return [np.array([*(row[i] for row in before), *late[i]]) for i in range(len(edges))]

    def paths(self, paths: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
        """The diagonal of U^T W_p V of each path."""
        early = times < self.time
        first = self.before.paths(paths, times[early]) if early.any() else []
        last = self.after.paths(paths, times[~early] - self.time) if (~early).any() else []
        return [np.concatenate(parts) for parts in zip(*filter(None, (first, last)), strict=True)]
