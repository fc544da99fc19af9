"""Where arrays are put: a mapped axis (seeds, conditions, draws) is spread over all local devices, the rest is on each.

Nothing is exchanged between the devices but whether all seeds rest, and the largest error of a step.
"""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

MAPPED = "mapped"


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
    devices = _dividing(leaves[0].shape[0]) if leaves else []
    if len(devices) < 2:
        return jax.device_put(tree)
    return jax.device_put(tree, NamedSharding(Mesh(np.array(devices), (MAPPED,)), PartitionSpec(MAPPED)))


def everywhere(tree: Any, count: int) -> Any:
    """Put arrays whole on each of the devices that an axis of some length is spread over; what is no array stays."""
    devices = _dividing(count)
    place = NamedSharding(Mesh(np.array(devices), (MAPPED,)), PartitionSpec()) if len(devices) > 1 else None
    return jax.tree.map(lambda leaf: jax.device_put(leaf, place) if eqx.is_array(leaf) else leaf, tree)


def _dividing(count: int) -> list[Any]:
    """As many local devices as divide an axis."""
    devices = jax.local_devices()
    return devices[: max(n for n in range(1, len(devices) + 1) if count % n == 0)]
