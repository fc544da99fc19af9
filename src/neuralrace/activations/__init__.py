"""What a node does to what it receives: nothing, or one of the functions in this folder, one file each."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from neuralrace.activations.activation import Activation
from neuralrace.activations.leaky_relu import LeakyReLU, leaky_relu
from neuralrace.errors import UnknownNameError, nearest

__all__ = ["Activation", "LeakyReLU", "as_activation", "leaky_relu", "names"]


@cache
def _named() -> Mapping[str, Callable[..., Activation]]:
    """Name -> what makes the activation; every module of this folder declares its own in ACTIVATIONS."""
    found: dict[str, Callable[..., Activation]] = {}
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
    if name not in _named():
        raise UnknownNameError(f"there is no activation {name!r}; {nearest(name, names())}")
    return _named()[name](**data)
