"""Arrays of the package: float64 without a flag, finite, of the right rank, and read-only where they are stored."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import numpy as np

from neuralrace.errors import NeuralRaceError, require_name
from neuralrace.memory import require_memory

Function = TypeVar("Function", bound=Callable[..., Any])
LARGEST = 1e100  # of inputs, targets, gates and weights: their products and squares are still numbers


def require_unmasked(name: str, value: Any, error: type[NeuralRaceError]) -> None:
    """Refuse masked entries, whose numbers would be used."""
    parts = (value, *(value if isinstance(value, list | tuple) else ()))
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise error(
            f"{name} has masked entries, which are no numbers: leave them out, or fill them with .filled(value)"
        )


def real_array(name: str, value: Any, error: type[NeuralRaceError]) -> np.ndarray:
    """Copy a value into a float64 array; refuse values that would lose something."""
    require_unmasked(name, value, error)
    try:
        given = np.asarray(value)
    except ValueError:
        raise error(f"{name} must be an array of numbers; its rows are of different lengths") from None
    if given.dtype.kind == "c":
        raise error(f"{name} must be real; it is complex: take its real part, or give both parts as columns")
    require_memory(f"{name}, {' x '.join(f'{size:,}' for size in given.shape)} numbers,", 8 * given.size, "give fewer")
    try:
        if given.dtype.kind not in "fiubO":  # words, dates
            raise TypeError
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        of = f" of {given.dtype}" if hasattr(value, "dtype") else ""
        raise error(f"{name} must be an array of numbers; it was {type(value).__name__}{of}") from None


def finite_array(
    name: str, value: Any, error: type[NeuralRaceError], axes: tuple[str, ...] = ("example", "entry")
) -> np.ndarray:
    """Copy a value into a float64 array of finite numbers whose squares and products do not overflow."""
    array = real_array(name, value, error)
    good = np.abs(array) <= LARGEST  # False for NaN too
    if not good.all():
        where = tuple(int(i) for i in np.argwhere(~good)[0])
        required = f"at most {LARGEST:g} in size" if np.isfinite(array[where]) else "finite"
        at = ", ".join(f"{axis} {place}" for axis, place in zip(axes, where, strict=False))
        raise error(f"{name} must be {required}; it has {array[where]:g} at {at}: correct it, or use other units")
    return array


def frozen_array(name: str, value: Any, rank: int | tuple[int, ...], error: type[NeuralRaceError]) -> np.ndarray:
    """Copy a value into a read-only, finite float64 array of the given rank, or of one of several ranks."""
    ranks = (rank,) if isinstance(rank, int) else rank
    array = finite_array(name, value, error)
    if array.ndim not in ranks:
        required = " or ".join(map(str, ranks))
        advice = f": as one column it has shape ({len(array)}, 1)" if array.ndim == 1 else ""
        raise error(f"{name} must have {required} axis(es), one example per row; it has shape {array.shape}{advice}")
    array.setflags(write=False)
    return array


def float64(function: Function) -> Function:
    """Run a function with 64-bit JAX types, whatever the caller's global setting is.

    Inside a JAX transformation (an argument is a tracer) the ambient precision holds, because the dtype of a trace
    cannot change half way. Wrap the transformed function instead: `float64(jax.grad(f))`.
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        with contextlib.suppress(TypeError, ValueError):  # keys that JAX cannot sort: edges that are words and pairs
            leaves = jax.tree.leaves((args, kwargs))
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)
        with contextlib.nullcontext() if traced else jax.enable_x64(True):
            return function(*args, **kwargs)

    return cast(Function, wrapped)


def in_precision(name: str) -> contextlib.AbstractContextManager[None]:
    """Switch JAX types to "double" or "single" precision within a context."""
    return jax.enable_x64(require_name("precision", name, ("double", "single")) == "double")
