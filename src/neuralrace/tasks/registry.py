"""The register of named tasks, and the value that they return."""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, ParamSpec

import numpy as np

from neuralrace.errors import NeuralRaceError, TaskError, require_count, require_known
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.tasks import named

P = ParamSpec("P")
Gating = Callable[[int], Problem]  # width of each pathway -> the gated network on the task


@dataclass(frozen=True, eq=False)
class NamedTask:
    """A dataset with the gatings that are known for it.

    gatings: name -> builder. hidden: the usual width of each pathway, or of a layer. groups: name of a grouping -> a
    label for every example. name, settings: the name of the factory, and its arguments.
    """

    task: Task
    gatings: Mapping[str, Gating] = field(default_factory=dict, repr=False)
    hidden: int = 100
    groups: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    name: str = "task"
    settings: Mapping[str, Any] = field(default_factory=dict)
    leads_to: ClassVar = "its examples are its .task, and its .problem(gating) is a network that learns them"

    def __post_init__(self) -> None:
        for group, values in self.groups.items():
            if len(values) != len(self.task):
                raise TaskError(
                    f"group {group!r} must have one label per example, {len(self.task)}; it has {len(values)}"
                )

    def problem(self, gating: str, hidden: int | None = None) -> Problem:
        """Build the task with one of its gatings and `hidden` neurons in each layer of each pathway."""
        require_known(gating, self.gatings, f"task {self.name!r} has no gating {gating!r}")
        return self.gatings[gating](require_count("hidden", self.hidden if hidden is None else hidden))


_factories: dict[str, Callable[..., NamedTask]] = {}


def register(factory: Callable[P, NamedTask]) -> Callable[P, NamedTask]:
    """Register a function that makes a task, under its own name; the first line of its docstring is its summary."""

    @functools.wraps(factory)
    def make(*args: P.args, **kwargs: P.kwargs) -> NamedTask:
        given = inspect.signature(factory).bind(*args, **kwargs)
        given.apply_defaults()
        return replace(factory(*args, **kwargs), name=factory.__name__, settings=given.arguments)

    if factory.__name__ in _factories:
        raise NeuralRaceError(f"a task is already registered as {factory.__name__!r}: choose another name")
    _factories[factory.__name__] = make
    return make


def factories() -> dict[str, Callable[..., NamedTask]]:
    """Return the function that makes each task, by name, in alphabetical order."""
    for module in pkgutil.iter_modules(named.__path__):
        importlib.import_module(f"{named.__name__}.{module.name}")
    return dict(sorted(_factories.items()))


def names() -> tuple[str, ...]:
    """List the names of all tasks, in alphabetical order."""
    return tuple(factories())


def summaries() -> dict[str, str]:
    """Return the summary of each task, by name."""
    return {name: str(inspect.getdoc(factory)).partition("\n")[0] for name, factory in factories().items()}


def get(name: str, **settings: Any) -> NamedTask:
    """Make a task by its name."""
    known = factories()
    require_known(name, known, f"there is no task {name!r}")
    for setting in settings:
        require_known(setting, inspect.signature(known[name]).parameters, f"task {name!r} has no setting {setting!r}")
    return known[name](**settings)
