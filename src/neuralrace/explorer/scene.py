"""Scenes: everything that one picture depends on, as plain values, and the table of bounds that they are checked by.

The page makes its controls from the same table. A number has `stops` where a slider rests, and `shape` says that
another value is another shape of network, which is compiled anew.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from neuralrace.errors import RangeError, UnknownNameError, nearest, require_known, require_name, require_number

Scene = dict[str, Any]
Bound = dict[str, Any]

MOST_FLIPS, MOST_ROW = 400, 10_000  # gates that differ from the named gating


def _number(label: str, default: float, least: float, most: float, *stops: float, **kind: bool) -> Bound:
    kinds = {"whole": False, "log": False, "shape": False} | kind
    return {"kind": "number", "label": label, "default": default, "least": least, "most": most, "stops": stops, **kinds}


def _size(label: str, default: int, least: int, most: int, *stops: int) -> Bound:
    return _number(label, default, least, most, *stops, whole=True, shape=True)


def _choice(label: str, *options: str) -> Bound:
    return {"kind": "choice", "label": label, "default": options[0], "options": options}


SCENE: Mapping[str, Bound] = {
    "network": _choice("network", "gated", "relu"),
    "depth": _size("layers of weights", 2, 2, 4, 2, 3, 4),
    "width": _size("neurons in a layer", 16, 1, 256, 4, 8, 16, 32, 64, 128),
    "initial": _choice("initial weights", "gaussian", "orthogonal"),
    "scale": _number("initial scale", 1e-3, 1e-6, 3.0, log=True),
    "rate": _number("learning rate", 0.1, 1e-4, 10.0, log=True),
    "steps": _number("steps", 600, 10, 20_000, log=True, whole=True),
    "seeds": _size("networks", 5, 1, 20, 1, 2, 5, 10),
    "key": _number("seed of the draws", 0, 0, 2**31 - 1, *range(10), whole=True),
}
TASKS: Mapping[str, Mapping[str, Bound]] = {
    "xor": {"delta": _number("margin", 0.0, 0.0, 3.0)},
    "hierarchy": {"levels": _size("levels", 4, 2, 5, 2, 3, 4, 5)},
    "semantic": {},
    "contextual": {
        "contexts": _size("contexts", 3, 2, 5, 2, 3, 4, 5),
        "structure": _choice("structure", "hierarchy", "mixed"),
    },
    "contextual_classification": {},
    "routing": {
        "domains": _size("domains M", 4, 2, 10, *range(2, 11)),
        "trained": _size("trained K", 2, 1, 10, *range(1, 11)),
    },
    "views": {
        "classes": _size("classes", 3, 2, 6, 2, 3, 4, 5, 6),
        "views": _size("views", 3, 2, 5, 2, 3, 4, 5),
        "presence": _choice("views occur", "all", "one", "chance"),
        "probability": _number("chance p of a view", 0.8, 0.05, 1.0),
        "overlap": _number("overlap", 0.0, 0.0, 0.9),
    },
    "iris": {},
}
FIELDS = ("task", "settings", "gating", "flips", *SCENE)


def read_scene(given: Any) -> Scene:
    """Check a scene from outside and fill in the defaults.

    gating: a name of the task's gatings; empty for the first. flips: [row of the grid, pathway] of the gates that are
    toggled; one that is given twice is none. The rest is as in SCENE.
    """
    if not isinstance(given, Mapping):
        raise RangeError(f"a scene must be an object with named values; it was {type(given).__name__}")
    for name in given:
        require_known(name, FIELDS, f"a scene has no {name!r:.40}")
    task, settings, flips = given.get("task", "xor"), given.get("settings", {}), given.get("flips", [])
    gating = given.get("gating", "")
    if not isinstance(task, str) or task not in TASKS:
        raise UnknownNameError(f"there is no task {task!r:.40} to explore; {nearest(task, TASKS)}")
    if not isinstance(settings, Mapping):
        raise RangeError(f"settings must be an object with named values; it was {type(settings).__name__}")
    for name in settings:
        require_known(name, TASKS[task], f"task {task!r} has no setting {name!r:.40} here")
    if not isinstance(gating, str) or len(gating) > 60:
        raise RangeError(f"gating must be a text of at most 60 characters; it was {gating!r:.40}")
    if not isinstance(flips, list) or len(flips) > MOST_FLIPS:
        raise RangeError(f"flips must be a list of at most {MOST_FLIPS} pairs; {str(flips)[:40]!r} came")
    found: set[tuple[int, int]] = set()
    for pair in flips:
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(place) is int for place in pair)
        if not whole or not all(0 <= place < MOST_ROW for place in pair):
            raise RangeError(f"a flip must be [row, pathway], two whole numbers from 0; one was {str(pair)[:40]!r}")
        found ^= {(pair[0], pair[1])}
    values = {name: _checked(name, bound, given) for name, bound in SCENE.items()}
    return {
        "task": task,
        "settings": {name: _checked(name, bound, settings) for name, bound in TASKS[task].items()},
        "gating": gating,
        "flips": [list(pair) for pair in sorted(found)],
        **values,
    }


def name_of(scene: Scene) -> str:
    """Return the scene as one line of JSON: equal scenes have equal names."""
    return json.dumps(scene, sort_keys=True, separators=(",", ":"))


def _checked(name: str, bound: Bound, given: Mapping[str, Any]) -> Any:
    value = given.get(name, bound["default"])
    if bound["kind"] == "choice":
        return require_name(name, value, bound["options"])
    least, most = bound["least"], bound["most"]
    if isinstance(value, (bool, str)) or value is None:
        raise RangeError(f"{name} must be a number from {least:g} to {most:g}; it was {value!r:.40}")
    number = require_number(name, value, least=least, most=most)
    if bound["whole"] and number != int(number):
        raise RangeError(f"{name} must be a whole number from {least:g} to {most:g}; it was {number:g}")
    return int(number) if bound["whole"] else number


def numbers(values: Any, digits: int = 6) -> Any:
    """Return lists for JSON with a few significant digits, and None for what is not finite."""
    array = np.asarray(values, dtype=float)
    plain = np.empty(array.size, dtype=object)
    plain[:] = [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in array.ravel().tolist()]
    return plain.reshape(array.shape).tolist()
