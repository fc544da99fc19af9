"""Settings that come as text or values, read as the type that an annotation names."""

import types
import typing
from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralrace.errors import RangeError, shortened


def read_setting(name: str, value: Any, kind: Any, like: Any) -> Any:
    """Convert a value to a type: a number, a word, or a comma-separated list of those; like: a value of that type."""
    entry, several = entry_of(kind)
    if value is None and types.NoneType in typing.get_args(kind):
        return None
    parts = [value] if not several else value.split(",") if isinstance(value, str) else value
    found: list[Any] = []
    for part in parts if isinstance(parts, Sequence | np.ndarray) else [None]:
        try:
            found.append({"true": True, "false": False}[str(part).lower()] if entry is bool else entry(part))
        except (KeyError, TypeError, ValueError, OverflowError):
            found.append(None)
        cut = isinstance(part, float) and found[-1] != part and part == part  # 1.5 as a whole number
        if found[-1] is None or cut or (isinstance(part, bool) and entry is not bool):
            hint = "" if like in (None, ()) else f", like {like!r}"
            raise RangeError(f"setting {name!r} must be {in_words(kind)}{hint}; it was {shortened(value)}")
    return tuple(found) if several else found[0]


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
