"""Refuse work that surely needs more memory than is free."""

import os
from pathlib import Path

from neuralrace.errors import ResourceError

LITTLE = 1 << 20  # below this many bytes, skip the check, which takes longer than using them


def in_bytes(count: float) -> str:
    """Format a number of bytes."""
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.3g} {units[0]}"


def free_memory() -> int | None:
    """Return the bytes that are free, or None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def require_memory(what: str, needed: float, smaller: str) -> None:
    """Refuse work that needs more memory than is free, with the estimate and how to make it smaller."""
    free = free_memory() if needed > LITTLE else None
    if free is not None and needed > free:
        raise ResourceError(f"{what} would take {in_bytes(needed)} of memory and {in_bytes(free)} are free: {smaller}")
