"""The losses that training can descend: the squared error, which is that of the theory, and one file for each other."""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import jax
import numpy as np

from neuralrace._engine.network import half_squares
from neuralrace.errors import require_name
from neuralrace.task import Task

__all__ = ["Objective", "Squared", "as_objective", "is_named", "names"]


class Objective(ABC):
    """A loss per row of outputs; rows are weighted and summed outside. A frozen value."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is asked for by."""

    @property
    @abstractmethod
    def compresses(self) -> bool:
        """Whether it sees the examples through their second moments only, so that fewer examples do."""

    @abstractmethod
    def rows(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        """The loss of each row."""

    @abstractmethod
    def silence(self, targets: np.ndarray) -> np.ndarray:
        """The loss of each row of targets where the output is zero."""

    @abstractmethod
    def check(self, task: Task) -> None:
        """Refuse targets that mean nothing to it."""


@dataclass(frozen=True)
class Squared(Objective):
    """|output - target|^2 / 2."""

    name: str = "squared"
    compresses: bool = True

    def rows(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        """Half the squared error of each row."""
        return half_squares(outputs, targets)

    def silence(self, targets: np.ndarray) -> np.ndarray:
        """Half the squared length of each target."""
        return 0.5 * np.asarray((targets**2).sum(axis=-1))

    def check(self, task: Task) -> None:
        """Any targets will do."""


SQUARED = Squared()


@cache
def _named() -> Mapping[str, Objective]:
    """Name -> objective; every module of this folder declares its own as OBJECTIVE."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found = [module.OBJECTIVE for module in modules if hasattr(module, "OBJECTIVE")]
    return {objective.name: objective for objective in (SQUARED, *found)}


def is_named(objective: Objective) -> bool:
    """Whether it is the one that is asked for by its name."""
    return objective == SQUARED or objective == _named().get(objective.name)


def names() -> tuple[str, ...]:
    """The objectives that can be asked for by name."""
    return tuple(_named())


def as_objective(given: str | Objective, task: Task | None = None) -> Objective:
    """An objective from its name, or itself, after a look at whether the targets of a task suit it."""
    if given == SQUARED.name:
        return SQUARED
    if not isinstance(given, Objective):
        given = _named()[require_name("loss", given, names())]
    if task is not None:
        given.check(task)
    return given
