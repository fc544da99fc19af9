"""A command that is killed in the middle leaves whole files only, and the next one ends as if nothing had happened.

One moment here; `tests/soak.py` tries many, of every command. For training see tests/training/test_checkpoint.py.
"""

import pytest

import kills
from neuralrace import cli


def test_reproduce_killed_and_started_again(tmp_path, capsys):
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    data = folder / "views-law"
    running = kills.kill_after("reproduce", folder, lambda: any(data.glob("*.nc")), 120)
    assert running  # it was killed while it wrote its data, or just after
    assert not (folder / "report.html").exists()
    kills.datasets(folder)  # what is there is whole
    for out in (folder, whole):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["reproduce", "--only", "views-law", "--size", "tiny", "--out", str(out)])
        assert stopped.value.code == 0
    assert kills.left_behind(folder) == []
    assert kills.same_results(folder, whole)
    assert "report:" in capsys.readouterr().out
