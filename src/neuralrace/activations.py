"""What a node does to what it receives: nothing, a (leaky) rectifier, or a subclass of `Activation`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from neuralrace.errors import require_known, require_number


class Activation(ABC):
    """A function of what a neuron receives, applied to each neuron alone; a frozen dataclass with a name.

    homogeneous: whether f(g z) = g f(z) for every g that is not negative; otherwise gates can only be 0 or 1.
    """

    name: ClassVar[str] = ""
    homogeneous: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, received: jax.Array) -> jax.Array:
        """The activity; zero where nothing is received."""

    def as_data(self) -> dict[str, Any]:
        """The activation in plain values, from which it can be made again."""
        return {"name": self.name, **vars(self)}


@dataclass(frozen=True)
class LeakyReLU(Activation):
    """slope: what a negative input is multiplied by; 0 is the ReLU, 1 a linear node."""

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
    """Name -> what makes the activation: all subclasses of `Activation` that have been imported."""
    return {kind.name: kind for kind in Activation.__subclasses__()} | {"relu": LeakyReLU, "leaky_relu": leaky_relu}


def as_activation(given: Any) -> Activation:
    """An activation from its name, from its `as_data`, or itself."""
    if isinstance(given, Activation):
        return given
    data = dict(given) if isinstance(given, Mapping) else {"name": given}
    name = str(data.pop("name", None))
    require_known(name, named(), f"there is no activation {name!r}")
    return named()[name](**data)
