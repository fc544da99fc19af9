"""Coordinates in which the matrix flow is smallest: modes at inputs and outputs, an invariant subspace at hidden nodes.

The flow is the same in any orthonormal coordinates of a node. At a hidden node the weights never leave the span of
what enters and what leaves at the start; at an input node directions that no example shows never matter.
Rows and columns that are modes of the data let the integrator control its error for each mode.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.path_statistics import PathStatistics
from neuralrace.theory.flow.moments import RANK_TOLERANCE


@dataclass(frozen=True, eq=False)
class Coordinates:
    """An orthonormal basis per node, and what of the weights lies outside and never moves."""

    bases: Mapping[str, np.ndarray]  # node -> (size, coordinates)
    ends: Mapping[Edge, tuple[str, str]]
    fixed: Mapping[Edge, np.ndarray]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of coordinates of each node."""
        return {node: basis.shape[1] for node, basis in self.bases.items()}

    def enter(self, weights: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """Write weights in the coordinates."""
        return {e: self.bases[t].T @ weights[e] @ self.bases[s] for e, (s, t) in self.ends.items()}

    def leave(self, inner: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """Write weights in the neurons' own coordinates again."""
        return {e: self.bases[t] @ inner[e] @ self.bases[s].T + self.fixed[e] for e, (s, t) in self.ends.items()}


@dataclass(frozen=True, eq=False)
class DataBases:
    """Singular directions of the input-output correlations at the inputs and outputs."""

    inputs: Mapping[str, np.ndarray]  # only the directions that some example shows
    used: Mapping[str, np.ndarray]  # output directions that some target uses
    unused: Mapping[str, np.ndarray]
    input_scale: float  # the largest variance of the inputs

    def outputs(
        self, architecture: Architecture, weights: Mapping[Edge, np.ndarray], bound: float
    ) -> dict[str, np.ndarray]:
        """The output directions that matter.

        Weights into a direction that no target uses can only shrink, and pull at the others at a rate of at most
        their square times the input variance; where that is below `bound` they are left out.
        """
        found = {}
        for node, used in self.used.items():
            parts = [self.unused[node].T @ weights[e] for e in architecture.incoming[node]]
            pull = _largest(sum(part @ part.T for part in parts)) if self.unused[node].size else 0.0
            leave_out = pull * self.input_scale < bound and used.shape[1] > 0
            found[node] = used if leave_out else np.hstack([used, self.unused[node]])
        return found


def data_bases(statistics: PathStatistics) -> DataBases:
    """Find the directions at the inputs and outputs that the statistics distinguish."""
    nodes, architecture = statistics.architecture.nodes, statistics.architecture
    shown = {node: np.zeros((nodes[node],) * 2) for node in architecture.inputs}
    inward = {node: np.zeros((nodes[node],) * 2) for node in architecture.inputs}
    outward = {node: np.zeros((nodes[node],) * 2) for node in architecture.outputs}
    heard = _heard(statistics)
    for configuration in range(statistics.configuration_count):
        for source in heard["inputs"][configuration]:
            shown[source] += statistics.input_moment(configuration, source, source)
            for target in heard["outputs"][configuration]:
                correlation = statistics.input_output_moment(configuration, target, source)
                inward[source] += correlation.T @ correlation
                outward[target] += correlation @ correlation.T
    inputs, used, unused = {}, {}, {}
    for node, second in shown.items():
        values, vectors = np.linalg.eigh(second)
        kept = vectors[:, values > RANK_TOLERANCE * max(float(values[-1]), np.finfo(float).tiny)]
        inputs[node] = kept @ np.linalg.eigh(kept.T @ inward[node] @ kept)[1][:, ::-1]
    for node, gram in outward.items():
        values, vectors = np.linalg.eigh(gram)
        large = values[::-1] > RANK_TOLERANCE * max(float(values[-1]), np.finfo(float).tiny)
        used[node], unused[node] = vectors[:, ::-1][:, large], vectors[:, ::-1][:, ~large]
    scale = max((float(np.linalg.norm(second, 2)) for second in shown.values()), default=0.0)
    return DataBases(inputs, used, unused, scale)


def make_coordinates(
    statistics: PathStatistics,
    weights: Mapping[Edge, np.ndarray],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
) -> Coordinates:
    """Coordinates for the flow that starts at these weights."""
    architecture = statistics.architecture
    bases = {node: np.eye(size) for node, size in architecture.nodes.items()}
    bases.update(inputs)
    bases.update(outputs)
    inner = {e: bases[t].T @ weights[e] @ bases[s] for e, (s, t) in architecture.edges.items()}
    for node in architecture.hidden:
        sides = [inner[e] for e in architecture.incoming[node]] + [inner[e].T for e in architecture.outgoing[node]]
        reach = np.hstack(sides)
        if reach.shape[1] < reach.shape[0]:
            bases[node] = np.linalg.qr(reach)[0]
            for e in architecture.incoming[node]:
                inner[e] = bases[node].T @ inner[e]
            for e in architecture.outgoing[node]:
                inner[e] = inner[e] @ bases[node]
    ends = dict(architecture.edges)
    fixed = {e: weights[e] - bases[t] @ inner[e] @ bases[s].T for e, (s, t) in ends.items()}
    return Coordinates(bases, ends, fixed)


def _largest(gram: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(gram)[-1])


def _heard(statistics: PathStatistics) -> dict[str, list[list[str]]]:
    """The inputs and outputs that take part in each configuration."""
    architecture = statistics.architecture
    found: dict[str, list[list[str]]] = {"inputs": [], "outputs": []}
    gates = {
        "inputs": {n: [statistics.edge_gates[e] for e in architecture.outgoing[n]] for n in architecture.inputs},
        "outputs": {n: [statistics.edge_gates[e] for e in architecture.incoming[n]] for n in architecture.outputs},
    }
    for side, by_node in gates.items():
        open_in = {node: np.any(np.array(values) != 0, axis=0) for node, values in by_node.items()}
        found[side] = [
            [node for node, here in open_in.items() if here[c]] for c in range(statistics.configuration_count)
        ]
    return found
