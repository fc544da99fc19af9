"""A scene: everything that one picture of the explorer depends on, as a frozen value that comes from JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from neuralrace.errors import RangeError, UnknownNameError, nearest, require_known
from neuralrace.explorer.bounds import FLIPS, SCENE, TASKS, Text

FIELDS = ("task", "settings", "gating", "flips", *SCENE)
GATING = Text("gating", "", 60)
MOST_ROW = 10_000


@dataclass(frozen=True)
class Scene:
    """A task with its settings, a network on it, and how it is trained.

    gating: a name of the task's gatings; empty for the first. flips: (row of the grid, pathway) of gates that are the
    other way round. The rest is as in `bounds.SCENE`. Made by `Scene.read`, which checks all of it.
    """

    task: str
    settings: tuple[tuple[str, Any], ...]
    gating: str
    flips: tuple[tuple[int, int], ...]
    network: str
    depth: int
    width: int
    law: str
    scale: float
    rate: float
    steps: int
    seeds: int
    key: int

    @staticmethod
    def read(given: Any) -> "Scene":
        """Check a scene that came from outside; what is left out has its default."""
        if not isinstance(given, Mapping):
            raise RangeError(f"a scene must be an object with named values; it was {type(given).__name__}")
        for name in given:
            require_known(name, FIELDS, f"a scene has no {name!r:.40}")
        task = given.get("task", "xor")
        if not isinstance(task, str) or task not in TASKS:
            raise UnknownNameError(f"there is no task {task!r:.40} to explore; {nearest(task, TASKS)}")
        values: dict[str, Any] = {
            name: bound.check(name, given.get(name, bound.default)) for name, bound in SCENE.items()
        }
        return Scene(
            task=task,
            settings=_settings(task, given.get("settings", {})),
            gating=GATING.check("gating", given.get("gating", "")),
            flips=_flips(given.get("flips", [])),
            **values,
        )

    def as_data(self) -> dict[str, Any]:
        """Plain values, from which `read` makes the same scene."""
        return asdict(self) | {"settings": dict(self.settings), "flips": [list(flip) for flip in self.flips]}

    @cached_property
    def name(self) -> str:
        """The scene as one line of JSON: equal scenes have equal names."""
        return json.dumps(self.as_data(), sort_keys=True, separators=(",", ":"))


def _settings(task: str, given: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(given, Mapping):
        raise RangeError(f"settings must be an object with named values; it was {type(given).__name__}")
    for name in given:
        require_known(name, TASKS[task], f"task {task!r} has no setting {name!r:.40} here")
    return tuple((name, bound.check(name, given.get(name, bound.default))) for name, bound in TASKS[task].items())


def _flips(given: Any) -> tuple[tuple[int, int], ...]:
    """Each flip once, in order; one that is given twice is none."""
    if not isinstance(given, list) or len(given) > FLIPS:
        raise RangeError(f"flips must be a list of at most {FLIPS} pairs; {str(given)[:40]!r} came")
    found: set[tuple[int, int]] = set()
    for pair in given:
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(place) is int for place in pair)
        if not whole or not all(0 <= place < MOST_ROW for place in pair):
            raise RangeError(f"a flip must be [row, pathway], two whole numbers from 0; one was {str(pair)[:40]!r}")
        found ^= {(pair[0], pair[1])}
    return tuple(sorted(found))
