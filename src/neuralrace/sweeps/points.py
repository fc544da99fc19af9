"""What is swept: an experiment, and values of some of its settings; a point is one combination of them."""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.errors import RangeError, require_count, require_kind, shortened
from neuralrace.papers import get
from neuralrace.papers.experiment import Experiment, check_size
from neuralrace.papers.settings import as_json, override
from neuralrace.source import versions

APART = ";"  # between two values of a setting that is itself a list


@dataclass(frozen=True)
class Point:
    """One combination of values: where it is on each axis, and all settings."""

    place: tuple[int, ...]
    settings: Any
    key: str  # the name of its file: what it depends on, in short


@dataclass(frozen=True, eq=False)
class Sweep:
    """An experiment over the product of the values of some settings, all of them checked.

    axes: setting -> its values. base: the settings that the others are taken from.
    """

    experiment: Experiment
    size: str
    base: Any
    axes: Mapping[str, tuple[Any, ...]]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each axis has."""
        return tuple(map(len, self.axes.values()))

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What the sweep is, in plain values."""
        axes = {name: list(values) for name, values in self.axes.items()}
        base = json.loads(as_json(self.base))
        told = {"experiment": self.experiment.name, "size": self.size, "settings": base, "axes": axes}
        return json.loads(json.dumps(told | {"versions": versions()}))

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """All combinations, the last axis fastest."""
        found, code = [], versions()
        for place in itertools.product(*map(range, self.shape)):
            chosen = {name: values[i] for (name, values), i in zip(self.axes.items(), place, strict=True)}
            settings = dataclasses.replace(self.base, **chosen)
            depends = {"experiment": self.experiment.name, "size": self.size, "settings": as_json(settings)}
            text = json.dumps(depends | code, sort_keys=True)
            found.append(Point(place, settings, hashlib.sha256(text.encode()).hexdigest()[:32]))
        return tuple(found)


def shape_of(point: Point) -> str:
    """Equal for points that differ in numbers (floats) only: one compiled program serves them all."""
    kept = dataclasses.asdict(point.settings)
    return json.dumps({name: _without_floats(value) for name, value in kept.items()}, sort_keys=True)


def _without_floats(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_without_floats(part) for part in value]
    return "number" if isinstance(value, float) else value


def make_sweep(name: str, settings: Mapping[str, Any], *, size: str = "full", seeds: int | None = None) -> Sweep:
    """Check a sweep before anything starts; settings: name -> values, or text as it comes from the command line."""
    experiment = get(name)
    check_size(size)
    require_kind("settings", settings, Mapping, RangeError)
    base = experiment.full if size == "full" else experiment.tiny
    if seeds is not None:
        base = override(base, {"seeds": require_count("seeds", seeds)})
    if not settings:
        known = ", ".join(field.name for field in dataclasses.fields(base))
        raise RangeError(f"a sweep needs at least one setting with its values; none was given; {name} has {known}")
    axes = {setting: _values(base, setting, given) for setting, given in settings.items()}
    if seeds is not None and "seeds" in axes:
        raise RangeError("seeds are given twice: as a number, and among the settings that are swept")
    sweep = Sweep(experiment, size, base, axes)
    for point in sweep.points:
        experiment.check(point.settings)
    return sweep


def _values(base: Any, name: str, given: Any) -> tuple[Any, ...]:
    """The values of one axis as the setting's own kind, each one that it may be."""
    if isinstance(given, str):
        parts: Sequence[Any] = given.split(APART if isinstance(getattr(base, name, None), tuple) else ",")
    elif isinstance(given, Sequence | np.ndarray):
        parts = [part.item() if isinstance(part, np.generic) else part for part in given]
    else:
        parts = [given]
    parts = [part.strip() if isinstance(part, str) else part for part in parts]
    if not parts or any(part == "" for part in parts if isinstance(part, str)):
        raise RangeError(f"setting {name!r} needs at least one value, and none may be empty; it was {shortened(given)}")
    values = tuple(getattr(override(base, {name: part}), name) for part in parts)
    for value in values:
        if values.count(value) > 1:
            raise RangeError(f"the values of setting {name!r} must differ; {value!r} is there twice")
    return values
