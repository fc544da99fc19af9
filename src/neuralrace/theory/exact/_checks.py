"""The front door of every exact solution: numbers checked, double precision inside, plain NumPy arrays out.

A traced value passes unchecked, it has no value yet.
"""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from neuralrace.arrays import real_array
from neuralrace.errors import RangeError
from neuralrace.precision import float64

STRENGTH_HINT = "a mode of zero strength sits on a saddle and never learns: start it above zero"
TIME_HINT = "time runs forward from the initial weights, t = learning_rate * step"


def number(
    name: str,
    value: ArrayLike,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    hint: str = "",
) -> jax.Array:
    """Return the value as an array of floats, every entry finite and within its bounds."""
    if not isinstance(value, jax.core.Tracer):
        _require(name, value, above, least, most, hint)
    return jnp.asarray(value, dtype=jnp.result_type(float))


def _require(
    name: str, value: ArrayLike, above: float | None, least: float | None, most: float | None, hint: str
) -> None:
    entries = real_array(name, value, RangeError)
    good = np.isfinite(entries)
    good &= True if above is None else entries > above
    good &= True if least is None else entries >= least
    good &= True if most is None else entries <= most
    if good.all():
        return
    bounds = [
        *([f"above {above:g}"] if above is not None else []),
        *([f"at least {least:g}"] if least is not None else []),
        *([f"at most {most:g}"] if most is not None else []),
    ]
    required = " and ".join(["finite", *bounds])
    first = tuple(int(i) for i in np.argwhere(~good)[0])
    where = f" at position {first}" if first else ""
    advice = f"; {hint}" if hint else ""
    raise RangeError(f"{name} must be {required}; it was {entries[first]:g}{where}{advice}")


def positive(name: str, value: ArrayLike, hint: str = "") -> jax.Array:
    """Return an array whose entries are finite and above zero."""
    return number(name, value, above=0.0, hint=hint)


def strength(name: str, value: ArrayLike) -> jax.Array:
    """Return initial strengths, all above zero."""
    return number(name, value, above=0.0, hint=STRENGTH_HINT)


def time(value: ArrayLike) -> jax.Array:
    """Return times, none before the start."""
    return number("times", value, least=0.0, hint=TIME_HINT)


def matrix(name: str, value: ArrayLike) -> jax.Array:
    """Return a finite array with two axes."""
    entries = number(name, value)
    if entries.ndim != 2:
        raise RangeError(f"{name} must be a matrix with two axes; its shape was {entries.shape}")
    return entries


P = ParamSpec("P")
R = TypeVar("R")


def _plain(leaf: Any) -> Any:
    concrete = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    return np.asarray(leaf) if concrete else leaf


def entry_point(function: Callable[P, R]) -> Callable[P, R]:
    """Run in double precision; return NumPy arrays, or JAX's own inside a transformation of the caller's.

    A float64 JAX array would be cut to 32 bits by the first operation outside; a NumPy array is not.
    For gradients wrap the transformed function: `float64(jax.grad(f))`.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = jax.tree.map(_plain, float64(function)(*args, **kwargs))
        return result

    return wrapped
