"""Stages: the problem of a scene, its grid, and what is refused before anything is computed."""

import numpy as np
import pytest

from neuralrace.errors import NeuralRaceError
from neuralrace.explorer.presets import GUIDED, PRESETS, STARTS, about
from neuralrace.explorer.scene import Scene
from neuralrace.explorer.stage import Stage, make_stage, schedule_of
from neuralrace.explorer.tables import Tables
from neuralrace.papers import names


def stage(tables: Tables | None = None, **given: object) -> Stage:
    return make_stage(Scene.read(given), tables or Tables())


def test_a_flip_turns_one_gate_round_and_no_other() -> None:
    plain, flipped = stage(task="xor", gating="xor"), stage(task="xor", gating="xor", flips=[[2, 1]])
    change = np.array(flipped.grid) - np.array(plain.grid)
    assert change[2, 1] == 1
    assert np.abs(change).sum() == 1
    assert plain.named
    assert not flipped.named


def test_many_examples_share_a_row_where_their_gates_agree() -> None:
    found = stage(task="routing", settings={"domains": 4, "trained": 3}, gating="shared + P=1")
    assert len(found.rows) == 12  # one for each trained route, four items each
    assert {len(row) for row in found.rows} == {4}
    flipped = stage(task="routing", settings={"domains": 4, "trained": 3}, gating="shared + P=1", flips=[[0, 0]])
    assert flipped.problem.gates.nodes["h1"].sum() == 12 * 4 - 4


def test_depth_is_the_layers_of_weights_behind_each_gate() -> None:
    deep = stage(task="xor", gating="xor", depth=4).problem
    assert [len(path.edges) for path in deep.architecture.paths()] == [4] * 4
    assert set(deep.gates.nodes) == {"h0", "h1", "h2", "h3"}
    plain = stage(task="routing", gating="shared + P=1", depth=3)
    assert plain.named
    for depth in (2, 4):
        found = stage(task="routing", gating="shared + P=1", depth=depth)
        assert {len(path.edges) for path in found.problem.architecture.paths()} == {depth}
        assert found.problem.gates.nodes.keys() == plain.problem.gates.nodes.keys()
        assert found.whole is not None
        assert found.whole.architecture == found.problem.architecture


def test_a_rectified_network_of_many_domains_stays_routed() -> None:
    found = stage(task="routing", settings={"items": "digits"}, network="relu", depth=3)
    assert set(found.problem.activations) == {"h1", "h2"}
    assert set(found.problem.gates.nodes) == {f"{side}{domain}" for side in "xy" for domain in range(4)}
    assert len(found.problem.task) == 4 * 2 * 50  # M K routes of fifty images


def test_a_table_of_ones_own() -> None:
    tables = Tables()
    told = tables.add("a,b,c\n1,0,1\n0,1,-1\n")
    assert told["rows"] == 2
    found = stage(tables, task="table", settings={"table": told["table"], "targets": 1})
    assert found.problem.task.inputs["x"].tolist() == [[1, 0], [0, 1]]
    assert found.problem.task.targets["y"].tolist() == [[1], [-1]]
    for text, said in [
        ("1,2\n3\n", "the table .*line 2"),
        ("1\n2\n", "the table"),
        ("1,2\n" * 2001, "a table may have 2000 rows"),
        ("", "the table .*empty"),
    ]:
        with pytest.raises(NeuralRaceError, match=said):
            tables.add(text)
    with pytest.raises(NeuralRaceError, match="a table must be loaded first"):
        stage(tables, task="table", settings={"table": "gone"})
    with pytest.raises(NeuralRaceError, match="the table"):
        stage(tables, task="table", settings={"table": told["table"], "targets": 3})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"task": "xor", "gating": "xro"}, "no gating 'xro'; did you mean 'xor'"),
        (
            {"task": "routing", "settings": {"domains": 3, "trained": 4}},
            "trained must be at most the number of domains",
        ),
        ({"task": "routing", "settings": {"domains": 7, "items": "digits"}}, "between at most 6 domains here; 7 came"),
        ({"task": "xor", "flips": [[9, 0]]}, r"grid of 4 rows and 4 pathways; \[9, 0\] came"),
        ({"task": "xor", "gating": "one open pathway", "flips": [[k, 0] for k in range(4)]}, "all are closed"),
    ],
)
def test_what_does_not_fit_is_told(given: dict[str, object], said: str) -> None:
    with pytest.raises(NeuralRaceError, match=said):
        stage(**given)


def test_a_training_that_would_take_too_long_is_refused_with_the_bound() -> None:
    scene = Scene.read({"task": "digits", "network": "relu", "width": 256, "depth": 4, "steps": 20_000, "seeds": 1})
    with pytest.raises(NeuralRaceError, match=r"steps x networks x examples x weights must be at most 2e\+11 here"):
        schedule_of(scene, make_stage(scene, Tables()))
    wide = Scene.read({"task": "contextual", "network": "relu", "width": 256, "depth": 4, "seeds": 20})
    with pytest.raises(NeuralRaceError, match="networks times weights must be at most"):
        schedule_of(wide, make_stage(wide, Tables()))


def test_every_ready_made_scene_can_be_staged() -> None:
    steps = [step for guided in GUIDED for step in guided["steps"]]
    scenes = [*STARTS.values(), *(scene for scene, _ in PRESETS.values()), *(step["scene"] for step in steps)]
    for given in scenes:
        scene = Scene.read(given)
        if scene.task != "table":
            schedule_of(scene, make_stage(scene, Tables()))
    assert len(GUIDED) == 5
    told = about()
    assert {preset["name"] for preset in told["presets"]} == set(names())
