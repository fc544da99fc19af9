"""The front door of every exact solution: double precision inside, plain NumPy arrays out."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from neuralrace.precision import float64

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
