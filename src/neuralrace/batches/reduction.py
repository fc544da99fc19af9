"""One pass over all batches: here, one after the other, or on a dask cluster as a tree."""

from collections.abc import Iterable
from typing import Any

from neuralrace.architecture import Architecture
from neuralrace.batches.gathered import Gathered, gather, merge
from neuralrace.cluster import connected
from neuralrace.errors import TaskError, require_kind
from neuralrace.problem import Problem

FAN = 16  # results that are merged by one task of the tree


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
