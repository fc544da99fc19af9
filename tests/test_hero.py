"""The picture that opens README and docs is that of its record, and the record is that of its script."""

import importlib.util
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np

import neuralrace as nr

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("hero", ROOT / "docs/hero.py")
assert SPEC is not None
assert SPEC.loader is not None
hero = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(hero)


def test_the_pictures_are_those_of_the_record() -> None:
    record = hero.read()
    assert record["settings"] == hero.SETTINGS
    assert list(record["lanes"]) == list(hero.LANES)
    for animated, path in hero.PICTURES.items():
        drawn = hero.render(record, animated)
        ElementTree.fromstring(drawn)  # well formed
        assert path.read_text(encoding="utf-8") == drawn
        assert ("<animate" in drawn) is animated
        assert len(drawn) < 1e6


def test_the_record_says_what_the_picture_claims() -> None:
    """The more is shared, the sooner half of the loss is gone, in theory and in training, which agree."""
    record = hero.read()
    for kind in hero.KINDS:
        half = [np.argmax(np.array(lane[kind]) >= 0.5) for lane in record["lanes"].values()]
        assert half == sorted(half)
        assert half[0] > 0
        assert half[0] < half[-1]
    assert all(lane["normalized_l1"] < 0.1 for lane in record["lanes"].values())


def test_the_forecast_of_the_record_is_todays() -> None:
    """Compare one lane at a few moments, to the four digits that are kept."""
    record, (gating, *_) = hero.read(), hero.LANES
    settings = record["settings"]
    problem = nr.tasks.routing(settings["domains"], settings["domains"]).problem(gating, hidden=settings["hidden"])
    chosen = [0, 5, 10, 20]
    times = [record["time"][place] for place in chosen]
    forecast = nr.predict(problem, nr.initial.orthogonal(settings["gain"]), times, key=1)
    kept = [record["lanes"][gating]["theory"][place] for place in chosen]
    np.testing.assert_allclose(1 - forecast.loss / forecast.loss[0], kept, atol=1e-4)
