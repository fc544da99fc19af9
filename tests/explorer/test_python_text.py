"""Copy as Python: the text is run, and gives the forecast that the page shows."""

from pathlib import Path

import numpy as np
import pytest

from explorer_scene import SMALL
from neuralrace.explorer.answers import forecast_data, forecast_of, stage_of
from neuralrace.explorer.desk import Desk
from neuralrace.explorer.presets import PRESETS, STARTS
from neuralrace.explorer.python_text import python_text
from neuralrace.explorer.scene import Scene
from neuralrace.explorer.stage import law_of


@pytest.mark.parametrize(
    "given",
    [SMALL, SMALL | {"flips": [[0, 1]], "settings": {"delta": 0.25}}, SMALL | {"network": "relu", "steps": 30}],
    ids=["named", "gates of one's own", "relu"],
)
def test_the_text_gives_the_same_forecast(
    given: dict, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    desk, scene = Desk(), Scene.read(given)
    namespace: dict = {"__name__": "copied"}
    exec(compile(python_text(desk, scene), "copied.py", "exec"), namespace)
    shown = forecast_data(desk, scene)
    there = np.interp(shown["time"], namespace["forecast"].time, namespace["forecast"].loss)
    # the page looks at fewer moments, between which an adaptive method interpolates: to its tolerance
    assert np.allclose(there, forecast_of(desk, scene).loss, rtol=1e-3, atol=1e-9)
    assert "method: " in capsys.readouterr().out
    assert (tmp_path / "comparison.png").stat().st_size > 1000
    desk.close()


SCENES = {
    **STARTS,
    "deep": {"task": "contextual", "gating": "common + single, items only", "depth": 3},
    "gates of one's own": {"task": "routing", "gating": "shared", "depth": 3, "flips": [[0, 0]]},
    "images": PRESETS["saxe2022-fig7"][0],
    "rectified images": PRESETS["saxe2022-fig9"][0],
}


@pytest.mark.parametrize("given", SCENES.values(), ids=SCENES)
def test_every_card_has_a_text_that_makes_its_problem(
    given: dict, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    desk = Desk()
    if given["task"] == "table":
        Path("table.csv").write_text("a,b,c\n1,0,1\n0,1,-1\n")
        given = given | {"settings": {"table": desk.tables.add(Path("table.csv").read_text())["table"], "targets": 1}}
    scene, namespace = Scene.read(given), {}
    exec(compile(python_text(desk, scene).partition("run = ")[0], "copied.py", "exec"), namespace)
    wanted, made = stage_of(desk, scene).problem, namespace["problem"]
    assert made.architecture == wanted.architecture
    assert made.activations == wanted.activations
    for part in ("inputs", "targets"):
        mine, theirs = getattr(made.task, part), getattr(wanted.task, part)
        assert {n: a.tolist() for n, a in mine.items()} == {n: a.tolist() for n, a in theirs.items()}
    assert {n: g.tolist() for n, g in made.gates.nodes.items()} == {
        n: g.tolist() for n, g in wanted.gates.nodes.items()
    }
    assert namespace["law"] == law_of(scene)
    desk.close()
