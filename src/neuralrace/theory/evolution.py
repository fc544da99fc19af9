"""The weights of one draw of a forecast over time, whatever method they come from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from neuralrace.architecture import Path
from neuralrace.axes import Edge

MatricesAt = Callable[[np.ndarray], Iterator[dict[Edge, np.ndarray]]]


class Evolution(Protocol):
    """Weights and mode strengths at increasing times."""

    def weights(self, times: np.ndarray) -> list[dict[Edge, np.ndarray]]:
        """The weight matrices."""

    def edges(self, edges: Sequence[Edge], times: np.ndarray) -> list[np.ndarray]:
        """The strengths of the modes of some edges; (times, modes) each."""

    def paths(self, paths: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
        """The strengths of the modes of some paths; (times, modes) each."""


@dataclass(frozen=True, eq=False)
class MatrixEvolution:
    """Whole weight matrices; modes are read off in given bases.

    matrices: times -> weights, one set after the other. modes: path -> its output and input vectors. ends: edge ->
    bases of its target and its source; without, its modes are singular values. at_hand: where the method has the
    strengths of paths without the weights, (paths, times) -> (times, modes) each.
    """

    matrices: MatricesAt
    modes: Callable[[Path], tuple[np.ndarray, np.ndarray]]
    ends: Mapping[Edge, tuple[np.ndarray, np.ndarray]] | None = None
    at_hand: Callable[[Sequence[Path], np.ndarray], list[np.ndarray]] | None = None

    def weights(self, times: np.ndarray) -> list[dict[Edge, np.ndarray]]:
        """The weight matrices."""
        return list(self.matrices(times))

    def edges(self, edges: Sequence[Edge], times: np.ndarray) -> list[np.ndarray]:
        """The singular values of the edges' matrices, or the diagonal of R_t^T W_e R_s."""

        def seen(edge: Edge, matrix: np.ndarray) -> np.ndarray:
            if self.ends is None:
                return np.linalg.svd(matrix, compute_uv=False)
            target, source = self.ends[edge]
            return np.asarray(np.sum(target * (matrix @ source), axis=0))

        values = [[seen(edge, weights[edge]) for edge in edges] for weights in self.matrices(times)]
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
