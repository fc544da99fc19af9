"""Refuse work that cannot fit in free memory."""

from pathlib import Path

from rich.filesize import decimal

from neuralrace.errors import ResourceError


def free_memory() -> int | None:
    """Return the bytes that are free, or None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None


def require_memory(what: str, needed: int, smaller: str) -> None:
    """Refuse work that needs more memory than is free, with the estimate and how to make it smaller."""
    free = free_memory() if needed > 1 << 20 else None  # below, the check takes longer than using them
    if free is not None and needed > free:
        raise ResourceError(f"{what} would take {decimal(needed)} of memory and {decimal(free)} are free: {smaller}")
