"""What there is to see of networks with one rectified layer while they learned: their weights at every record."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from neuralrace.axes import Edge
from neuralrace.problem import BIAS
from neuralrace.reln.rebuilt import equal_parts
from neuralrace.training import ReLUNetwork
from neuralrace.trajectory import Trajectory

SILENT = 0.01  # of what a neuron receives, squared: one that passes on no more than this is on for nothing


@dataclass(frozen=True, eq=False)
class Watched:
    """Networks at their records, and the examples; a bias is the weight of one more input, which is always one.

    incoming: (seeds, records, neurons, inputs). outgoing: (seeds, records, neurons, outputs). offset: (seeds, records,
    outputs), the biases of the outputs, None where there are none.
    """

    network: ReLUNetwork = field(repr=False)
    steps: np.ndarray
    incoming: np.ndarray = field(repr=False)
    outgoing: np.ndarray = field(repr=False)
    offset: np.ndarray | None = field(repr=False)

    @classmethod
    def of(cls, run: Trajectory, network: ReLUNetwork) -> "Watched":
        """Read a run of one hidden layer whose weights were recorded."""
        edges = network.architecture.edges
        weights = {edge: run.values(f"weights[{edge[0]}->{edge[1]}]") for edge in edges}
        return cls.over_time(network, np.asarray(run.data["step"].values), weights)

    @classmethod
    def over_time(cls, network: ReLUNetwork, steps: np.ndarray, weights: Mapping[Edge, np.ndarray]) -> "Watched":
        """Weights after some steps, (seeds, records, target, source) each, of any number of neurons."""
        incoming = weights["x", "h1"]
        if network.biases:
            incoming = np.concatenate([incoming, weights[BIAS, "h1"]], axis=-1)
        offset = weights[BIAS, "y"][..., 0] if network.biases else None
        return cls(network, steps, incoming, weights["h1", "y"].swapaxes(-1, -2), offset)

    @property
    def inputs(self) -> np.ndarray:
        """(N, inputs)."""
        rows = self.network.inputs
        return np.column_stack([rows, np.ones(len(rows))]) if self.network.biases else rows

    def received(self, record: int) -> np.ndarray:
        """What every neuron receives for every example, (seeds, neurons, N)."""
        return np.asarray(self.incoming[:, record] @ self.inputs.T)

    def carried(self, record: int, received: np.ndarray) -> np.ndarray:
        """How much every neuron would pass on if it were open, squared; (seeds, neurons, N), all together one."""
        size = np.sum(self.outgoing[:, record] ** 2, axis=-1)[..., None] * received**2 * self.network.task.weights
        return np.asarray(size / max(float(size.sum()), np.finfo(float).tiny))


@dataclass(frozen=True, eq=False)
class Stretch:
    """What passed through neurons over some records. carried: (seeds, neurons, N), in the mean if they were open;

    passed: the same where they were. The gate that replaces those of a neuron best is passed / carried.
    """

    first: int
    last: int
    carried: np.ndarray = field(repr=False)
    passed: np.ndarray = field(repr=False)

    @property
    def silent(self) -> np.ndarray:
        """(seeds, neurons): which are on for nothing."""
        return np.asarray(self.passed.sum(axis=-1) <= SILENT * self.carried.sum(axis=-1))


def stretches_of(watched: Watched, counts: tuple[int, ...]) -> dict[int, tuple[Stretch, ...]]:
    """Cut the records into so many stretches in which equal parts of the gating change; for each count.

    The change from record to record is the share of what is carried whose gates turn. The counts are powers of two,
    so that the cuts of one are among those of the next.
    """
    last, finest = len(watched.steps) - 1, max(counts)
    received = [watched.received(record) for record in range(last + 1)]
    on = [rows > 0 for rows in received]
    carried = [watched.carried(record, rows) for record, rows in enumerate(received)]
    change = [float(carried[r + 1][on[r] != on[r + 1]].sum()) for r in range(last)]
    grown = np.concatenate([[0.0], np.cumsum(np.array(change) + 1e-9)])  # where nothing changes, equal lengths
    bounds = equal_parts(grown, min(finest, last))
    length = np.gradient(watched.steps.astype(float))  # how long a record stands for the gates
    parts = []
    for first, end in itertools.pairwise(bounds):
        inside = range(first, end + (end == last))
        whole = np.sum([length[r] * carried[r] for r in inside], axis=0)
        passed = np.sum([length[r] * carried[r] * on[r] for r in inside], axis=0)
        parts.append(Stretch(first, end, whole, passed))
    usable = [count for count in counts if count <= len(parts)]
    return {count: tuple(_joined(parts, count)) for count in usable}


def _joined(parts: list[Stretch], count: int) -> list[Stretch]:
    size = len(parts) // count
    groups = [parts[i * size : (i + 1) * size if i < count - 1 else len(parts)] for i in range(count)]
    return [
        Stretch(g[0].first, g[-1].last, sum(p.carried for p in g), sum(p.passed for p in g))  # type: ignore[arg-type]
        for g in groups
    ]
