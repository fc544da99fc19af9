"""Every bad input of the corpus, a call or a command line per row, gets one clear line and loses nothing.

The suite takes some rows of each kind, tests/soak.py takes all of them.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import bad_files
import neuralrace as nr
from neuralrace import cli
from neuralrace.training.rules import Descent

TABLES = Path(__file__).parent / "corpus"


EVERY = 1 if settings.default.max_examples > 100 else 11  # the profile of the soak has more


def rows(name: str) -> list[str]:
    return (TABLES / name).read_text(encoding="utf-8").splitlines()[::EVERY]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bad_files.make(tmp_path_factory.mktemp("bad"))


@pytest.fixture(scope="module")
def names(folder: Path) -> dict[str, Any]:
    """What the calls of the table speak of."""
    inputs, targets = np.array([[1.0, 0], [0, 1], [1, 1], [2, 1]]), np.array([[1.0], [0], [1], [2]])
    task = nr.Task({"x": inputs}, {"y": targets})
    chain = nr.Architecture({"x": 2, "h": 3, "y": 1}, [("x", "h"), ("h", "y")])
    relu, law, linear = nr.ReLUNetwork(task, 3), nr.initial.gaussian(0.1), nr.Problem(chain, task)
    weights = {("x", "h"): np.ones((3, 2)), ("h", "y"): np.ones((1, 3))}
    images = nr.tasks.routed_images("digits", 3, 2)
    return {
        **{"nr": nr, "np": np, "X": inputs, "Y": targets, "TASK": task, "CHAIN": chain, "LAW": law, "RELU": relu},
        "LINEAR": linear,
        "FORECAST": nr.predict(linear, weights, [0.0], method="flow"),
        "BATCH": nr.batches.Batch({"x": inputs}, {"y": targets}),
        "IMAGES": images,
        "ROUTED": nr.RoutedNetwork(images, 4),
        "W": weights,
        "FOLDER": folder,
        "RUN": nr.train(relu, law, 0.1, 5, progress=False),
        "Descent": Descent,
        "DIVERGED": nr.train(relu, law, 1e3, 50, record="gate_patterns"),
        "GATED": nr.train(relu, law, 0.1, 5, record="gate_patterns", progress=False),
    }


@pytest.mark.parametrize("call", rows("calls.txt"), ids=lambda text: text[:60])
def test_a_bad_call(call: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(nr.NeuralRaceError) as caught:
        eval(call, dict(names))
    assert len(str(caught.value)) > 20
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", rows("command_lines.txt"), ids=lambda text: text[:60])
def test_a_bad_command_line(
    line: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    with pytest.raises(SystemExit) as stopped:
        cli.main(shlex.split(line.replace("{files}", str(folder))))
    printed = capsys.readouterr()
    assert stopped.value.code == 2
    assert printed.err.startswith("neuralrace: ")
    assert printed.err.count("\n") == 1
    assert len(printed.err) > 30
    if "--json" in line:
        assert json.loads(printed.out)["error"] in printed.err
    else:
        assert printed.out == ""
    assert sorted(folder.iterdir()) == before  # nothing was begun
