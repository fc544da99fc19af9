"""Problems from data larger than memory.

A gated linear network sees its examples through the second moments of those with equal gates. The triangular factor R
of their weighted rows has these moments, R^T R, in few rows, and the factor of two factors, one above the other, has
the sum of both. Unlike sums of products, factors keep their digits where columns are nearly dependent.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from neuralrace._engine.example_rows import label_rows
from neuralrace.architecture import Architecture
from neuralrace.arrays import require_unmasked
from neuralrace.axes import Edge
from neuralrace.errors import ProblemError, ResourceError, TaskError, require_kind
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task

__all__ = ["problem"]

FACTOR_BYTES = 1 << 30  # limit on the factors of all sets of gates together
BLOCK = 1 << 16  # rows that are read at once of arrays that are not dask's
# gates and active nodes of a set of examples -> their total weight and the triangular factor of their weighted rows
Factors = dict[tuple[float, ...], tuple[float, np.ndarray]]


def problem(
    architecture: Architecture,
    inputs: Mapping[str, Any],
    targets: Mapping[str, Any],
    gates: Mapping[str | Edge, Any] | None = None,
    weights: Any = None,
) -> Problem:
    """Build a problem of few examples from many, in one pass and bounded memory.

    It has the loss, the gradient and the statistics of all examples, for the squared error and linear nodes. inputs,
    targets: node -> (N, size). gates: node or edge -> (N,). weights: (N,). Each is a dask array, or a NumPy,
    memory-mapped, HDF5 or zarr array, which is read block by block. dask's scheduler does the work: threads, or the
    workers of a cluster while a `distributed.Client` is open.
    """
    try:
        import dask.array
        from dask.delayed import delayed
    except ImportError:
        raise ResourceError("data larger than memory need dask: pip install 'neuralrace[sweeps]'") from None
    da: Any = dask.array  # its functions have no types
    gates = gates or {}
    for name, part in {"inputs": inputs, "targets": targets, "gates": gates}.items():
        require_kind(name, part, Mapping, TaskError)
    given = [*inputs.values(), *targets.values(), *gates.values(), *([] if weights is None else [weights])]
    for array in given:
        require_unmasked("an array", array, TaskError)
    lengths = {np.shape(array)[:1] for array in given}
    if len(lengths) != 1 or not all(lengths):
        raise TaskError(f"every array must have one row per example, the same number in each; there are {lengths}")

    def as_gates(values: Mapping[Any, Any]) -> Gates:
        of_nodes = {name: gate for name, gate in values.items() if name in architecture.nodes}
        return Gates(of_nodes, {name: gate for name, gate in values.items() if name not in of_nodes})

    def first(part: Mapping[Any, Any]) -> dict[Any, np.ndarray]:
        return {name: np.asarray(array[:1]) for name, array in part.items()}

    # checks that they fit together
    sample = Problem(architecture, Task(first(inputs), first(targets)), as_gates(first(gates)))
    if sample.gates.neurons:
        raise ProblemError(
            f"one gate per node is required; {', '.join(map(repr, sample.gates.neurons))} have one for every neuron: "
            "make each neuron, or each group with equal gates, its own node"
        )

    def lazy(array: Any) -> Any:
        rows = array if hasattr(array, "shape") else np.asarray(array)
        rows = rows if isinstance(rows, da.Array) else da.from_array(rows, chunks=(BLOCK, *rows.shape[1:]))
        return rows if rows.ndim == 2 else rows[:, None]

    nodes = (*architecture.inputs, *architecture.outputs)
    sizes = [architecture.nodes[node] for node in nodes]
    columns = [lazy((inputs if node in inputs else targets)[node]) for node in nodes] + list(map(lazy, gates.values()))
    columns.append(da.ones_like(columns[0][:, :1]) if weights is None else lazy(weights))
    blocks = da.concatenate(columns, axis=1).rechunk({1: -1}).to_delayed().ravel()
    parts = [delayed(partial(_gather, sizes))(block) for block in blocks]
    while len(parts) > 1:
        parts = [delayed(_merge)(parts[start : start + 16]) for start in range(0, len(parts), 16)]
    with threadpool_limits(1):  # dask's threads have the cores already
        factors: Factors = parts[0].compute()
    if not factors:
        raise TaskError("at least one example with weight is required; there is none")
    rows, shares, keys = [], [], []
    for kind in sorted(factors):  # independent of the order of the blocks
        weight, triangle = factors[kind]
        count = max(len(triangle), 1)
        share = weight / count  # rows of equal weight, scaled to keep the moments
        rows.append(triangle / np.sqrt(share) if len(triangle) else np.zeros((1, sum(sizes))))
        shares.append(np.full(count, share))
        keys.append(np.tile(kind[: len(gates)], (count, 1)))
    found = dict(zip(nodes, np.split(np.concatenate(rows), np.cumsum(sizes)[:-1], axis=1), strict=True))
    left, right = ({node: found[node] for node in side} for side in (architecture.inputs, architecture.outputs))
    kept = as_gates(dict(zip(gates, np.concatenate(keys).T, strict=True)))
    return Problem(architecture, Task(left, right, np.concatenate(shares)), kept)


def _gather(sizes: Sequence[int], block: np.ndarray) -> Factors:
    """Reduce rows of inputs, targets, gates and a weight to a factor for each set of gates."""
    if not np.isfinite(block).all() or (block[:, -1] < 0).any():
        raise TaskError("every number must be finite, and no weight negative: remove or replace such examples")
    *data, rest = np.split(block, np.cumsum(sizes), axis=1)
    # Nodes that are zero for all examples of a set must stay exactly zero, so that they carry nothing.
    keys = [*rest[:, :-1].T, *(part.any(axis=1).astype(float) for part in data)]
    weights, labels = block[:, -1], label_rows(len(block), keys)
    rows = np.hstack(data) * np.sqrt(weights)[:, None]
    factors: Factors = {}
    for members in np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1]):
        weight = float(weights[members].sum())
        if weight > 0:
            kinds = tuple(float(key[members[0]]) + 0.0 for key in keys)
            factors[kinds] = weight, _factor(rows[members])
    return factors


def _merge(parts: Sequence[Factors]) -> Factors:
    """Merge the factors of several blocks; the order matters to rounding only."""
    merged = dict(parts[0])
    for part in parts[1:]:
        for kinds, (weight, triangle) in part.items():
            if kinds in merged:
                before, above = merged[kinds]
                weight, triangle = before + weight, _factor(np.concatenate([above, triangle]))
            merged[kinds] = weight, triangle
    taken = sum(triangle.nbytes for _, triangle in merged.values())
    if taken > FACTOR_BYTES:
        raise ProblemError(
            f"there are {len(merged):,} different sets of gates, whose moments take {taken:,} bytes of at most "
            f"{FACTOR_BYTES:,}: use gates that are equal for many examples"
        )
    return merged


def _factor(rows: np.ndarray) -> np.ndarray:
    """The triangular factor of some rows; columns that are zero stay exactly zero."""
    active = np.flatnonzero(rows.any(axis=0))
    inner = rows[:, active]
    if len(inner) > len(active):
        parts = np.array_split(inner, max(1, len(inner) // 4096))  # few rows stay in the cache: up to ten times faster
        stacked = np.concatenate([np.linalg.qr(part, mode="r") for part in parts])
        inner = np.asarray(np.linalg.qr(stacked, mode="r"))
    found = np.zeros((len(inner), rows.shape[1]))
    found[:, active] = inner
    return found
