"""Activation functions: linear, the (leaky) rectifier, or a subclass of `Activation`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from neuralrace.errors import require_known, require_number


class Activation(ABC):
    """An elementwise activation function: a frozen dataclass with a name.

    homogeneous: whether f(g z) = g f(z) for every g that is not negative; otherwise gates can only be 0 or 1.
    """

    name: ClassVar[str] = ""
    homogeneous: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, received: jax.Array) -> jax.Array:
        """Return the activity for these inputs; zero must map to zero."""

    def as_data(self) -> dict[str, Any]:
        """Describe the activation in plain values, which `as_activation` reads."""
        return {"name": self.name, **vars(self)}


@dataclass(frozen=True)
class LeakyReLU(Activation):
    """slope: the factor for negative inputs; 0 is the ReLU, 1 a linear node."""

    slope: float = 0.0
    name: ClassVar = "leaky_relu"
    homogeneous: ClassVar = True

    def __call__(self, received: jax.Array) -> jax.Array:
        """z where z > 0, slope * z elsewhere."""
        return jnp.where(received > 0, received, self.slope * received)


def leaky_relu(slope: float = 0.01) -> LeakyReLU:
    """A leaky rectifier with the given slope for negative inputs."""
    return LeakyReLU(require_number("slope", slope))


def named() -> dict[str, Callable[..., Activation]]:
    """Map names to constructors of activations: all imported subclasses of `Activation`."""
    return {kind.name: kind for kind in Activation.__subclasses__()} | {"relu": LeakyReLU, "leaky_relu": leaky_relu}


def as_activation(given: Any) -> Activation:
    """Make an activation from its name or its `as_data`; return an activation unchanged."""
    if isinstance(given, Activation):
        return given
    data = dict(given) if isinstance(given, Mapping) else {"name": given}
    name = str(data.pop("name", None))
    require_known(name, named(), f"there is no activation {name!r}")
    return named()[name](**data)
