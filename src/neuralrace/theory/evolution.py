"""The weights and mode strengths of one draw of a forecast over time, by any method."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from neuralrace.architecture import Architecture, Path
from neuralrace.axes import Edge

WeightsAt = Callable[[np.ndarray], Iterable[dict[Edge, np.ndarray]]]
PathStrengths = Callable[[Sequence[Path], np.ndarray], list[np.ndarray]]  # (times, modes) of each path


@dataclass(frozen=True, eq=False)
class Evolution:
    """Functions of increasing times.

    weights: the weights at each time. edges, paths: the strengths of the modes of edges and of paths, (times,
    modes) each.
    """

    weights: WeightsAt
    edges: Callable[[Sequence[Edge], np.ndarray], list[np.ndarray]]
    paths: PathStrengths


def matrix_evolution(
    weights_at: WeightsAt,
    graph: Architecture,
    modes: Callable[[Path], tuple[np.ndarray, np.ndarray]] | None = None,
    paths: PathStrengths | None = None,
) -> Evolution:
    """Read strengths off the weight matrices of a network.

    modes: path -> its output and input vectors U and V, whose strengths are the diagonal of U^T W_p V. Those of edges
    are their singular values. None: paths go through activations, and have none. paths: their strengths, where the
    method has them without the weights.
    """

    def matrices(times: np.ndarray) -> Iterable[Mapping[Edge, np.ndarray]]:
        return map(graph.matrices, weights_at(times)) if graph.weights else weights_at(times)

    def of_edges(edges: Sequence[Edge], times: np.ndarray) -> list[np.ndarray]:
        rows = [[np.linalg.svd(weights[edge], compute_uv=False) for edge in edges] for weights in matrices(times)]
        return [np.array(column) for column in zip(*rows, strict=True)]

    def of_paths(wanted: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
        assert modes is not None
        bases = [modes(path) for path in wanted]
        found = [np.zeros((len(times), output.shape[1])) for output, _ in bases]
        for i, weights in enumerate(matrices(times)):
            for path, (output, product), values in zip(wanted, bases, found, strict=True):
                for edge in path.edges:
                    product = weights[edge] @ product
                values[i] = np.sum(output * product, axis=0)
        return found

    return Evolution(weights_at, of_edges, paths or of_paths)
