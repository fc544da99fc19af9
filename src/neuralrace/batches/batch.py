"""Some examples at a time: what a batch is, and how large arrays are cut into batches without being read at once."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from neuralrace.axes import Edge
from neuralrace.errors import TaskError, require_count, require_kind, shortened

ROWS = 1 << 16  # examples of a batch, unless told


class Batch(NamedTuple):
    """Some examples with their gates; a plain tuple in this order serves too.

    inputs, targets: node -> (n, size). gates: node -> (n,). edge_gates: edge -> (n,). weights: (n,), relative to those
    of all other batches; each example counts once unless given. Everything may be lazy: it is read with np.asarray.
    """

    inputs: Mapping[str, Any]
    targets: Mapping[str, Any]
    gates: Mapping[str, Any] | None = None
    edge_gates: Mapping[Edge, Any] | None = None
    weights: Any = None


def as_batch(source: Any) -> Batch:
    """A batch, a tuple or a function of none, as a batch."""
    found = source() if callable(source) else source
    if isinstance(found, Batch):
        return found
    if isinstance(found, tuple) and 2 <= len(found) <= len(Batch._fields):
        return Batch(*found)
    raise TaskError(
        f"a batch must be a Batch, or a tuple ({', '.join(Batch._fields)}) of which the last three may be left out; "
        f"it was {type(found).__name__}"
    )


def cut(
    inputs: Mapping[str, Any],
    targets: Mapping[str, Any],
    gates: Mapping[str, Any] | None = None,
    edge_gates: Mapping[Edge, Any] | None = None,
    weights: Any = None,
    *,
    rows: int = ROWS,
) -> Iterator[Batch]:
    """Cut arrays into batches of some rows, each read when it is its turn.

    Memory-mapped, zarr and dask arrays serve, and whatever else has a shape and can be sliced.
    """
    rows = require_count("rows", rows)
    whole = Batch(inputs, targets, gates, edge_gates, weights)
    lengths: dict[str, int] = {}
    for kind, part in zip(Batch._fields[:4], whole[:4], strict=True):
        if part is not None:
            require_kind(kind, part, Mapping, TaskError)
            lengths |= {f"{kind}[{name!r}]": _length(array) for name, array in part.items()}
    if weights is not None:
        lengths["weights"] = _length(weights)
    if not lengths:
        raise TaskError("inputs and targets must map nodes to arrays; there is none")
    count = next(iter(lengths.values()))
    for name, length in lengths.items():
        if length != count:
            raise TaskError(f"every array must hold the same examples; {name} has {length} and the first has {count}")
    return (_part(whole, start, min(start + rows, count)) for start in range(0, count, rows))


def _length(array: Any) -> int:
    shape = np.shape(array) if not hasattr(array, "shape") else array.shape  # zarr arrays have no len
    if not shape:
        raise TaskError(f"an array with one row per example is required; it was {shortened(array)}")
    return int(shape[0])


def _part(whole: Batch, start: int, stop: int) -> Batch:
    def of(part: Mapping[Any, Any] | None) -> dict[Any, Any]:
        return {name: _slice(array, start, stop) for name, array in (part or {}).items()}

    weights = None if whole.weights is None else _slice(whole.weights, start, stop)
    return Batch(of(whole.inputs), of(whole.targets), of(whole.gates), of(whole.edge_gates), weights)


def _slice(array: Any, start: int, stop: int) -> Any:
    lazy = isinstance(array, np.ndarray) or hasattr(array, "dask")
    return array[start:stop] if lazy else RowsOnDisk(array, start, stop)


class RowsOnDisk:
    """Some rows of an array on disk, read when they are needed and where they are needed."""

    def __init__(self, array: Any, start: int, stop: int) -> None:
        self.array, self.start, self.stop = array, start, stop

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.array[self.start : self.stop], dtype=dtype)
