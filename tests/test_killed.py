"""A command that is killed in the middle leaves whole files only, and the next one ends as if nothing had happened.

One moment here; `tests/soak.py` tries many, of every command. For checkpointed training see
tests/training/test_checkpoint.py.
"""

import pytest

import kills
from neuralrace import cli


def test_explain_is_killed_and_started_again(tmp_path, capsys):
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    kills.kill_after("explain", folder, kills.soon_after_its_first_file("explain", folder), 120)
    kills.datasets(folder)  # what is there is whole
    for out in (folder, whole):
        with pytest.raises(SystemExit) as stopped:
            cli.main(kills.COMMANDS["explain"].arguments(out)[2:])
        assert stopped.value.code == 0, capsys.readouterr().err
    assert kills.same_results(folder, whole)
