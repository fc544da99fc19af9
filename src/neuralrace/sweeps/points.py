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

from neuralrace.errors import RangeError, UnknownNameError, nearest, require_count
from neuralrace.experiments.experiment import Experiment
from neuralrace.experiments.registry import get
from neuralrace.experiments.settings import as_json, override, read_setting
from neuralrace.experiments.store import SIZES
from neuralrace.source import versions

TOGETHER = 16  # points that are computed in one program, at most; fixed, since a sum over more may be rounded otherwise
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

    @cached_property
    def tasks(self) -> tuple[tuple[Point, ...], ...]:
        """What one worker does at a time; those of one shape follow each other.

        Points that differ in numbers (floats) only have one shape. Where the experiment can compute several in one
        program they are one task; elsewhere each is, and a worker's compiled programs serve all of a shape.
        """
        alike: dict[str, list[Point]] = {}
        for point in self.points:
            alike.setdefault(shape_of(point), []).append(point)
        size = 1 if self.experiment.compute_many is None else TOGETHER
        return tuple(tuple(group[i : i + size]) for group in alike.values() for i in range(0, len(group), size))


def shape_of(point: Point) -> str:
    """Equal for points that differ in numbers only."""
    kept = dataclasses.asdict(point.settings)
    return json.dumps({name: value for name, value in kept.items() if not isinstance(value, float)}, sort_keys=True)


def make_sweep(name: str, settings: Mapping[str, Any], *, size: str = "full", seeds: int | None = None) -> Sweep:
    """Check a sweep before anything starts; settings: name -> values, or text as it comes from the command line."""
    experiment = get(name)
    if size not in SIZES:
        raise UnknownNameError(f"size must be full or tiny; it was {size!r}; {nearest(size, SIZES)}")
    base = experiment.full if size == "full" else experiment.tiny
    if seeds is not None:
        base = override(base, {"seeds": require_count("seeds", seeds)})
    if not settings:
        known = ", ".join(field.name for field in dataclasses.fields(base))
        raise RangeError(f"a sweep needs at least one setting with its values; none was given; {name} has {known}")
    axes = {setting: _values(base, setting, given) for setting, given in settings.items()}
    if seeds is not None and "seeds" in axes:
        raise RangeError("seeds are given twice: as a number, and among the settings that are swept")
    return Sweep(experiment, size, base, axes)


def _values(base: Any, name: str, given: Any) -> tuple[Any, ...]:
    """The values of one axis as the setting's own kind."""
    known = {field.name: getattr(base, field.name) for field in dataclasses.fields(base)}
    if name not in known:
        raise UnknownNameError(f"there is no setting {name!r}; {nearest(name, known)}")
    present = known[name]
    if isinstance(given, str):
        parts: Sequence[Any] = [part.strip() for part in given.split(APART if isinstance(present, tuple) else ",")]
    elif isinstance(given, Sequence | np.ndarray):
        parts = [part.item() if isinstance(part, np.generic) else part for part in given]
    else:
        parts = [given]
    if not len(parts) or "" in [part for part in parts if isinstance(part, str)]:
        raise RangeError(f"setting {name!r} needs at least one value, and none may be empty; it was {given!r}")
    values = tuple(_checked(name, read_setting(name, part, present), present) for part in parts)
    for value in values:
        if values.count(value) > 1:
            raise RangeError(f"the values of setting {name!r} must differ; {value!r} is there twice")
    return values


def _checked(name: str, value: Any, present: Any) -> Any:
    """Refuse numbers that no experiment can take: not finite, or negative where its own are not."""
    numbers, usual = (np.ravel(np.asarray(v)) for v in (value, present))
    if numbers.dtype.kind in "fiu" and usual.dtype.kind in "fiu":
        if not np.isfinite(numbers).all():
            raise RangeError(f"setting {name!r} must be finite; it was {value!r}")
        if (numbers < 0).any() and (usual >= 0).all():
            raise RangeError(f"setting {name!r} must not be negative, like {present!r}; it was {value!r}")
    return value
