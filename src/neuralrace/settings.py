"""Convert settings, given as text or values, to their annotated types."""

import types
import typing
from typing import Any

from neuralrace.errors import RangeError, shortened


def read_setting(name: str, value: Any, kind: Any, like: Any) -> Any:
    """Convert a value to a type: a number, a word, or a comma-separated list of those; like: a value of that type."""
    entry, several = entry_of(kind)
    if value is None and types.NoneType in typing.get_args(kind):
        return None
    try:
        if not several:
            return _read_entry(entry, value)
        return tuple(_read_entry(entry, part) for part in (value.split(",") if isinstance(value, str) else value))
    except (KeyError, TypeError, ValueError, OverflowError):
        hint = "" if like in (None, ()) else f", like {like!r}"
        raise RangeError(f"setting {name!r} must be {in_words(kind)}{hint}; it was {shortened(value)}") from None


def _read_entry(entry: Any, part: Any) -> Any:
    if entry is bool:
        return {"true": True, "false": False}[str(part).lower()]
    made = entry(part)
    if isinstance(part, bool) or (isinstance(part, float) and made != part and part == part):  # 1.5 as a whole number
        raise ValueError
    return made


def in_words(kind: Any) -> str:
    """Name the type of a setting in words."""
    entry, several = entry_of(kind)
    word = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}.get(entry, str(entry))
    return f"a list, each {word}" if several else word


def entry_of(kind: Any) -> tuple[Any, bool]:
    """The type of a setting, or of the entries of a list, and whether it is a list; None aside."""
    parts = [part for part in typing.get_args(kind) if part is not types.NoneType]
    if typing.get_origin(kind) is tuple:
        return parts[0], True
    return entry_of(parts[0]) if parts else (kind, False)
