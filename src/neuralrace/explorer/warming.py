"""Compiling ahead: the first scene of every task card, one after the other, while the page rests."""

import contextlib
import time

from neuralrace.errors import NeuralRaceError
from neuralrace.explorer.answers import forecast_data, machine_data, training_events
from neuralrace.explorer.desk import Desk, Token
from neuralrace.explorer.presets import FIRST, STARTS
from neuralrace.explorer.scene import Scene

PAUSE = 0.2  # seconds between two looks whether somebody waits


def warm(desk: Desk) -> None:
    """Forecast the first scene of every card, then train them; what a visitor asks for comes before the next one."""
    scenes = [FIRST, *(Scene.read(given) for task, given in STARTS.items() if task not in (FIRST.task, "table"))]
    work = [(answer, scene) for scene in scenes for answer in (forecast_data, machine_data)]
    for answer, scene in [*work, *((_trained, scene) for scene in scenes)]:
        while desk.busy and not desk.closed:
            time.sleep(PAUSE)
        if desk.closed:
            return
        with contextlib.suppress(NeuralRaceError):
            answer(desk, scene)


def _trained(desk: Desk, scene: Scene) -> None:
    training_events(desk, scene, Token(), lambda event, data: None)
