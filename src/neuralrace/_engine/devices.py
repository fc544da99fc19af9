"""Where arrays are put: a mapped axis (seeds, conditions, draws) is spread over all local devices, the rest is on each.

Nothing is exchanged between the devices but whether all seeds rest, and the largest error of a step.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MAPPED = "mapped"
Item = TypeVar("Item")
Found = TypeVar("Found")


def room_for(count: int) -> int:
    """How long a mapped axis is made: itself up to the number of devices, else the next multiple of that number."""
    devices = jax.local_device_count()
    return count if count <= devices else -(-count // devices) * devices


def padded(tree: Any, length: int) -> Any:
    """The last one along the leading axis, repeated until the axis has a length."""

    def longer(leaf: Any) -> Any:
        count = leaf.shape[0]
        return leaf if count == length else leaf[np.minimum(np.arange(length), count - 1)]

    return jax.tree.map(longer, tree)


def spread(tree: Any) -> Any:
    """Put arrays on the devices, the leading axis in equal parts on as many of them as divide it."""
    leaves = jax.tree.leaves(tree)
    return jax.device_put(tree, _place(leaves[0].shape[0], MAPPED) if leaves else None)


def everywhere(tree: Any, count: int) -> Any:
    """Put arrays whole on each of the devices that an axis of some length is spread over; what is no array stays."""
    place = _place(count)
    return jax.tree.map(lambda leaf: jax.device_put(leaf, place) if eqx.is_array(leaf) else leaf, tree)


def each_on_a_device(work: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
    """What is made of each of several things with steps of their own: on the local devices in turn, all at once."""
    devices, double = jax.local_devices(), jax.dtypes.canonicalize_dtype(np.float64) == np.float64
    if min(len(devices), len(items)) < 2:
        return [work(item) for item in items]

    def placed(place: int, item: Item) -> Found:
        with jax.enable_x64(double), jax.default_device(devices[place % len(devices)]):  # a thread has its own
            return work(item)

    with ThreadPoolExecutor(len(devices)) as pool:
        return list(pool.map(placed, range(len(items)), items))


def _place(count: int, *axes: str) -> NamedSharding | None:
    """As many local devices as divide an axis; None for one, which is where arrays are anyway."""
    devices = jax.local_devices()
    used = max(n for n in range(1, len(devices) + 1) if count % n == 0)
    spec: Any = PartitionSpec  # it has no types
    return NamedSharding(Mesh(np.array(devices[:used]), (MAPPED,)), spec(*axes)) if used > 1 else None
