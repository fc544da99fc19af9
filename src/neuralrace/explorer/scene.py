"""Scenes: everything that one picture depends on, as plain values, and the bounds that they are checked by.

scenes.json has the bounds, of which the page makes its controls, and ready-made scenes. A number has `stops` where a
slider rests, and `shape` says that another value is another shape of network, which is compiled anew.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from neuralrace.errors import RangeError, UnknownNameError, nearest, require_known, require_name, require_number

Scene = dict[str, Any]
Bounds = Mapping[str, Mapping[str, Any]]  # name -> what its value may be

MOST_FLIPS, MOST_ROW = 400, 10_000  # gates that differ from the named gating
SCENES: dict[str, Any] = json.loads((files("neuralrace.explorer") / "scenes.json").read_text(encoding="utf-8"))
SCENE: Bounds = SCENES["scene"]
TASKS: Mapping[str, Bounds] = SCENES["tasks"]


def read_scene(given: Any) -> Scene:
    """Check a scene from outside and fill in the defaults.

    gating: a name of the task's gatings; empty for the first. flips: [row of the grid, pathway] of the gates that are
    toggled; one that is given twice is none. The rest is as in SCENE.
    """
    if not isinstance(given, Mapping):
        raise RangeError(f"a scene must be an object with named values; it was {type(given).__name__}")
    for name in given:
        require_known(name, ("task", "settings", "gating", "flips", *SCENE), f"a scene has no {name!r:.40}")
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
    pairs = isinstance(flips, list) and len(flips) <= MOST_FLIPS and all(isinstance(one, list) for one in flips)
    if not pairs or not all(len(one) == 2 and all(p in range(MOST_ROW) for p in one) for one in flips):
        raise RangeError(
            f"flips must be at most {MOST_FLIPS} pairs [row, pathway] of whole numbers from 0; got {str(flips)[:40]!r}"
        )
    found: set[tuple[int, int]] = set()
    for row, pathway in flips:
        found ^= {(int(row), int(pathway))}
    return {
        "task": task,
        "settings": {name: _checked(name, bound, settings) for name, bound in TASKS[task].items()},
        "gating": gating,
        "flips": [list(pair) for pair in sorted(found)],
        **{name: _checked(name, bound, given) for name, bound in SCENE.items()},
    }


def name_of(scene: Scene) -> str:
    """Return the scene as one line of JSON: equal scenes have equal names."""
    return json.dumps(scene, sort_keys=True, separators=(",", ":"))


def _checked(name: str, bound: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    value = given.get(name, bound["default"])
    if bound["kind"] == "choice":
        return require_name(name, value, bound["options"])
    number = require_number(name, value, least=bound["least"], most=bound["most"])
    if bound.get("whole") and number != int(number):
        raise RangeError(f"{name} must be a whole number; it was {number:g}")
    return int(number) if bound.get("whole") else number


def numbers(values: Any, digits: int = 6) -> Any:
    """Return lists for JSON with a few significant digits, and None for what is not finite."""
    array = np.asarray(values, dtype=float)
    plain = np.empty(array.size, dtype=object)
    plain[:] = [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in array.ravel().tolist()]
    return plain.reshape(array.shape).tolist()
