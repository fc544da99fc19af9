"""Problems from data larger than memory.

A gated linear network sees its examples through the second moments of those with equal gates. The triangular factor R
of their weighted rows has these moments, R^T R, in few rows, and the factor of two factors, one above the other, has
the sum of both. Unlike sums of products, factors keep their digits where columns are nearly dependent.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from neuralrace._engine.example_rows import label_rows
from neuralrace.architecture import Architecture
from neuralrace.arrays import frozen_array
from neuralrace.axes import Edge
from neuralrace.errors import NeuralRaceError, ProblemError, TaskError, require_count, require_kind
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task

__all__ = ["Batch", "cut", "gather", "merge", "problem"]

FACTOR_BYTES = 1 << 30  # limit on the factors of all sets of gates together
# gates and active nodes of a set of examples -> their total weight and the triangular factor of their weighted rows
Factors = dict[tuple[float, ...], tuple[float, np.ndarray]]
Gathered = tuple[tuple[str, ...], tuple[Edge, ...], Factors]  # the gated nodes and edges, and the factors


class Batch(NamedTuple):
    """Some examples with their gates and weights; a plain tuple in this order works too.

    inputs, targets: node -> (n, size). gates: node -> (n,). edge_gates: edge -> (n,). weights: (n,), relative to those
    of all other batches; one for each example unless given. Arrays may be lazy.
    """

    inputs: Mapping[str, Any]
    targets: Mapping[str, Any]
    gates: Mapping[str, Any] | None = None
    edge_gates: Mapping[Edge, Any] | None = None
    weights: Any = None


def problem(architecture: Architecture, batches: Iterable[Any], *, client: Any = None) -> Problem:
    """Build the problem of all examples of some batches, in one pass and bounded memory.

    Its few examples have the loss, the gradient and the statistics of all of them, for the squared error and linear
    nodes. batches: each a `Batch`, a tuple like one, or a function without arguments that returns one. client: a dask
    client whose workers read the batches and merge them in a tree; give it functions or lazy arrays.
    """
    require_kind("batches", batches, Iterable, TaskError)
    tasks = enumerate(batches)
    if client is None:
        parts: Iterator[Any] = (gather(architecture, batch, number) for number, batch in tasks)
        found: Gathered | None = None
        for part in parts:
            found = part if found is None else merge([found, part])
    else:
        futures = [client.submit(gather, architecture, batch, number, pure=False) for number, batch in tasks]
        while len(futures) > 1:
            futures = [client.submit(merge, futures[i : i + 16], pure=False) for i in range(0, len(futures), 16)]
        found = futures[0].result() if futures else None
    if found is None:
        raise TaskError("batches must hold at least one batch; there was none")
    nodes, edges, factors = found
    if not factors:
        raise TaskError("batches must hold at least one example with weight; they hold none")
    rows, weights, gates = [], [], []
    for kind in sorted(factors):  # independent of the order of the batches
        weight, triangle = factors[kind]
        count = max(len(triangle), 1)
        share = weight / count  # rows of equal weight, scaled to keep the moments
        rows.append(triangle / np.sqrt(share) if len(triangle) else np.zeros((1, triangle.shape[1])))
        weights.append(np.full(count, share))
        gates.append(np.tile(kind[: len(nodes) + len(edges)], (count, 1)))
    sizes = [architecture.nodes[node] for node in (*architecture.inputs, *architecture.outputs)]
    columns = np.split(np.concatenate(rows), np.cumsum(sizes)[:-1], axis=1)
    named = dict(zip((*architecture.inputs, *architecture.outputs), columns, strict=True))
    inputs, targets = ({node: named[node] for node in side} for side in (architecture.inputs, architecture.outputs))
    values = np.concatenate(gates).T
    of_edges = dict(zip(edges, values[len(nodes) :], strict=True))
    kept = Gates(dict(zip(nodes, values[: len(nodes)], strict=True)), of_edges)
    return Problem(architecture, Task(inputs, targets, np.concatenate(weights)), kept)


def gather(architecture: Architecture, batch: Any, number: int = 0) -> Gathered:
    """Reduce one batch to a factor for each set of gates; number: the batch's own, for error messages."""
    try:
        batch = batch() if callable(batch) else batch
        if not isinstance(batch, tuple) or not 2 <= len(batch) <= len(Batch._fields):
            raise TaskError(
                f"a batch must be a Batch, or a tuple ({', '.join(Batch._fields)}) of which the last three may be left "
                f"out; it was {type(batch).__name__}"
            )
        batch = Batch(*batch)
        task, gates = Task(batch.inputs, batch.targets), Gates(batch.gates, batch.edge_gates)
        Problem(architecture, task, gates)  # checks that they fit together
        if gates.neurons:
            raise ProblemError(
                f"batches take one gate per node; {', '.join(map(repr, gates.neurons))} have one for every neuron: "
                "make each neuron, or each group with equal gates, its own node"
            )
        weights = np.ones(len(task)) if batch.weights is None else frozen_array("weights", batch.weights, 1, TaskError)
        if len(weights) != len(task) or (weights < 0).any():
            raise TaskError(f"weights must be {len(task)} numbers of at least zero, one per example")
    except NeuralRaceError as error:
        raise type(error)(f"batch {number}: {error}") from None
    nodes, edges = tuple(sorted(gates.nodes)), tuple(sorted(gates.edges, key=str))
    arrays = [*(task.inputs[n] for n in architecture.inputs), *(task.targets[n] for n in architecture.outputs)]
    # Nodes that are zero for all examples of a set must stay exactly zero, so that they carry nothing.
    keys = [gates.nodes[node] for node in nodes] + [gates.edges[edge] for edge in edges]
    keys += [rows.any(axis=1).astype(float) for rows in arrays]
    rows = np.hstack(arrays) * np.sqrt(weights)[:, None]
    labels = label_rows(len(task), keys)
    order = np.argsort(labels, kind="stable")
    factors: Factors = {}
    for members in np.split(order, np.cumsum(np.bincount(labels))[:-1]):
        weight = float(weights[members].sum())
        if weight > 0:
            kind = tuple(float(key[members[0]]) + 0.0 for key in keys)
            active = np.repeat(np.array(kind[-len(arrays) :]) != 0, [part.shape[1] for part in arrays])
            factors[kind] = weight, _factor(rows[members], active)
    return nodes, edges, factors


