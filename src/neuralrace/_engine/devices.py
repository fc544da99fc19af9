"""What runs on devices: programs that are compiled in half of XLA's own time, and arrays spread over all of them.

A mapped axis (seeds, conditions, draws) is spread over all local devices, the rest is on each. Nothing is exchanged
between the devices but whether all seeds rest, and the largest error of a step.
"""

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Given = ParamSpec("Given")
Found = TypeVar("Found")
Item = TypeVar("Item")

MAPPED = "mapped"
LEAST_ROOM = 64  # times or records that a program is made for
LIGHT: dict[str, Any] = {"xla_backend_optimization_level": 1}
# products, which most of the time is spent in, are not compiled here but called; later versions do not know these two
EARLIER: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}


def compiled(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Compile a function for each shape of its arguments, as `eqx.filter_jit` does, and lightly on a CPU.

    It is for functions that are called from outside: JAX takes such wishes for whole programs only.
    """

    @functools.cache  # when it is first called: to ask for the device is to start it
    def program() -> Callable[Given, Found]:
        jit: Any = eqx.filter_jit  # its types do not tell what it hands on to JAX
        made: Callable[Given, Found] = jit(function, compiler_options=_options())
        return made

    @functools.wraps(function)
    def call(*arguments: Given.args, **named: Given.kwargs) -> Found:
        return program()(*arguments, **named)

    return call


def _options() -> dict[str, Any] | None:
    """What is asked of XLA; what the environment asks of it is left as it is."""
    if jax.default_backend() != "cpu":
        return None
    wishes = LIGHT | EARLIER if version("jaxlib").startswith("0.10.") else LIGHT
    asked = os.environ.get("XLA_FLAGS", "")
    return {name: wish for name, wish in wishes.items() if f"--{name}=" not in asked}


def shared_room(count: int) -> int:
    """How many times or records a program is made for where so many are asked for: few and many then share it."""
    return max(1 << max(count - 1, 0).bit_length(), LEAST_ROOM)


def room_for(count: int) -> int:
    """How long a mapped axis is made: itself up to the number of devices, else the next multiple of that number."""
    devices = jax.local_device_count()
    return count if count <= devices else -(-count // devices) * devices


def threads() -> int:
    """How many threads a CPU's programs run on: as many as NPROC says, which XLA asks, or as there are cores."""
    asked = os.environ.get("NPROC", "")
    return int(asked) if asked.isdecimal() and int(asked) else os.cpu_count() or 1


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


def each_on_a_device(work: Callable[[Item], Found], items: Sequence[Item], short: bool = False) -> list[Found]:
    """What is made of each of several things with steps of their own: on the local devices in turn, all at once.

    short: work that takes moments, after which it can be interrupted; a single CPU does as much of it at once as it has
    threads.
    """
    devices, double = jax.local_devices(), jax.dtypes.canonicalize_dtype(np.float64) == np.float64
    alone = len(devices) == 1 and devices[0].platform == "cpu"
    at_once = min(len(items), threads() if short and alone else len(devices))
    if at_once < 2:
        return [work(item) for item in items]

    def placed(place: int, item: Item) -> Found:
        with jax.enable_x64(double), jax.default_device(devices[place % len(devices)]):  # a thread has its own
            return work(item)

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(placed, range(len(items)), items))


def _place(count: int, *axes: str) -> NamedSharding | None:
    """As many local devices as divide an axis; None for one, which is where arrays are anyway."""
    devices = jax.local_devices()
    used = max(n for n in range(1, len(devices) + 1) if count % n == 0)
    spec: Any = PartitionSpec  # it has no types
    return NamedSharding(Mesh(np.array(devices[:used]), (MAPPED,)), spec(*axes)) if used > 1 else None
