"""Copy as Python: the text is run, and gives the forecast that the page shows."""

from pathlib import Path

import numpy as np
import pytest

from explorer_scene import SMALL
from neuralrace.explorer.answers import forecast_data, forecast_of
from neuralrace.explorer.desk import Desk
from neuralrace.explorer.python_text import python_text
from neuralrace.explorer.scene import Scene


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


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"task": "digits"}, "task = nr.Task({"),
        ({"task": "contextual", "gating": "common + single, items only", "depth": 3}, "'item': 8"),
        ({"task": "routing", "gating": "shared", "flips": [[0, 0]]}, "named.problem('shared', hidden=1).task"),
    ],
)
def test_every_kind_of_scene_has_a_text_that_makes_the_same_problem(given: dict, line: str) -> None:
    desk, scene = Desk(), Scene.read(given)
    text = python_text(desk, scene)
    assert line in text
    namespace: dict = {}
    exec(compile(text.partition("law = ")[0], "copied.py", "exec"), namespace)
    from neuralrace.explorer.answers import stage_of

    problem = stage_of(desk, scene).problem
    assert namespace["problem"].architecture == problem.architecture
    assert {n: g.tolist() for n, g in namespace["problem"].gates.nodes.items()} == {
        n: g.tolist() for n, g in problem.gates.nodes.items()
    }
    desk.close()
