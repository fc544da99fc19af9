"""The bases in which all statistics of a problem are diagonal at once, where there are such bases.

P1 eqs 7-8: Sigma_yx(p) = U_t(p) S(p) V_s(p)^T and Sigma_x(j, p) = V_s(j) D(j, p) V_s(p)^T with one orthogonal basis for
each output node and one for each input node.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neuralrace.architecture import Path
from neuralrace.path_statistics import PathStatistics


@dataclass(frozen=True)
class SharedBases:
    """One orthogonal basis per input and output node, and how far the statistics are from diagonal in them."""

    outputs: Mapping[str, np.ndarray]  # U_v, columns are modes
    inputs: Mapping[str, np.ndarray]  # V_v, columns are modes
    residuals: Mapping[str, float]  # statistic -> relative size of what is off the diagonal

    @property
    def worst(self) -> tuple[str, float]:
        """The statistic that is farthest from diagonal."""
        return max(self.residuals.items(), key=lambda item: item[1], default=("none", 0.0))

    def strengths(self, statistics: PathStatistics, path: Path) -> np.ndarray:
        """S(p), the diagonal of U^T Sigma_yx(p) V."""
        rotated = self.outputs[path.target].T @ statistics.input_output(path) @ self.inputs[path.source]
        return np.diagonal(rotated).copy()

    def variances(self, statistics: PathStatistics, first: Path, second: Path) -> np.ndarray:
        """D(j, p), the diagonal of V^T Sigma_x(j, p) V."""
        rotated = self.inputs[first.source].T @ statistics.input(first, second) @ self.inputs[second.source]
        return np.diagonal(rotated).copy()


def shared_bases(statistics: PathStatistics) -> SharedBases:
    """The bases that come nearest to making every statistic diagonal; computed once for each set of statistics."""
    return statistics.once(_find_bases)


def _find_bases(statistics: PathStatistics) -> SharedBases:
    """Find the bases that come nearest to making every statistic diagonal, strongest mode first.

    A random combination of all statistics is one symmetric matrix over all input and output nodes. If shared bases
    exist, any function of it is diagonal in them between any two nodes, and a generic one tells apart all modes
    that some statistic tells apart. Modes that no statistic tells apart may be rotated freely, but alike at all
    nodes: so they are chosen at one node and carried to the others. Modes of parts that do not interact
    are numbered by strength, so that equal numbers meet in the hidden nodes.
    """
    combined, place = _combined(statistics, np.random.default_rng(0))
    values, vectors = np.linalg.eigh(combined)
    scale = max(float(np.abs(values).max(initial=0.0)), np.finfo(float).tiny)
    link = (vectors * np.expm1(values / scale)) @ vectors.T
    found: dict[str, dict[int, np.ndarray]] = {node: {} for node in place}
    for modes in _components(link, place):
        for mode in sorted(modes, key=lambda mode: -_strength(combined, mode, place)):
            taken = {number for node in mode for number in found[node]}
            number = next(i for i in range(len(taken) + 1) if i not in taken)
            for node, vector in mode.items():
                found[node][number] = vector
    count = max(max(columns, default=-1) for columns in found.values()) + 1
    bases = {node: _matrix(columns, place[node], count) for node, columns in found.items()}
    architecture = statistics.architecture
    outputs = {node: bases[node] for node in architecture.outputs}
    inputs = {node: bases[node] for node in architecture.inputs}
    return SharedBases(outputs, inputs, _residuals(statistics, outputs, inputs))


def _combined(statistics: PathStatistics, random: np.random.Generator) -> tuple[np.ndarray, dict[str, slice]]:
    architecture = statistics.architecture
    place: dict[str, slice] = {}
    start = 0
    for node in (*architecture.outputs, *architecture.inputs):
        place[node] = slice(start, start + architecture.nodes[node])
        start += architecture.nodes[node]
    combined = np.zeros((start, start))
    for path in statistics.open_paths:
        correlation = random.uniform(0.5, 1.5) * statistics.input_output(path)
        combined[place[path.target], place[path.source]] += correlation
        combined[place[path.source], place[path.target]] += correlation.T
        for partner in statistics.partners(path):
            second = random.uniform(0.5, 1.5) * statistics.input(partner, path)
            combined[place[partner.source], place[path.source]] += second
            combined[place[path.source], place[partner.source]] += second.T
    return combined, place


def _components(link: np.ndarray, place: dict[str, slice]) -> list[list[dict[str, np.ndarray]]]:
    """Modes as one unit vector per node; each round starts at the node with most left to explain."""
    left = {node: np.eye(rows.stop - rows.start) for node, rows in place.items()}  # projections
    tolerance = 1e-10 * max(float(np.abs(link).max(initial=0.0)), np.finfo(float).tiny)
    components: list[list[dict[str, np.ndarray]]] = []
    while True:
        own = {node: left[node] @ link[rows, rows] @ left[node] for node, rows in place.items()}
        root = max(own, key=lambda node: np.linalg.norm(own[node]))
        values, vectors = np.linalg.eigh(own[root])
        kept = np.abs(values) > tolerance
        if not kept.any():
            return components
        modes = []
        for start in vectors[:, kept].T:
            mode = _carried(link, place, left, root, start, tolerance)
            for node, vector in mode.items():  # at once, so that a node never gives one direction to two modes
                left[node] = left[node] - np.outer(vector, vector)
            modes.append(mode)
        components.append(modes)


def _carried(
    link: np.ndarray,
    place: dict[str, slice],
    left: dict[str, np.ndarray],
    root: str,
    vector: np.ndarray,
    tolerance: float,
) -> dict[str, np.ndarray]:
    mode = {root: _inside(left[root], vector * np.sign(vector[np.argmax(np.abs(vector))]))}
    for node, rows in place.items():
        if node != root:
            image = left[node] @ link[rows, place[root]] @ mode[root]
            if np.linalg.norm(image) > tolerance:
                mode[node] = _inside(left[node], image)
    return mode


def _inside(left: np.ndarray, image: np.ndarray) -> np.ndarray:
    """The unit vector along an image, projected again: rounding in a small image is large in its direction."""
    again = left @ (image / np.linalg.norm(image))
    return np.asarray(again / np.linalg.norm(again))


def _strength(combined: np.ndarray, mode: dict[str, np.ndarray], place: dict[str, slice]) -> float:
    """How strongly inputs and outputs are correlated in a mode, over all pairs of nodes."""
    return float(
        sum(
            abs(one @ combined[place[a], place[b]] @ two)
            for a, one in mode.items()
            for b, two in mode.items()
            if place[a].start < place[b].start
        )
    )


def _matrix(columns: dict[int, np.ndarray], rows: slice, count: int) -> np.ndarray:
    basis = np.zeros((rows.stop - rows.start, count))
    for number, column in columns.items():
        basis[:, number] = column
    return basis


def _residuals(
    statistics: PathStatistics, outputs: dict[str, np.ndarray], inputs: dict[str, np.ndarray]
) -> dict[str, float]:
    """Relative distance of each statistic from its diagonal part in the bases."""
    residuals = {}
    for path in statistics.open_paths:
        correlation = statistics.input_output(path)
        residuals[f"Sigma_yx({path})"] = _off_diagonal(correlation, outputs[path.target], inputs[path.source])
        for partner in statistics.partners(path):
            second = statistics.input(partner, path)
            name = f"Sigma_x({partner}, {path})"
            residuals[name] = _off_diagonal(second, inputs[partner.source], inputs[path.source])
    return residuals


def _off_diagonal(matrix: np.ndarray, left: np.ndarray, right: np.ndarray) -> float:
    size = float(np.linalg.norm(matrix))
    diagonal = np.einsum("am,ab,bm->m", left, matrix, right)
    return float(np.linalg.norm(matrix - (left * diagonal) @ right.T)) / size if size > 0 else 0.0
