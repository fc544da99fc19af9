"""Checks for arrays that come from outside: finite float64, of the right rank, read-only afterwards."""

from typing import Any

import numpy as np

from neuralrace.errors import NeuralRaceError
from neuralrace.limits import LARGEST


def real_array(name: str, value: Any, error: type[NeuralRaceError]) -> np.ndarray:
    """Copy a value into a float64 array, or say why that cannot be done without losing something."""
    try:
        kind = np.asarray(value).dtype.kind
    except ValueError:
        raise error(f"{name} must be an array of numbers; its rows are of different lengths") from None
    if kind == "c":
        raise error(f"{name} must be real; it is complex: take its real part, or give both parts as columns")
    try:
        if kind not in "fiubO":  # words, dates
            raise TypeError
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        of = f" of {np.asarray(value).dtype}" if hasattr(value, "dtype") else ""
        raise error(f"{name} must be an array of numbers; it was {type(value).__name__}{of}") from None


def check_size(name: str, array: np.ndarray, error: type[NeuralRaceError]) -> None:
    """Refuse numbers whose squares and products would be none."""
    if np.abs(array).max(initial=0.0) > LARGEST:
        where = np.unravel_index(int(np.abs(array).argmax()), array.shape)
        at = ", ".join(str(int(i)) for i in where)
        raise error(f"{name} must be at most {LARGEST:g} in size; entry ({at}) is {array[where]:g}: use other units")


def frozen_array(name: str, value: Any, rank: int | tuple[int, ...], error: type[NeuralRaceError]) -> np.ndarray:
    """Copy a value into a read-only float64 array of the given rank, or one of them, or say what is wrong with it."""
    ranks = (rank,) if isinstance(rank, int) else rank
    array = real_array(name, value, error)
    if array.ndim not in ranks:
        required = " or ".join(map(str, ranks))
        raise error(f"{name} must have {required} axis(es), one example per row; it has shape {array.shape}")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        at = f"example {where[0]}" + (f", entry {where[1]}" if array.ndim == 2 else "")
        raise error(f"{name} must be finite; it has {array[where]} at {at}: remove or replace that example")
    check_size(name, array, error)
    array.setflags(write=False)
    return array
