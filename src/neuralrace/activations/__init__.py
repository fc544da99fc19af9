"""What a node does to what it receives: nothing, the rectifier and its leaky kin, or what another file here adds."""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from neuralrace.errors import require_known, require_number

__all__ = ["Activation", "LeakyReLU", "as_activation", "leaky_relu", "names"]


class Activation(ABC):
    """A function of what a neuron receives, applied to each neuron alone; a frozen value."""

    @abstractmethod
    def __call__(self, received: jax.Array) -> jax.Array:
        """The activity; zero where nothing is received."""

    @abstractmethod
    def as_data(self) -> dict[str, float | str]:
        """The activation in plain values, from which it can be made again."""

    @property
    @abstractmethod
    def homogeneous(self) -> bool:
        """Whether f(g z) = g f(z) for every g that is not negative; otherwise gates can only be 0 or 1."""


@dataclass(frozen=True)
class LeakyReLU(Activation):
    """slope: what a negative input is multiplied by; 0 is the ReLU, 1 a linear node."""

    slope: float = 0.0

    def __call__(self, received: jax.Array) -> jax.Array:
        """z where z > 0, slope * z elsewhere."""
        return jnp.where(received > 0, received, self.slope * received)

    def as_data(self) -> dict[str, float | str]:
        """Its name and slope."""
        return {"name": "leaky_relu", "slope": self.slope}

    @property
    def homogeneous(self) -> bool:
        """A gate that is not negative may stand before or behind it."""
        return True


def leaky_relu(slope: float = 0.01) -> LeakyReLU:
    """A leaky rectifier with the given slope for negative inputs."""
    return LeakyReLU(require_number("slope", slope))


@cache
def _named() -> Mapping[str, Callable[..., Activation]]:
    """Name -> what makes the activation; every module of this folder declares its own in ACTIVATIONS."""
    found: dict[str, Callable[..., Activation]] = {"relu": LeakyReLU, "leaky_relu": leaky_relu}
    for module in pkgutil.iter_modules(__path__):
        found |= getattr(importlib.import_module(f"{__name__}.{module.name}"), "ACTIVATIONS", {})
    return found


def names() -> tuple[str, ...]:
    """The activations that can be asked for by name."""
    return tuple(_named())


def as_activation(given: Any) -> Activation:
    """An activation from its name, from what `as_data` said of it, or itself."""
    if isinstance(given, Activation):
        return given
    data = dict(given) if isinstance(given, Mapping) else {"name": given}
    name = str(data.pop("name", None))
    require_known(name, names(), f"there is no activation {name!r}")
    return _named()[name](**data)
