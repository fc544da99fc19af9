"""Compiling ahead: it waits for visitors, ends with the server, and nobody computes the same thing twice."""

import threading

import pytest

from explorer_scene import SMALL
from neuralrace.explorer import warming
from neuralrace.explorer.desk import Desk, Kept
from neuralrace.explorer.scene import Scene


def test_the_cards_are_known_before_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, small = Desk(), Scene.read(SMALL)
    monkeypatch.setattr("neuralrace.explorer.desk.QUIET", 0.1)
    monkeypatch.setattr(warming, "FIRST", small)
    monkeypatch.setattr(warming, "STARTS", {"table": {"task": "table"}})
    with desk.serving():
        thread = threading.Thread(target=warming.warm, args=(desk,))
        thread.start()
        thread.join(3 * warming.PAUSE)
        assert thread.is_alive()
        assert len(desk.forecasts) == 0  # somebody waits for an answer
    thread.join(120)
    assert desk.machines.find(small.name) is not None
    assert desk.trainings.find(small.name) is not None
    desk.close()
    fresh = Desk()
    fresh.close()
    warming.warm(fresh)
    assert len(fresh.forecasts) == 0


def test_who_asks_for_what_is_being_made_waits_for_it() -> None:
    kept, made, start, found = Kept[object](2), [], threading.Event(), []

    def make() -> object:
        made.append(start.wait(20))
        return object()

    threads = [threading.Thread(target=lambda: found.append(kept.get("scene", make))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert kept.get("another", object) is not None  # is not kept waiting
    start.set()
    for thread in threads:
        thread.join(20)
    assert len(made) == 1
    assert len(set(map(id, found))) == 1
    assert kept._making == {}
