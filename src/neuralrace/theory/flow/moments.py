"""What the matrix flow needs of the statistics: a map and moments per state of a node, and the smallest bases.

In one gate configuration a node is a linear map of the inputs. Two configurations in which everything upstream of a
node is gated alike share that map; such a map is a state. Configurations that share the state of an output
enter the loss only through the sum of their moments. So no path is ever enumerated.

The flow is the same in any orthonormal basis of a node. At a hidden node the weights never leave the span of
what enters and what leaves at the start; at an input node directions that no example shows never matter.
Rows and columns that are modes of the data let the integrator control its error for each mode.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.path_statistics import PathStatistics

RANK_TOLERANCE = 1e-13  # relative size below which an input direction was never shown


@dataclass(frozen=True)
class State:
    """A node together with the gates of everything upstream of it."""

    node: str
    incoming: tuple[tuple[Edge, float, int], ...]  # edge, gate, number of the source's state
    columns: tuple[str, ...]  # the input nodes that it hears


@dataclass(frozen=True, eq=False)
class StateMoments:
    """The states of all nodes, and the moments of all examples that see each state of an output node.

    outputs: number of the state -> L with Sigma_x = L L^T over the stacked inputs, and Y with Sigma_yx = Y L^T; so the
    loss is half |T L - Y|^2 plus a constant, without cancellation.
    """

    states: tuple[State, ...]  # sources before targets
    outputs: Mapping[int, tuple[np.ndarray, np.ndarray]]
    constant: float  # the part of the loss that no weight can change


def collect_moments(statistics: PathStatistics) -> StateMoments:
    """Find the states over all configurations and sum the moments of each output state."""
    book = _StateBook(statistics)
    shared: dict[int, list[int]] = {}
    for configuration in range(statistics.configuration_count):
        for state in book.outputs_of(configuration):
            shared.setdefault(state, []).append(configuration)
    outputs = {n: _factored(*_summed(statistics, book.states[n], found)) for n, found in shared.items()}
    explained = sum(float(np.sum(target**2)) for _, target in outputs.values())
    constant = 0.5 * (statistics.target_energy - explained)
    floor = 1e-14 * statistics.target_energy
    return StateMoments(tuple(book.states), outputs, constant if constant > floor else 0.0)


class _StateBook:
    """Numbers the states as they are met."""

    def __init__(self, statistics: PathStatistics) -> None:
        self.statistics = statistics
        architecture = statistics.architecture
        self.states: list[State] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        rank = {node: index for index, node in enumerate(architecture.order)}
        self._edges = sorted(architecture.edges, key=lambda edge: rank[architecture.target(edge)])
        gates = np.array([statistics.edge_gates[edge] for edge in self._edges])
        self._gates = gates
        self._open = [np.flatnonzero(column) for column in gates.T]

    def outputs_of(self, configuration: int) -> Iterator[int]:
        """The states of the output nodes that hear anything in a configuration."""
        architecture = self.statistics.architecture
        here: dict[str, int] = {}
        incoming: dict[str, list[tuple[Edge, float, int]]] = {}
        for index in self._open[configuration]:
            edge = self._edges[index]
            source, target = architecture.edges[edge]
            if source not in here:
                here[source] = self._number(source, tuple(incoming.get(source, ())))
            gate = float(self._gates[index, configuration])
            incoming.setdefault(target, []).append((edge, gate, here[source]))
        for node in architecture.outputs:
            if node in incoming:
                yield self._number(node, tuple(incoming[node]))

    def _number(self, node: str, incoming: tuple[tuple[Edge, float, int], ...]) -> int:
        key = (node, incoming)
        if key not in self._numbers:
            heard = {name for _, _, source in incoming for name in self.states[source].columns}
            inputs = self.statistics.architecture.inputs
            columns = tuple(name for name in inputs if name in heard) if incoming else (node,)
            self._numbers[key] = len(self.states)
            self.states.append(State(node, incoming, columns))
        return self._numbers[key]


def _summed(statistics: PathStatistics, state: State, configurations: list[int]) -> tuple[np.ndarray, np.ndarray]:
    second: np.ndarray | float = 0.0
    correlation: np.ndarray | float = 0.0
    for c in configurations:
        second = second + np.block([[statistics.input_moment(c, a, b) for b in state.columns] for a in state.columns])
        correlation = correlation + np.hstack([statistics.input_output_moment(c, state.node, a) for a in state.columns])
    return np.asarray(second), np.asarray(correlation)


def _factored(second: np.ndarray, correlation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L and Y with Sigma_x = L L^T and Sigma_yx = Y L^T, without the directions that were never shown."""
    values, vectors = np.linalg.eigh(second)
    kept = values > RANK_TOLERANCE * max(float(values[-1]), np.finfo(float).tiny)
    scale = np.sqrt(values[kept])
    return vectors[:, kept] * scale, correlation @ (vectors[:, kept] / scale)


@dataclass(frozen=True, eq=False)
class NodeBases:
    """An orthonormal basis per node, and what of the weights lies outside and never moves."""

    of: Mapping[str, np.ndarray]  # node -> (size, vectors)
    ends: Mapping[Edge, tuple[str, str]]
    fixed: Mapping[Edge, np.ndarray]

    @property
    def sizes(self) -> dict[str, int]:
        """The number of basis vectors of each node."""
        return {node: basis.shape[1] for node, basis in self.of.items()}

    def enter(self, weights: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """Write weights in the bases."""
        return {e: self.of[t].T @ weights[e] @ self.of[s] for e, (s, t) in self.ends.items()}

    def leave(self, inner: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """Write weights for the neurons themselves again."""
        return {e: self.of[t] @ inner[e] @ self.of[s].T + self.fixed[e] for e, (s, t) in self.ends.items()}


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
            gram = sum(part @ part.T for part in parts)
            pull = float(np.linalg.eigvalsh(gram)[-1]) if self.unused[node].size else 0.0
            leave_out = pull * self.input_scale < bound and used.shape[1] > 0
            found[node] = used if leave_out else np.hstack([used, self.unused[node]])
        return found


def data_bases(statistics: PathStatistics) -> DataBases:
    """Find the directions at the inputs and outputs that the statistics distinguish."""
    nodes, architecture = statistics.architecture.nodes, statistics.architecture
    shown = {node: np.zeros((nodes[node],) * 2) for node in architecture.inputs}
    inward = {node: np.zeros((nodes[node],) * 2) for node in architecture.inputs}
    outward = {node: np.zeros((nodes[node],) * 2) for node in architecture.outputs}
    for here in statistics.moments:
        for source, rows in here.place.items():
            shown[source] += here.inputs[rows, rows]
            for target, correlations in here.outputs.items():
                correlation = correlations[:, rows]
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


def node_bases(
    statistics: PathStatistics,
    weights: Mapping[Edge, np.ndarray],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
) -> NodeBases:
    """The bases for the flow that starts at these weights."""
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
    return NodeBases(bases, ends, fixed)
