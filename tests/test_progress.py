import io

import pytest
from rich.console import Console

from neuralrace import progress
from neuralrace.progress import Meter


def run(monkeypatch, terminal, patience=0.0, seconds=10.0, total=4, **options):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setattr(progress, "LINES", seconds)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100, color_system=None)
    with Meter("training", total, console=console, **options) as meter:
        for _ in range(4):
            meter.advance()
    return stream.getvalue()


def test_long_work_on_a_terminal_shows_a_bar(monkeypatch):
    written = run(monkeypatch, True)
    assert "training" in written
    assert "%" in written


@pytest.mark.parametrize(
    ("terminal", "options"), [(False, {}), (True, {"patience": 60.0}), (True, {"shown": False}), (True, {"total": 0.5})]
)
def test_silent_when_piped_short_or_not_wanted(monkeypatch, terminal, options):
    assert run(monkeypatch, terminal, **options) == ""


@pytest.mark.parametrize(("seconds", "expected"), [(-1.0, [1, 2, 3, 4]), (60.0, [4])])
def test_in_lines_when_piped_and_asked_for(monkeypatch, seconds, expected):
    written = run(monkeypatch, False, seconds=seconds, lines=True)
    assert written.splitlines() == [f"training: {done} of 4, 0 s" for done in expected]
