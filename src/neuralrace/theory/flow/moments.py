"""What the matrix flow needs of the statistics: one map per distinct state of a node, and its moments.

In one gate configuration a node is a linear map of the inputs. Two configurations in which everything upstream of a
node is gated alike share that map; such a map is a state. Configurations that share the state of an output
enter the loss only through the sum of their moments. So no path is ever enumerated.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

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
class OutputMoments:
    """The moments of all examples that see one state of an output node.

    root: L with Sigma_x = L L^T over the stacked inputs. target: Y with Sigma_yx = Y L^T; so the loss is half
    |T L - Y|^2 plus a constant, without cancellation.
    """

    state: int
    root: np.ndarray
    target: np.ndarray


@dataclass(frozen=True, eq=False)
class Moments:
    """The states of all nodes and the moments at the outputs."""

    states: tuple[State, ...]  # sources before targets
    outputs: tuple[OutputMoments, ...]
    constant: float  # the part of the loss that no weight can change


def collect_moments(statistics: PathStatistics) -> Moments:
    """Find the states over all configurations and sum the moments of each output state."""
    book = _StateBook(statistics)
    shared: dict[int, list[int]] = {}
    for configuration in range(statistics.configuration_count):
        for state in book.outputs_of(configuration):
            shared.setdefault(state, []).append(configuration)
    outputs = []
    explained = 0.0
    for number, configurations in shared.items():
        root, target = _factored(*_summed(statistics, book.states[number], configurations))
        explained += float(np.sum(target**2))
        outputs.append(OutputMoments(number, root, target))
    constant = 0.5 * (statistics.target_energy - explained)
    floor = 1e-14 * statistics.target_energy
    return Moments(tuple(book.states), tuple(outputs), constant if constant > floor else 0.0)


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
