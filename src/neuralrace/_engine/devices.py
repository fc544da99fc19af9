"""Compile programs, and place arrays on all local devices.

A mapped axis (seeds, conditions, draws) is sharded over the devices, other arrays are replicated.
"""

import functools
import os
from collections.abc import Callable, Generator, Sequence
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


def compiled(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Compile a function for each shape of its arguments, as `eqx.filter_jit` does, in half the time on a CPU.

    Only for functions that are called from outside of JAX, which takes compiler options for whole programs only.
    """

    @functools.cache  # made on the first call, because asking for the device starts it
    def program() -> Callable[Given, Found]:
        jit: Any = eqx.filter_jit  # its types do not include JAX's options
        made: Callable[Given, Found] = jit(function, compiler_options=_options())
        return made

    @functools.wraps(function)
    def call(*arguments: Given.args, **named: Given.kwargs) -> Found:
        return program()(*arguments, **named)

    return call


def _options() -> dict[str, Any] | None:
    """Light optimization on a CPU: most time is spent in matrix products, which are library calls."""
    if jax.default_backend() != "cpu":
        return None
    options: dict[str, Any] = {"xla_backend_optimization_level": 1}
    if version("jaxlib").startswith("0.10."):  # later versions do not know these
        options |= {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
    flags = os.environ.get("XLA_FLAGS", "")  # flags set by the user take precedence
    return {name: value for name, value in options.items() if f"--{name}=" not in flags}


def bucket_size(count: int) -> int:
    """The number of times or records that a program is compiled for, so that similar counts share one program."""
    return max(1 << max(count - 1, 0).bit_length(), 64)


def threads() -> int:
    """The number of threads of programs on a CPU: NPROC, which XLA reads, or the number of cores."""
    wanted = os.environ.get("NPROC", "")
    return int(wanted) if wanted.isdecimal() and int(wanted) else os.cpu_count() or 1


def shard(tree: Any) -> Any:
    """Put arrays on the devices, the leading axis in equal parts on as many of them as divide it."""
    devices, leaves = jax.local_devices(), jax.tree.leaves(tree)
    used = max(n for n in range(1, len(devices) + 1) if not leaves or len(leaves[0]) % n == 0)
    if used == 1:
        return jax.device_put(tree)
    spec: Any = PartitionSpec  # it has no types
    return jax.device_put(tree, NamedSharding(Mesh(np.array(devices[:used]), ("mapped",)), spec("mapped")))


def map_on_devices(work: Callable[[Item], Found], items: Sequence[Item], short: bool = False) -> list[Found]:
    """Map `work` over `items` that take steps of their own, round-robin across local devices.

    short: the work is short, so that it can be interrupted between items; then a single CPU uses all of its threads.
    """
    devices, double = jax.local_devices(), jax.dtypes.canonicalize_dtype(np.float64) == np.float64
    alone = len(devices) == 1 and devices[0].platform == "cpu"
    at_once = min(len(items), threads() if short and alone else len(devices))
    if at_once < 2:
        return [work(item) for item in items]

    def placed(place: int, item: Item) -> Found:
        with jax.enable_x64(double), jax.default_device(devices[place % len(devices)]):  # settings of a thread
            return work(item)

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(placed, range(len(items)), items))


def side_by_side(works: Sequence[Generator[None, None, Found]]) -> list[Found]:
    """Finish works that pause now and then, on all threads of a CPU; between pauses they can be interrupted."""
    found: dict[int, Found] = {}

    def go_on(place: int) -> None:
        if place not in found:
            try:
                next(works[place])
            except StopIteration as end:
                found[place] = end.value

    with jax.default_device(jax.local_devices()[0]):  # as in a thread; alone, so that programs are compiled once
        go_on(0)
    while len(found) < len(works):
        map_on_devices(go_on, range(len(works)), short=True)
    return [found[place] for place in range(len(works))]
