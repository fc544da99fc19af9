"""Settings of an experiment: frozen dataclasses, changed by name from outside, each checked for what it may be."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from neuralrace.errors import (
    RangeError,
    bounds_told,
    require_count,
    require_kind,
    require_known,
    require_name,
    require_number,
)
from neuralrace.settings import entry_of, in_words, read_setting


def setting(default: Any, **bounds: Any) -> Any:
    """Declare a setting with bounds: above, least, most, words.

    Without bounds a word may be any word, and a number must be finite, positive if its defaults are, and not negative
    if some of them are zero.
    """
    return dataclasses.field(default=default, metadata={"bounds": bounds})


def bounds_of(field: "dataclasses.Field[Any]") -> dict[str, Any]:
    """The bounds of a setting, or of each entry of a list: those declared, or those that its default suggests."""
    if "bounds" in field.metadata:
        return dict(field.metadata["bounds"])
    parts = field.default if isinstance(field.default, tuple) else (field.default,)
    lowest = min((part for part in parts if isinstance(part, int | float)), default=1)
    if lowest <= 0:
        return {} if lowest < 0 else {"least": 0}
    return {"least": 1} if entry_of(field.type)[0] is int else {"above": 0}


def override(settings: Any, changes: Mapping[str, Any]) -> Any:
    """Replace settings by name; text, as it comes from the command line, is converted to the setting's type."""
    require_kind("changes", changes, Mapping, RangeError)
    known = {field.name: field for field in dataclasses.fields(settings)}
    read = {}
    for name, value in changes.items():
        require_known(name, known, f"there is no setting {name!r}")
        read[name] = read_setting(name, value, known[name].type, getattr(settings, name))
        if read[name] == () and known[name].default:
            raise RangeError(f"setting {name!r} needs at least one value, like {known[name].default!r}; it was empty")
        bounds = bounds_of(known[name])
        for part in read[name] if isinstance(read[name], tuple) else (read[name],):
            if "words" in bounds:
                require_name(f"setting {name!r}", part, bounds["words"])
            elif isinstance(part, int) and not isinstance(part, bool) and "least" in bounds:
                require_count(f"setting {name!r}", part, **bounds)
            elif isinstance(part, int | float) and not isinstance(part, bool):
                require_number(f"setting {name!r}", part, **bounds)
    return dataclasses.replace(settings, **read)


def as_json(settings: Any) -> str:
    """The settings as one line of JSON, always in the same order."""
    return json.dumps(dataclasses.asdict(settings), sort_keys=True)


def described(full: Any, tiny: Any) -> list[dict[str, Any]]:
    """Describe each setting: its value at both sizes, its type, and its bounds."""
    found = []
    for field in dataclasses.fields(full):
        bounds, number = bounds_of(field), entry_of(field.type)[0] in (int, float)
        limits = bounds_told(bounds.get("above"), bounds.get("least"), bounds.get("most"))
        may = ", ".join(bounds.get("words", ())) or " and ".join(limits)
        row = {"setting": field.name, "full": getattr(full, field.name), "tiny": getattr(tiny, field.name)}
        found.append(row | {"is": in_words(field.type), "may be": may if number or "bounds" in field.metadata else ""})
    return found
