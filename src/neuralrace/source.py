"""Which code this is, so that a result knows what made it and a sweep is made by one version.

What a caller's own function is can be told too, as far as it can be read: see `made_of`.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import CellType, CodeType
from typing import Any

import numpy as np

from neuralrace.errors import shortened

DEEPEST = 12  # functions within functions
EMPTY = CellType()  # of a name that was never given a value, as in optax.exponential_decay without an end


@functools.cache
def code_version() -> str:
    """A digest of the package's own source."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """What the numbers of a result depend on beside its settings."""
    return {
        "neuralrace": version("neuralrace"),
        "code": code_version(),
        "jax": version("jax"),
        "numpy": version("numpy"),
    }


def made_of(value: Any, depth: int = 0) -> Any:
    """A function, or what holds functions (an optax optimizer), in plain values.

    A function is its name and what it closes over: numbers and words as they are, arrays as a digest, functions in the
    same way; one that optax did not write has a digest of its code and defaults too. What cannot be read is named as
    {"unread": its type}. The same in every process, unlike a repr.
    """
    inner = functools.partial(made_of, depth=depth + 1)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth > DEEPEST:
        return {"unread": type(value).__name__}
    if isinstance(value, np.generic | np.ndarray) or hasattr(value, "__array__"):
        array = np.asarray(value)
        told = {"array": list(array.shape), "digest": hashlib.sha256(array.tobytes()).hexdigest()[:16]}
        return array.item() if array.ndim == 0 and array.dtype.kind in "biuf" else told
    if callable(getattr(value, "init", None)) and callable(getattr(value, "update", None)):
        return inner(value.update)  # what an optimizer does; init closes over the same
    if isinstance(value, list | tuple):
        return [inner(part) for part in value]
    if isinstance(value, Mapping):
        return _held({str(name): part for name, part in value.items()}, inner)
    if isinstance(value, functools.partial):
        return {"name": "partial", "of": inner(value.func), "args": inner(value.args)} | _held(value.keywords, inner)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
        return {"name": _name(type(value))} | _held(parts, inner)
    if hasattr(value, "__code__"):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        own = vars(value.__self__) if hasattr(value, "__self__") else {}
        held = _held(own | {name: cell.cell_contents for name, cell in cells if cell != EMPTY}, inner)
        if list(held) == ["tx"]:  # a mere wrapper
            return next(iter(held.values()))
        named = {"name": _name(value)}
        return (named if named["name"].startswith("optax.") else named | {"code": _code(value, inner)}) | held
    told = {"repr": shortened(value)} if getattr(type(value), "__repr__", None) is not object.__repr__ else {}
    return {"unread": _name(type(value))} | told


def _held(parts: Mapping[str, Any], inner: Any) -> dict[str, Any]:
    return {name: inner(part) for name, part in parts.items()}


def _code(function: Any, inner: Any) -> str:
    """A digest of what a function does, wherever it stands, and of its defaults."""

    def parts(code: CodeType) -> list[Any]:
        return [code.co_code.hex(), code.co_names, code.co_varnames, [told(one) for one in code.co_consts]]

    def told(constant: Any) -> Any:
        if isinstance(constant, frozenset):
            return sorted(map(repr, constant))  # its own order is another in every process
        return parts(constant) if isinstance(constant, CodeType) else repr(constant)

    defaults = inner((function.__defaults__, function.__kwdefaults__))
    return hashlib.sha256(json.dumps([parts(function.__code__), defaults]).encode()).hexdigest()[:16]


def _name(thing: Any) -> str:
    """Where it was written: a function inside another is known by the outer one."""
    return f"{str(thing.__module__).partition('.')[0]}.{thing.__qualname__.split('.<locals>')[0]}"
