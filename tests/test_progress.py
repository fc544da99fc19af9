import io

import pytest
from rich.console import Console

from neuralrace import progress
from neuralrace.progress import Meter


def run(monkeypatch, *, terminal, patience=0.0, shown=True, total=4):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100, color_system=None)
    with Meter("training", total, shown=shown, console=console) as meter:
        for _ in range(4):
            meter.advance()
    return stream.getvalue()


def test_long_work_on_a_terminal_shows_a_bar(monkeypatch):
    written = run(monkeypatch, terminal=True)
    assert "training" in written
    assert "%" in written


@pytest.mark.parametrize(
    "options",
    [
        {"terminal": False},
        {"terminal": True, "patience": 60.0},
        {"terminal": True, "shown": False},
        {"terminal": True, "total": 0.5},  # done with the first piece
    ],
)
def test_silent_when_piped_short_or_not_wanted(monkeypatch, options):
    assert run(monkeypatch, **options) == ""


@pytest.mark.parametrize(("seconds", "expected"), [(-1.0, [1, 2, 3, 4]), (60.0, [4])])
def test_in_lines_when_piped_and_asked_for(monkeypatch, seconds, expected):
    monkeypatch.setattr(progress, "LINES", seconds)
    stream = io.StringIO()
    with Meter("sweep", 4, console=Console(file=stream, width=100), lines=True) as meter:
        for _ in range(4):
            meter.advance()
    assert stream.getvalue().splitlines() == [f"sweep: {done} of 4, 0 s" for done in expected]
