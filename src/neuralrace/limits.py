"""How much there is: memory that is free, and what work would take of it, in words."""

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from neuralrace.errors import ResourceError

LARGEST = 1e100  # of inputs, targets, gates and weights: their products and squares are still numbers
LITTLE = 1 << 20  # bytes that nobody is asked about: asking takes longer than using them
GROUP = Path("/sys/fs/cgroup")  # where a container says what it may use

_ALLOWED: ContextVar[int | None] = ContextVar("allowed", default=None)


def in_words(count: float) -> str:
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
def at_most(allowed: int | None) -> Iterator[None]:
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
        raise ResourceError(f"{what} would take {in_words(needed)} of memory and {in_words(free)} are free: {smaller}")


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
