"""Settings that come as text or values, read as the kind that an annotation names."""

import types
import typing
from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralrace.errors import RangeError, shortened

KINDS = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}


def in_words(kind: Any) -> str:
    """Name a kind of setting in words."""
    plain, entry = kinds(kind)
    word = KINDS.get(entry, str(entry))
    return f"a list, each {word}" if plain is not entry else word


def read_setting(name: str, value: Any, kind: Any, like: Any) -> Any:
    """Convert a value or text to a kind: a number, a word, or a comma-separated list of those; like: an example."""
    plain, entry = kinds(kind)
    if value is None and plain is not kind:
        return None
    hint = "" if like in (None, ()) else f", like {like!r}"
    mistake = RangeError(f"setting {name!r} must be {in_words(kind)}{hint}; it was {shortened(value)}")
    listed = value.split(",") if isinstance(value, str) and plain is not entry else value
    if plain is not entry and not isinstance(listed, Sequence | np.ndarray):
        raise mistake
    found = []
    for part in [value] if plain is entry else listed:
        if entry is bool:
            found.append({"true": True, "false": False}.get(str(part).lower()))
        else:
            try:
                found.append(entry(part))
            except (TypeError, ValueError, OverflowError):
                raise mistake from None
            if isinstance(part, bool) or (isinstance(part, float) and found[-1] != part and part == part):
                raise mistake
        if found[-1] is None:
            raise mistake
    return found[0] if plain is entry else tuple(found)


def kinds(kind: Any) -> tuple[Any, Any]:
    """Return a kind without None, and the kind of its entries if it is a list (else the kind itself)."""
    plain = kind
    if isinstance(kind, types.UnionType):
        plain = next(part for part in typing.get_args(kind) if part is not types.NoneType)
    return plain, typing.get_args(plain)[0] if typing.get_origin(plain) is tuple else plain
