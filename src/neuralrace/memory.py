"""Refuse work that cannot fit in free memory."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from neuralrace.errors import ResourceError

COPIES = {"seeds": 3, "draws": 1}  # training holds weights, gradient and step


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


def require_size(
    networks: Iterable[Any], count: int, of: str = "seeds", *, evaluations: int = 0, records: int = 0
) -> None:
    """Refuse networks of which `count` seeds or draws each do not fit into free memory, with all that is kept of them.

    Only what is certainly needed is counted, so no feasible work is refused; the rows of a forward pass are counted
    when it is planned. networks: anything with an architecture. evaluations: of the loss of each seed. records: the
    numbers, of 8 bytes, that are recorded of each seed.
    """
    weights, fewer = (
        sum(network.architecture.weight_count for network in networks),
        f"give fewer {of}, neurons or steps",
    )
    for what, numbers, smaller in (
        (f"of {weights:,} weights", count * COPIES[of] * weights, fewer),
        # at each time five numbers that all share
        (f"and their loss at {evaluations:,} times", evaluations * (count + 5), f"{fewer}, or larger every=..."),
        (f"of {records:,} recorded numbers", count * records, fewer),
    ):
        require_memory(f"{count:,} {of} {what}", 8 * numbers, smaller)
