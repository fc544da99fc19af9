"""The register of named tasks, and the value that they return."""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from neuralrace.errors import NeuralRaceError, TaskError, require_count, require_known
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.tasks import named

Gating = Callable[[int], Problem]  # width of each pathway -> the gated network on the task


@dataclass(frozen=True, eq=False)
class NamedTask:
    """A dataset with the gatings that are known for it.

    settings: what it was made with. gatings: name -> builder. hidden: the usual width of each pathway, or of a layer.
    groups: a label for every example, by what it tells apart. labels: data node -> the names of its
    columns. whole: makes the same task with everything that can be asked, where training sees only a part. notes: what
    was done when it was read that was not asked for.
    """

    name: str
    settings: Mapping[str, Any]
    task: Task
    gatings: Mapping[str, Gating] = field(default_factory=dict, repr=False)
    hidden: int = 100
    groups: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    whole: Callable[[], "NamedTask"] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    leads_to: ClassVar = "its examples are its .task, and its .problem(gating) is a network that learns them"

    def __post_init__(self) -> None:
        for group, values in self.groups.items():
            if len(values) != len(self.task):
                raise TaskError(
                    f"group {group!r} of task {self.name!r} must have one label per example, "
                    f"{len(self.task)}; it has {len(values)}"
                )

    def problem(self, gating: str, hidden: int | None = None) -> Problem:
        """Build the task with one of its gatings and `hidden` neurons in each layer of each pathway."""
        require_known(gating, self.gatings, f"task {self.name!r} has no gating {gating!r}")
        return self.gatings[gating](require_count("hidden", self.hidden if hidden is None else hidden))

    def complete(self) -> "NamedTask":
        """Return the task with all its examples, where training sees only a part of them."""
        return self if self.whole is None else self.whole()

    def evaluation(self, gating: str, hidden: int | None = None) -> Problem:
        """Build the network of `problem` on the complete task; the weights of the one fit the other."""
        return self.complete().problem(gating, hidden)


Factory = TypeVar("Factory", bound=Callable[..., NamedTask])


_entries: dict[str, tuple[Callable[..., NamedTask], str]] = {}  # name -> what makes it, and its summary


def register(name: str, *, summary: str) -> Callable[[Factory], Factory]:
    """Register a function that makes a task; the summary is its line in a listing."""

    def enter(factory: Factory) -> Factory:
        if name in _entries:
            raise NeuralRaceError(f"a task is already registered as {name!r}: choose another name")
        _entries[name] = factory, summary
        return factory

    return enter


def names() -> tuple[str, ...]:
    """List the names of all tasks, in alphabetical order."""
    _load()
    return tuple(sorted(_entries))


def summaries() -> dict[str, str]:
    """Return the summary of each task, by name."""
    return {name: _entries[name][1] for name in names()}


def factories() -> dict[str, Callable[..., NamedTask]]:
    """Return the function that makes each task, by name."""
    return {name: _entries[name][0] for name in names()}


def get(name: str, **settings: Any) -> NamedTask:
    """Make a task by its name."""
    known = factories()
    require_known(name, known, f"there is no task {name!r}")
    parameters = inspect.signature(known[name]).parameters
    for setting in settings:
        require_known(setting, parameters, f"task {name!r} has no setting {setting!r}")
    for setting, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and setting not in settings:
            raise TaskError(f"task {name!r} needs the setting {setting!r}; it was not given")
    return known[name](**settings)


@functools.cache
def _load() -> None:
    for module in pkgutil.iter_modules(named.__path__):
        importlib.import_module(f"{named.__name__}.{module.name}")
