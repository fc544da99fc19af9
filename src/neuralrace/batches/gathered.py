"""All that a gated linear network sees of its examples, gathered batch by batch in bounded memory.

Examples with equal gates enter through the second moments of their stacked inputs and targets. The triangular factor R
of the weighted rows has these moments, R^T R; and factors merge, since that of one above the other has the sum of
both. Unlike sums of products, factors keep their digits where columns are nearly dependent. One pass goes over all
batches: here, one after the other, or on a dask cluster as a tree.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from neuralrace._engine.example_rows import carrying_gates, label_rows
from neuralrace.architecture import Architecture
from neuralrace.arrays import frozen_array
from neuralrace.axes import Edge
from neuralrace.batches.batch import Batch, as_batch
from neuralrace.cluster import connected
from neuralrace.errors import NeuralRaceError, ProblemError, TaskError, require_kind
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.statistics import PathStatistics
from neuralrace.task import Task

BLOCK = 1024  # rows that are factored at once: they stay in the cache
FACTOR_BYTES = 1 << 30  # that the factors of all configurations may take
FAN = 16  # results that are merged by one task of the tree


class Kind(NamedTuple):
    """What examples with one factor have in common: the gates as they were given, and which nodes are not zero."""

    gates: tuple[float, ...]
    active: tuple[bool, ...]  # inputs, then targets


class Factor(NamedTuple):
    """The total weight of some examples and a triangular factor of their weighted rows, at the active nodes."""

    weight: float
    triangle: np.ndarray


@dataclass(frozen=True, eq=False)
class Gathered:
    """The factors of the examples so far, by kind.

    nodes, edges: the names of the gates, in the order of their values in a kind.
    """

    architecture: Architecture
    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]
    count: int
    factors: Mapping[Kind, Factor]

    def merged(self, other: "Gathered") -> "Gathered":
        """The factors of both together; the same to rounding in whatever order they come."""
        if (self.nodes, self.edges) != (other.nodes, other.edges):
            mine, theirs = ((*part.nodes, *part.edges) for part in (self, other))
            raise TaskError(f"every batch must have the same gates; one has {mine} and another {theirs}")
        factors = dict(self.factors)
        for kind, (weight, triangle) in other.factors.items():
            before = factors.get(kind)
            if before is not None:
                weight, triangle = before.weight + weight, factored(np.concatenate([before.triangle, triangle]))
            factors[kind] = Factor(weight, triangle)
        taken = sum(factor.triangle.nbytes for factor in factors.values())
        if taken > FACTOR_BYTES:
            raise ProblemError(
                f"examples with equal gates are gathered, and there are {len(factors)} different sets of gates, which "
                f"take {taken:,} bytes of at most {FACTOR_BYTES:,}: gates that differ for every example cannot be "
                "gathered"
            )
        return Gathered(self.architecture, self.nodes, self.edges, self.count + other.count, factors)

    def problem(self) -> Problem:
        """The problem of all examples: few rows with their moments, and the statistics of the examples themselves."""
        kinds = sorted(self.factors)  # not in the order in which they came
        parts = [self._rows(kind, *self.factors[kind]) for kind in kinds]
        if not parts:
            raise TaskError("batches must hold at least one example with weight; they hold none")
        stacked = np.concatenate([rows for rows, _ in parts])
        weights = np.concatenate([np.full(len(rows), share) for rows, share in parts])
        kind_of = np.repeat(np.arange(len(kinds)), [len(rows) for rows, _ in parts])
        names = (*self.architecture.inputs, *self.architecture.outputs)
        columns = dict(zip(names, np.split(stacked, np.cumsum(_sizes(self.architecture))[:-1], axis=1), strict=True))
        task = Task(
            {node: columns[node] for node in self.architecture.inputs},
            {node: columns[node] for node in self.architecture.outputs},
            weights,
        )
        gates = self._gates(kinds)
        carrying = carrying_gates(self.architecture, self._probe(kinds), gates)
        by_row = {edge: gate[kind_of] for edge, gate in carrying.items()}
        statistics = PathStatistics.of_open_edges(self.architecture, task, by_row)
        return Problem(self.architecture, task, gates.take(kind_of)).knowing(statistics)

    def _rows(self, kind: Kind, weight: float, triangle: np.ndarray) -> tuple[np.ndarray, float]:
        """Rows of one kind over all columns, each with an equal share of the weight, and that share."""
        count = max(len(triangle), 1)
        rows = np.zeros((count, sum(_sizes(self.architecture))))
        share = weight / count
        rows[: len(triangle), _columns(self.architecture, kind.active)] = triangle / np.sqrt(share)
        return rows, share

    def _gates(self, kinds: list[Kind]) -> Gates:
        values = np.array([kind.gates for kind in kinds]).reshape(len(kinds), -1)
        named = dict(zip((*self.nodes, *self.edges), values.T, strict=True))
        return Gates({node: named[node] for node in self.nodes}, {edge: named[edge] for edge in self.edges})

    def _probe(self, kinds: list[Kind]) -> Task:
        """One example of each kind, silent where its examples are: which edges carry something depends on no more."""
        architecture = self.architecture
        active = np.array([kind.active for kind in kinds], dtype=float)
        inputs = {n: np.repeat(active[:, i, None], architecture.nodes[n], 1) for i, n in enumerate(architecture.inputs)}
        return Task(inputs, {n: np.zeros((len(kinds), architecture.nodes[n])) for n in architecture.outputs})


def gather(architecture: Architecture, source: Any, number: int = 0) -> Gathered:
    """The factors of one batch; number: its own, for messages."""
    try:
        return _gathered(architecture, as_batch(source))
    except NeuralRaceError as error:
        raise type(error)(f"batch {number}: {error}") from None


def merge(parts: Iterable[Gathered]) -> Gathered:
    """All together."""
    return reduce(Gathered.merged, parts)


def factored(rows: np.ndarray) -> np.ndarray:
    """A triangular factor: at most as many rows as columns, with the same second moments; a block at a time."""
    count, width = rows.shape
    if count <= width:
        return rows
    block = max(BLOCK, 4 * width)
    if count >= 2 * block:
        whole = count // block * block
        triangles = np.asarray(np.linalg.qr(rows[:whole].reshape(-1, block, width), mode="r"))
        return factored(np.concatenate([triangles.reshape(-1, width), rows[whole:]]))
    return np.asarray(np.linalg.qr(rows, mode="r"))


def _gathered(architecture: Architecture, batch: Batch) -> Gathered:
    task = Task(batch.inputs, batch.targets)
    gates = Gates(batch.gates, batch.edge_gates)
    Problem(architecture, task, gates)  # checks that they fit together
    if gates.neurons:
        raise ProblemError(
            f"batches go with one gate per node; {', '.join(map(repr, gates.neurons))} have one for every neuron: make "
            "each neuron, or each group with equal gates, a node of its own"
        )
    weights = _weights(batch.weights, len(task))
    nodes, edges = tuple(sorted(gates.nodes)), tuple(sorted(gates.edges))
    values = [*(gates.nodes[node] for node in nodes), *(gates.edges[edge] for edge in edges)]
    rows = [*(task.inputs[n] for n in architecture.inputs), *(task.targets[n] for n in architecture.outputs)]
    active = [np.asarray(array.any(axis=1)) for array in rows]
    weighted = np.hstack(rows)
    if not (weights == 1).all():
        weighted *= np.sqrt(weights)[:, None]
    factors: dict[Kind, Factor] = {}
    for members in _alike(len(task), [*values, *active]):
        first, weight = members[0], float(weights[members].sum())
        kind = Kind(tuple(float(gate[first]) + 0.0 for gate in values), tuple(bool(flag[first]) for flag in active))
        if weight > 0:
            used = _columns(architecture, kind.active)
            chosen = weighted if len(members) == len(task) else weighted[members]
            factors[kind] = Factor(weight, factored(chosen if used.all() else chosen[:, used]))
    return Gathered(architecture, nodes, edges, len(task), factors)


def _alike(count: int, columns: list[np.ndarray]) -> list[np.ndarray]:
    """The rows in sets that agree in every column."""
    labels = label_rows(count, columns)
    largest = int(labels.max(initial=0))
    if not largest:
        return [np.arange(count)]
    order = np.argsort(labels.astype(np.uint16) if largest < 1 << 16 else labels, kind="stable")  # short ones by radix
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def _weights(given: Any, count: int) -> np.ndarray:
    if given is None:
        return np.ones(count)
    weights = frozen_array("weights", given, 1, TaskError)
    if len(weights) != count or (weights < 0).any():
        raise TaskError(
            f"weights must be {count} numbers that are not negative, one per example; there are {len(weights)}, the "
            f"least {weights.min(initial=0.0):g}"
        )
    return weights


def _sizes(architecture: Architecture) -> list[int]:
    return [architecture.nodes[node] for node in (*architecture.inputs, *architecture.outputs)]


def _columns(architecture: Architecture, active: tuple[bool, ...]) -> np.ndarray:
    """Which of the stacked columns belong to nodes that are active."""
    return np.repeat(np.array(active, dtype=bool), _sizes(architecture))


def problem(architecture: Architecture, batches: Iterable[Any], *, on: Any = None) -> Problem:
    """The problem of all examples of some batches, in one pass and bounded memory.

    Its few examples have the loss, the gradient and the statistics of all that came, to rounding and whatever the
    batching: for squared error and linear nodes, as `Problem.compress`. batches: each a `Batch`, a tuple like one, or
    a function that returns one. on: nothing to read them here; "local", the address of a dask scheduler or a client
    to read and reduce them there, for which functions, zarr or dask arrays are best: arrays would be sent.
    """
    require_kind("batches", batches, Iterable, TaskError, "an")
    if on is None:
        total: Gathered | None = None
        for number, batch in enumerate(batches):
            part = gather(architecture, batch, number)
            total = part if total is None else total.merged(part)
    else:
        total = _on_cluster(architecture, batches, on)
    if total is None:
        raise TaskError("batches must hold at least one batch; there was none")
    return total.problem()


def _on_cluster(architecture: Architecture, batches: Iterable[Any], on: Any) -> Gathered | None:
    """As a tree: batches are gathered where they are read, and what travels is factors."""
    with connected(on) as client:
        from dask.delayed import delayed  # there if a client is

        parts = [delayed(gather)(architecture, batch, number) for number, batch in enumerate(batches)]
        while len(parts) > 1:
            parts = [delayed(merge)(parts[first : first + FAN]) for first in range(0, len(parts), FAN)]
        compute: Any = client.compute  # it has no types
        return compute(parts[0]).result() if parts else None
