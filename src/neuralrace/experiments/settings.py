"""Settings of an experiment: frozen dataclasses, changed by name from outside."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from neuralrace.errors import RangeError, UnknownNameError, nearest, require_kind


def override(settings: Any, changes: Mapping[str, Any]) -> Any:
    """Replace settings by name; text, as it comes from the command line, is read as the setting's own kind."""
    require_kind("changes", changes, Mapping, RangeError)
    known = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    read = {}
    for name, value in changes.items():
        if name not in known:
            raise UnknownNameError(f"there is no setting {name!r}; {nearest(name, known)}")
        read[name] = read_setting(name, value, known[name])
    return dataclasses.replace(settings, **read)


def as_json(settings: Any) -> str:
    """The settings as one line of JSON, always in the same order."""
    return json.dumps(dataclasses.asdict(settings), sort_keys=True)


def read_setting(name: str, value: Any, present: Any) -> Any:
    """Turn a value into the kind of the present one: a number, a word, or a comma-separated list of those.

    Where the present one is None, which stands for a number that other settings decide, a number.
    """
    if present is None:
        return value if value is None else _number(name, value)
    kind = type(present)
    if isinstance(present, tuple):
        parts = value.split(",") if isinstance(value, str) else list(value)
        return tuple(read_setting(name, part, present[0]) if present else _number_or_word(part) for part in parts)
    if isinstance(value, str) and kind is bool:
        if value.lower() in ("true", "false"):
            return value.lower() == "true"
        raise RangeError(f"setting {name!r} must be true or false; it was {value!r}")
    try:
        read = kind(value)
    except (TypeError, ValueError):
        raise RangeError(f"setting {name!r} must be {_article(kind)}, like {present!r}; it was {value!r}") from None
    if isinstance(read, (int, float)) and not isinstance(read, bool) and isinstance(value, float) and read != value:
        raise RangeError(f"setting {name!r} must be {_article(kind)}, like {present!r}; it was {value!r}")
    return read


def _number(name: str, value: Any) -> int | float:
    read = _number_or_word(value)
    if not isinstance(read, int | float):
        raise RangeError(f"setting {name!r} must be a number; it was {value!r}")
    return read


def _number_or_word(value: Any) -> Any:
    try:
        read = float(value)
    except (TypeError, ValueError):
        return value
    return int(read) if read.is_integer() else read


def _article(kind: type) -> str:
    return {int: "a whole number", float: "a number", str: "a word"}.get(kind, kind.__name__)
