"""The losses that training can descend, one file each."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from neuralrace.errors import require_name
from neuralrace.task import Task
from neuralrace.training.objectives.objective import Objective

__all__ = ["Objective", "as_objective", "names"]


@cache
def _named() -> Mapping[str, Objective]:
    """Name -> objective; every module of this folder declares its own as OBJECTIVE."""
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found = [module.OBJECTIVE for module in modules if hasattr(module, "OBJECTIVE")]
    return {objective.name: objective for objective in sorted(found, key=lambda one: one.name, reverse=True)}


def names() -> tuple[str, ...]:
    """The objectives that can be asked for by name."""
    return tuple(_named())


def as_objective(given: str | Objective, task: Task | None = None) -> Objective:
    """An objective from its name, or itself, after a look at whether the targets of a task suit it."""
    if not isinstance(given, Objective):
        given = _named()[require_name("loss", given, names())]
    if task is not None:
        given.check(task)
    return given
