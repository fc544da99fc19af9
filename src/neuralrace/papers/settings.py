"""Settings of an experiment: frozen dataclasses, changed by name from outside, each checked for what it may be."""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.errors import (
    RangeError,
    bounds_told,
    require_count,
    require_kind,
    require_known,
    require_name,
    require_number,
    shortened,
)

ARTICLES = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}


@dataclass(frozen=True)
class Bounds:
    """What a setting may be, or each entry of one that is a list."""

    above: float | None = None
    least: float | None = None
    most: float | None = None
    words: tuple[str, ...] = ()

    def check(self, name: str, value: Any) -> None:
        """Refuse anything else; None stands for what other settings decide."""
        for part in value if isinstance(value, tuple) else (value,):
            if self.words:
                require_name(name, part, self.words)
            elif isinstance(part, bool):
                continue
            elif isinstance(part, int) and self.least is not None:
                require_count(name, part, least=int(self.least), most=None if self.most is None else int(self.most))
            elif isinstance(part, int | float):
                require_number(name, part, above=self.above, least=self.least, most=self.most)

    def __str__(self) -> str:
        return ", ".join(self.words) or " and ".join(bounds_told(self.above, self.least, self.most))


def setting(default: Any, **bounds: Any) -> Any:
    """A setting that says what it may be: above, least, most, words.

    One that does not say may be any word, and a number that is positive where its defaults are, not negative where
    some of them are zero, and finite.
    """
    return dataclasses.field(default=default, metadata={"bounds": Bounds(**bounds)})


def bounds_of(field: "dataclasses.Field[Any]") -> Bounds:
    """What a setting may be, as it says or as its default tells."""
    if "bounds" in field.metadata:
        found: Bounds = field.metadata["bounds"]
        return found
    parts = field.default if isinstance(field.default, tuple) else (field.default,)
    lowest = min((part for part in parts if isinstance(part, int | float)), default=1)
    if lowest <= 0:
        return Bounds() if lowest < 0 else Bounds(least=0)
    return Bounds(least=1) if _entry(field.type) is int else Bounds(above=0)


def override(settings: Any, changes: Mapping[str, Any]) -> Any:
    """Replace settings by name; text, as it comes from the command line, is read as the setting's own kind."""
    require_kind("changes", changes, Mapping, RangeError)
    known = {field.name: field for field in dataclasses.fields(settings)}
    read = {}
    for name, value in changes.items():
        require_known(name, known, f"there is no setting {name!r}")
        read[name] = read_setting(name, value, known[name].type, getattr(settings, name))
        if read[name] == () and known[name].default:
            raise RangeError(f"setting {name!r} needs at least one value, like {known[name].default!r}; it was empty")
        bounds_of(known[name]).check(f"setting {name!r}", read[name])
    return dataclasses.replace(settings, **read)


def as_json(settings: Any) -> str:
    """The settings as one line of JSON, always in the same order."""
    return json.dumps(dataclasses.asdict(settings), sort_keys=True)


def described(full: Any, tiny: Any) -> list[dict[str, Any]]:
    """Each setting with its value at both sizes, its kind, and what it may be."""
    return [
        {
            "setting": field.name,
            "full": getattr(full, field.name),
            "tiny": getattr(tiny, field.name),
            "is": in_words(field.type),
            "may be": str(bounds_of(field)) if _entry(field.type) in (int, float) or "bounds" in field.metadata else "",
        }
        for field in dataclasses.fields(full)
    ]


def in_words(kind: Any) -> str:
    """A kind of setting as people say it."""
    plain, entry = _plain(kind), _entry(kind)
    word = ARTICLES.get(entry, str(entry))
    return f"a list, each {word}" if plain is not entry else word


def read_setting(name: str, value: Any, kind: Any, like: Any) -> Any:
    """Turn a value into a kind: a number, a word, or a comma-separated list of those; like: a value that is one."""
    plain, entry = _plain(kind), _entry(kind)
    if value is None and plain is not kind:
        return None
    hint = "" if like in (None, ()) else f", like {like!r}"
    mistake = RangeError(f"setting {name!r} must be {in_words(kind)}{hint}; it was {shortened(value)}")
    if plain is entry:
        return _read(value, entry, mistake)
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, Sequence | np.ndarray):
        raise mistake
    return tuple(_read(part, entry, mistake) for part in listed)


def _read(value: Any, kind: Any, mistake: RangeError) -> Any:
    if kind is bool:
        found = {"true": True, "false": False}.get(str(value).lower())
        if found is None:
            raise mistake
        return found
    try:
        read = kind(value)
    except (TypeError, ValueError, OverflowError):
        raise mistake from None
    if isinstance(value, bool) or (isinstance(value, float) and read != value and value == value):
        raise mistake
    return read


def _plain(kind: Any) -> Any:
    """Of a kind that may be None, the other one."""
    if isinstance(kind, types.UnionType):
        return next(part for part in typing.get_args(kind) if part is not types.NoneType)
    return kind


def _entry(kind: Any) -> Any:
    """Of a list, the kind of its entries."""
    plain = _plain(kind)
    return typing.get_args(plain)[0] if typing.get_origin(plain) is tuple else plain