def merge(parts: Iterable[Gathered]) -> Gathered:
    """Merge the factors of several batches; the order matters to rounding only."""
    return reduce(_merge_two, parts)


def _merge_two(first: Gathered, second: Gathered) -> Gathered:
    if first[:2] != second[:2]:
        mine, theirs = (part[0] + part[1] for part in (first, second))
        raise TaskError(f"every batch must have the same gates; one has {mine} and another {theirs}")
    factors = dict(first[2])
    for kind, (weight, triangle) in second[2].items():
        if kind in factors:
            before, above = factors[kind]
            active = np.concatenate([above, triangle]).any(axis=0)
            weight, triangle = before + weight, _factor(np.concatenate([above, triangle]), np.asarray(active))
        factors[kind] = weight, triangle
    taken = sum(triangle.nbytes for _, triangle in factors.values())
    if taken > FACTOR_BYTES:
        raise ProblemError(
            f"there are {len(factors):,} different sets of gates, whose moments take {taken:,} bytes of at most "
            f"{FACTOR_BYTES:,}: use gates that are equal for many examples"
        )
    return first[0], first[1], factors


def _factor(rows: np.ndarray, active: np.ndarray) -> np.ndarray:
    """The triangular factor of some rows, zero in the columns that are not active."""
    inner = rows[:, active]
    while len(inner) > inner.shape[1]:
        block = max(1024, 4 * inner.shape[1])  # blocks of rows that stay in the cache
        if len(inner) < 2 * block:
            inner = np.asarray(np.linalg.qr(inner, mode="r"))
            break
        whole = len(inner) // block * block
        blocks = np.asarray(np.linalg.qr(inner[:whole].reshape(-1, block, inner.shape[1]), mode="r"))
        inner = np.concatenate([blocks.reshape(-1, inner.shape[1]), inner[whole:]])
    found = np.zeros((len(inner), len(active)))
    found[:, active] = inner
    return found


def cut(
    inputs: Mapping[str, Any],
    targets: Mapping[str, Any],
    gates: Mapping[str, Any] | None = None,
    edge_gates: Mapping[Edge, Any] | None = None,
    weights: Any = None,
    *,
    rows: int = 1 << 16,
) -> Iterator[Any]:
    """Cut arrays into batches that are read one at a time: memory-mapped, zarr and dask arrays, or NumPy's."""
    rows = require_count("rows", rows)
    whole = Batch(inputs, targets, gates or {}, edge_gates or {}, weights)
    lengths = {name: np.shape(array)[:1] for part in whole[:4] if part for name, array in part.items()}
    lengths |= {} if weights is None else {"weights": np.shape(weights)[:1]}
    if len(set(lengths.values())) != 1 or () in lengths.values():
        raise TaskError(f"every array must have one row per example, the same number in each; there are {lengths}")
    ((count,),) = set(lengths.values())
    return (partial(_read, whole, slice(start, start + rows)) for start in range(0, count, rows))


def _read(whole: Batch, rows: slice) -> Batch:
    def of(part: Mapping[Any, Any] | None) -> dict[Any, np.ndarray]:
        return {name: np.asarray(array[rows]) for name, array in (part or {}).items()}

    weights = None if whole.weights is None else np.asarray(whole.weights[rows])
    return Batch(of(whole.inputs), of(whole.targets), of(whole.gates), of(whole.edge_gates), weights)
