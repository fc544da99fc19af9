"""Scenes: what comes from outside is checked against one table, and comes back as it was."""

import json

import pytest

from neuralrace.errors import NeuralRaceError
from neuralrace.explorer.bounds import FLIPS, SCENE, TASKS
from neuralrace.explorer.scene import Scene


def test_what_is_left_out_has_its_default_and_a_scene_comes_back_as_it_was() -> None:
    scene = Scene.read({"task": "xor", "settings": {"delta": 1}, "flips": [[3, 1], [0, 2], [1, 1], [1, 1]]})
    assert scene.width == SCENE["width"].default
    assert scene.flips == ((0, 2), (3, 1))  # twice is not at all
    assert Scene.read(json.loads(scene.name)) == scene
    assert Scene.read(json.loads(scene.name)).name == scene.name


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "a scene must be an object"),
        ({"tusk": "xor"}, "a scene has no 'tusk'; did you mean 'task'"),
        ({"task": "xr"}, "no task 'xr' to explore; did you mean 'xor'"),
        ({"task": ["xor"]}, "no task"),
        ({"settings": 3}, "settings must be an object"),
        ({"settings": {"detla": 1}}, "no setting 'detla' here; did you mean 'delta'"),
        ({"settings": {"delta": 4}}, "delta must be a finite number, at least 0 and at most 3; it was 4"),
        ({"width": 10_000}, "width must be a finite number, at least 1 and at most 256; it was 10000"),
        ({"width": 2.5}, "width must be a whole number"),
        ({"width": True}, "width must be a number from 1 to 256; it was True"),
        ({"scale": "1"}, "scale must be a number"),
        ({"scale": float("nan")}, "scale must be a finite number"),
        ({"steps": 10**9}, "at most 20000"),
        ({"seeds": 21}, "at most 20"),
        ({"network": "tanh"}, "network must be one of gated, relu"),
        ({"gating": "x" * 61}, "gating must be a text of at most 60 characters"),
        ({"flips": [[0]]}, r"a flip must be \[row, pathway\]"),
        ({"flips": [[0, -1]]}, "two whole numbers from 0"),
        ({"flips": [[0, 0]] * (FLIPS + 1)}, f"at most {FLIPS} pairs"),
    ],
)
def test_a_mistake_is_told_with_its_bound(given: object, said: str) -> None:
    with pytest.raises(NeuralRaceError, match=said):
        Scene.read(given)


def test_defaults_keep_their_own_bounds() -> None:
    for bounds in (SCENE, *TASKS.values()):
        for name, bound in bounds.items():
            assert bound.check(name, bound.default) == bound.default
            for stop in getattr(bound, "stops", ()):
                bound.check(name, stop)
