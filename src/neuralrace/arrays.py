"""Checks for arrays that come from outside: finite float64, of the right rank, read-only afterwards."""

from typing import Any

import numpy as np

from neuralrace.errors import NeuralRaceError


def frozen_array(name: str, value: Any, rank: int | tuple[int, ...], error: type[NeuralRaceError]) -> np.ndarray:
    """Copy a value into a read-only float64 array of the given rank, or one of them, or say what is wrong with it."""
    ranks = (rank,) if isinstance(rank, int) else rank
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise error(f"{name} must be an array of numbers; it was {type(value).__name__}") from None
    if array.ndim not in ranks:
        required = " or ".join(map(str, ranks))
        raise error(f"{name} must have {required} axis(es), one example per row; it has shape {array.shape}")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        at = f"example {where[0]}" + (f", entry {where[1]}" if array.ndim == 2 else "")
        raise error(f"{name} must be finite; it has {array[where]} at {at}: remove or replace that example")
    array.setflags(write=False)
    return array
