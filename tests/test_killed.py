"""A command that is killed in the middle leaves whole files only, and the next one ends as if nothing had happened.

One moment for each here; `tests/soak.py` tries many. For sweeps see tests/sweeps/test_sweeping.py, for checkpointed
training tests/training/test_checkpoint.py.
"""

import random
import time

import pytest

import kills
from neuralrace import cli


@pytest.mark.parametrize("name", ["reproduce", "explain"])  # `run` keeps its files as reproduce does
def test_killed_and_started_again(name, tmp_path, capsys):
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    moment, began = random.Random(name).uniform(0, 4), []

    def ready():  # so many seconds after its first file or folder: before that there is nothing to go wrong
        if not began and any(folder.iterdir()):
            began.append(time.monotonic())
        return bool(began) and time.monotonic() - began[0] > moment

    kills.kill_after(name, folder, ready, 120)
    kills.datasets(folder)  # what is there is whole
    for out in (folder, whole):
        in_turn = ["--workers", "1"] if name == "reproduce" and out == whole else []  # of two, the last counts
        with pytest.raises(SystemExit) as stopped:
            cli.main([*kills.COMMANDS[name].arguments(out)[2:], *in_turn])
        assert stopped.value.code == 0, capsys.readouterr().err
    assert kills.left_behind(folder) == []
    assert kills.same_results(folder, whole)
