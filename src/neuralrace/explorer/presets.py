"""Ready-made scenes, from scenes.json: one per task, one per figure of the papers, and guided ones with a story."""

import contextlib
import time
from typing import Any

from neuralrace.errors import NeuralRaceError
from neuralrace.explorer.answers import forecast_data, snapshots_data, training_events
from neuralrace.explorer.scene import SCENE, SCENES, TASKS, read_scene
from neuralrace.explorer.session import Session, Token
from neuralrace.papers import figures
from neuralrace.plotting.style import COLORS, SERIES

FIRST = "hierarchy"  # the task that a new page shows
PAUSE = 0.2  # seconds between two checks whether a page waits


def about() -> dict[str, Any]:
    """Return everything that the page needs before the first forecast."""
    starts = {task: read_scene(scene) for task, scene in SCENES["starts"].items()}

    def step_of(given: dict[str, Any]) -> dict[str, Any]:
        pins = [read_scene(pin) for pin in given.get("pins", [])]
        return given | {"scene": read_scene(given["scene"]), "pins": pins}

    guided = [story | {"steps": [step_of(step) for step in story["steps"]]} for story in SCENES["guided"]]
    presets = [
        preset
        | {"name": name, "title": figures()[name].title, "source": figures()[name].source}
        | {"scene": read_scene(preset["scene"])}
        for name, preset in SCENES["presets"].items()
    ]
    return {
        "bounds": SCENE,
        "tasks": TASKS,
        "starts": starts,
        "first": starts[FIRST],
        "presets": presets,
        "guided": guided,
        "colors": COLORS,
        "series": list(SERIES),
    }


def compile_ahead(session: Session) -> None:
    """Forecast, then train the first scene of every task while no page waits, so that its shapes are compiled."""
    names = sorted(SCENES["starts"], key=lambda task: task != FIRST)
    scenes = [read_scene(SCENES["starts"][task]) for task in names]

    def trained(session: Session, scene: dict[str, Any]) -> None:
        training_events(session, scene, Token(), lambda event, data: None)

    work = [(answer, scene) for scene in scenes for answer in (forecast_data, snapshots_data)]
    for answer, scene in [*work, *((trained, scene) for scene in scenes)]:
        while session.busy and not session.closed:
            time.sleep(PAUSE)
        if session.closed:
            return
        with contextlib.suppress(NeuralRaceError):
            answer(session, scene)
