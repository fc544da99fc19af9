"""The front door of every exact solution: numbers checked, double precision inside, plain NumPy arrays out.

A traced value passes unchecked, it has no value yet.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ParamSpec, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.arrays import float64, real_array
from neuralrace.errors import RangeError, bounds_told

STRENGTH_HINT = "a mode of zero strength sits on a saddle and never learns: start it above zero"
TIME_HINT = "time runs forward from the initial weights, t = learning_rate * step"


@dataclass(frozen=True)
class Numbers:
    """What the entries of an argument must be, all of them finite; matrix: it has two axes."""

    above: float | None = None
    least: float | None = None
    most: float | None = None
    hint: str = ""
    matrix: bool = False

    def read(self, name: str, value: Any) -> jax.Array:
        """Return the value as an array of floats, or say which entry is not what it must be."""
        if isinstance(value, jax.core.Tracer):
            entries = jnp.asarray(value, dtype=jnp.result_type(float))
        else:
            entries = jax.device_put(self._required(name, value))
        if self.matrix and entries.ndim != 2:
            raise RangeError(f"{name} must be a matrix with two axes; its shape was {entries.shape}")
        return entries

    def _required(self, name: str, value: Any) -> np.ndarray:
        entries = real_array(name, value, RangeError)
        good = np.isfinite(entries)
        good &= True if self.above is None else entries > self.above
        good &= True if self.least is None else entries >= self.least
        good &= True if self.most is None else entries <= self.most
        if good.all():
            return entries
        required = " and ".join(["finite", *bounds_told(self.above, self.least, self.most)])
        first = tuple(int(i) for i in np.argwhere(~good)[0])
        where = f" at position {first}" if first else ""
        advice = f"; {self.hint}" if self.hint else ""
        raise RangeError(f"{name} must be {required}; it was {entries[first]:g}{where}{advice}")


# what the arguments of an entry point are; inside it they are arrays, checked
Real = Annotated[Any, Numbers()]
Positive = Annotated[Any, Numbers(above=0.0)]
NotNegative = Annotated[Any, Numbers(least=0.0)]
AtLeastOne = Annotated[Any, Numbers(least=1.0)]
Strength = Annotated[Any, Numbers(above=0.0, hint=STRENGTH_HINT)]
Times = Annotated[Any, Numbers(least=0.0, hint=TIME_HINT)]
RealMatrix = Annotated[Any, Numbers(matrix=True)]


P = ParamSpec("P")
R = TypeVar("R")


def _plain(leaf: Any) -> Any:
    concrete = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    return np.asarray(leaf) if concrete else leaf


def formula(require: Callable[..., None] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """An entry point that is one program for each shape of its arguments.

    require: looks beforehand at the values of the arguments that it names, and refuses what does not fit together.
    """
    named = () if require is None else tuple(inspect.signature(require).parameters)

    def made(function: Callable[P, R]) -> Callable[P, R]:
        program = jax.jit(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:  # an entry point names all arguments
            seen = [kwargs[name] for name in named]
            if require is not None and not any(isinstance(value, jax.core.Tracer) for value in seen):
                require(*map(_plain, seen))
            return cast(R, program(*args, **kwargs))

        return entry_point(call)

    return made


def entry_point(function: Callable[P, R]) -> Callable[P, R]:
    """Run in double precision on checked arrays; return NumPy arrays, or JAX's inside a transformation of the caller's.

    Arguments are read as what they are annotated as; None is left where it is the default. A float64 JAX array would be
    cut to 32 bits by the first operation outside; a NumPy array is not. For gradients wrap the transformed function:
    `float64(jax.grad(f))`.
    """
    signature, call = inspect.signature(function), cast(Callable[..., R], function)
    known = {
        name: (parameter.annotation.__metadata__[0], parameter.default)
        for name, parameter in signature.parameters.items()
        if hasattr(parameter.annotation, "__metadata__")
    }

    @float64
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs).arguments
        for name, (numbers, default) in known.items():
            value = given.get(name, default)
            given[name] = None if value is None and default is None else numbers.read(name, value)
        return call(**given)

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        return jax.tree.map(_plain, checked(*args, **kwargs))

    return wrapped
