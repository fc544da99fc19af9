"""Double precision at the entry points, without touching JAX's global setting."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeVar

import jax

from neuralrace.errors import UnknownNameError, memory_told, nearest

P = ParamSpec("P")
R = TypeVar("R")


def float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with 64-bit JAX types, whatever the caller's global setting is; memory that runs out is told.

    Inside a JAX transformation of the caller's (an argument is a tracer) the ambient precision
    holds, because the dtype of a trace cannot change half way. Wrap the transformed function instead:
    `float64(jax.grad(f))`.
    """

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if _traced((args, kwargs)):
            return function(*args, **kwargs)
        with jax.enable_x64(True), memory_told():
            return function(*args, **kwargs)

    return wrapped


def _traced(arguments: object) -> bool:
    try:
        leaves = jax.tree.leaves(arguments)
    except (TypeError, ValueError):  # keys that cannot be sorted, as of edges that are words and pairs: none of JAX's
        return False
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


PRECISIONS = {"double": True, "single": False}


def in_precision(name: str) -> AbstractContextManager[None]:
    """JAX types of "double" or "single" precision for a while; numbers of the host are brought to it as they come."""
    if name not in PRECISIONS:
        raise UnknownNameError(f"precision must be 'double' or 'single'; it was {name!r}; {nearest(name, PRECISIONS)}")
    found: AbstractContextManager[None] = jax.enable_x64(PRECISIONS[name])
    return found
