"""Scenes and their problems: bounds are kept, gates toggled, and ready-made scenes fit."""

import json

import numpy as np
import pytest
import stories

from neuralrace.errors import NeuralRaceError
from neuralrace.explorer.presets import about
from neuralrace.explorer.problem import Setup, make_setup, times_of
from neuralrace.explorer.scene import MOST_FLIPS, SCENE, SCENES, TASKS, name_of, read_scene
from neuralrace.explorer.session import Session
from neuralrace.papers import names


def setup(session: Session | None = None, **given: object) -> Setup:
    return make_setup(session or Session(), read_scene(given))


def test_a_scene_has_defaults_and_survives_json() -> None:
    scene = read_scene({"task": "xor", "settings": {"delta": 1}, "flips": [[3, 1], [0, 2], [1, 1], [1, 1]]})
    assert scene["width"] == SCENE["width"]["default"]
    assert scene["flips"] == [[0, 2], [3, 1]]  # twice is none
    assert read_scene(json.loads(name_of(scene))) == scene
    for bounds in (SCENE, *TASKS.values()):
        for bound in bounds.values():
            assert all(bound["least"] <= stop <= bound["most"] for stop in bound.get("stops", ()))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "a scene must be an object"),
        ({"tusk": "xor"}, "a scene has no 'tusk'; did you mean 'task'"),
        ({"settings": {"detla": 1}}, "no setting 'detla' here; did you mean 'delta'"),
        ({"settings": {"delta": 4}}, "delta must be a finite number, at least 0 and at most 3; it was 4"),
        ({"width": 2.5}, "width must be a whole number; it was 2.5"),
        ({"network": "tanh"}, "network must be one of gated, relu"),
        ({"flips": [[0, -1]]}, "whole numbers from 0"),
        ({"flips": [[0, 0]] * (MOST_FLIPS + 1)}, f"at most {MOST_FLIPS} pairs"),
    ],
)
def test_a_mistake_is_refused_with_its_bound(given: object, said: str) -> None:
    with pytest.raises(NeuralRaceError, match=said):
        read_scene(given)


def test_a_flip_toggles_one_gate() -> None:
    plain, flipped = setup(task="xor", gating="xor"), setup(task="xor", gating="xor", flips=[[2, 1]])
    change = np.array(flipped.as_data()["grid"]) - np.array(plain.as_data()["grid"])
    assert change[2, 1] == 1
    assert np.abs(change).sum() == 1


def test_many_examples_share_a_row_where_their_gates_agree() -> None:
    routes = {"task": "routing", "settings": {"domains": 4, "trained": 3}, "gating": "shared + P=1"}
    found = setup(**routes)
    assert [len(row) for row in found.rows] == [4] * 12  # one for each trained route, four items each
    assert setup(**routes, flips=[[0, 0]]).problem.gates.nodes["h1"].sum() == 12 * 4 - 4


def test_depth_and_relu_keep_the_routes_of_a_task() -> None:
    for depth in (2, 4):
        found = setup(task="routing", gating="shared + P=1", depth=depth)
        assert {len(path.edges) for path in found.problem.architecture.paths()} == {depth}
        assert found.untrained is not None
        assert found.untrained.architecture == found.problem.architecture
    relu = setup(task="routing", network="relu", depth=3).problem
    assert set(relu.activations) == {"h1", "h2"}
    assert set(relu.gates.nodes) == {f"{side}{domain}" for side in "xy" for domain in range(4)}
    assert len(relu.task) == 4 * 2 * 4  # M K routes of four items


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"task": "xor", "gating": "xro"}, "no gating 'xro'; did you mean 'xor'"),
        ({"task": "xor", "flips": [[9, 0]]}, r"grid of 4 rows and 4 pathways; got \[9, 0\]"),
        ({"task": "xor", "gating": "one open pathway", "flips": [[k, 0] for k in range(4)]}, "all are closed"),
        ({"task": "iris", "network": "relu", "width": 256, "depth": 4, "steps": 20_000}, "steps x networks"),
        ({"task": "contextual", "network": "relu", "width": 256, "depth": 4, "seeds": 20}, "networks times weights"),
    ],
)
def test_a_problem_that_does_not_fit_is_refused(given: dict[str, object], said: str) -> None:
    scene = read_scene(given)
    with pytest.raises(NeuralRaceError, match=said):
        times_of(scene, make_setup(Session(), scene))


def test_ready_made_scenes_fit_and_stories_are_recorded() -> None:
    now = json.loads(json.dumps(about()))
    steps = [step for story in now["guided"] for step in story["steps"]]
    told = [scene for step in steps for scene in (step["scene"], *step["pins"])]
    presets = [preset["scene"] for preset in now["presets"]]
    session = Session()
    for scene in (*now["starts"].values(), *presets, *told):
        times_of(scene, make_setup(session, scene))
    without = {"architectures", "recurrent-modes"}  # the explorer has no networks with shared weights
    assert set(SCENES["presets"]) | without == set(names())
    recorded = json.loads((stories.RECORDS / "about.json").read_text(encoding="utf-8"))
    assert recorded["guided"] == now["guided"]
    runs = {name_of(one["scene"]): stories.RECORDS / one["file"] for one in recorded["recordings"]}
    for scene in told:
        run = json.loads(runs[name_of(scene)].read_text(encoding="utf-8"))
        assert run["forecast"]["scene"] == scene
        assert len(run["training"]["curve"]["time"]) == len(run["forecast"]["time"])
