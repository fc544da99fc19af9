"""How much memory is free, and work that would take more, refused or told of when it ran out."""

import atexit
import contextlib
import gc
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from neuralrace.errors import ResourceError, in_one_line

LESS_MEMORY = "give fewer seeds, draws, neurons, steps, records or examples"
LITTLE = 1 << 20  # bytes that nobody is asked about: asking takes longer than using them
SELDOM = (50_000, 10, 10)  # objects between two searches for cycles, and searches between two that go deeper
GROUP = Path("/sys/fs/cgroup")  # where a container says what it may use

_ALLOWED: ContextVar[int | None] = ContextVar("allowed", default=None)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's, numpy's, or that of a device, which XLA tells in its own words."""
    said = str(error)
    return isinstance(error, MemoryError | ResourceError) or "RESOURCE_EXHAUSTED" in said or "Out of memory" in said


def search_seldom() -> None:
    """In a process of our own, look for cycles of objects less often, and not once more as it ends.

    What traces programs makes and drops very many small objects: to search as often as Python does takes a sixth of a
    short command, and the last search, through all that was imported, up to a second. A higher setting is left alone.
    """
    gc.set_threshold(*map(max, gc.get_threshold(), SELDOM))
    atexit.register(gc.freeze)


@contextlib.contextmanager
def memory_told() -> Iterator[None]:
    """Say of memory that ran out, wherever it did, how to need less."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        line = in_one_line(error, 160)
        raise ResourceError(f"there is not enough memory for this: {LESS_MEMORY} ({line})") from None


def in_bytes(count: float) -> str:
    """A number of bytes as people say it."""
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.3g} {units[0]}"


def free_memory() -> int | None:
    """Bytes that a process can still take, or None where nobody says."""
    known = [number for number in (_of_the_machine(), _of_the_group(), _ALLOWED.get()) if number is not None]
    return min(known) if known else None


@contextlib.contextmanager
def memory_at_most(allowed: int | None) -> Iterator[None]:
    """Work that may take so many bytes for a while, as on a worker with a limit; None: what there is."""
    token = _ALLOWED.set(allowed)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def require_memory(what: str, needed: float, smaller: str) -> None:
    """Refuse work that surely needs more memory than is free, with the estimate and how to make it smaller."""
    free = free_memory() if needed > LITTLE else None
    if free is not None and needed > free:
        raise ResourceError(f"{what} would take {in_bytes(needed)} of memory and {in_bytes(free)} are free: {smaller}")


def _of_the_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _of_the_group() -> int | None:
    try:
        most, used = ((GROUP / f"memory.{name}").read_text(encoding="ascii").strip() for name in ("max", "current"))
        return None if most == "max" else max(int(most) - int(used), 0)
    except (OSError, ValueError):
        return None
