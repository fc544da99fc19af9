import io
import re
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

import neuralrace as nr
from neuralrace import progress
from neuralrace.progress import Meter


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "LINES", 0.01)
    monkeypatch.setattr(progress, "FRAME", 0.01)


def until(stream, pattern):
    """Wait until something is written."""
    for _ in range(1000):
        if re.search(pattern, stream.getvalue()):
            return stream.getvalue()
        time.sleep(0.01)
    raise AssertionError(f"{pattern} was not written, only {stream.getvalue()!r}")


def console(terminal=False):
    return Console(file=io.StringIO(), force_terminal=terminal, width=100)


def test_long_work_on_a_terminal_shows_a_bar_and_leaves_nothing_behind():
    screen, before = console(terminal=True), set(threading.enumerate())

    def fail():
        with Meter("training", 8000, "steps", console=screen) as meter:
            meter.advance(400)
            until(screen.file, "training .*━.* 400 of 8,000 steps, 0 s")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    written = screen.file.getvalue()
    assert written.index("\x1b[?25l") < written.index("\x1b[?25h")  # the cursor is hidden and shown again
    assert written.rstrip().endswith("\x1b[2K")  # the bar is erased
    assert set(threading.enumerate()) <= before


def test_lines_where_there_is_no_terminal():
    page = console()
    with Meter("predicting", console=page) as outer:
        until(page.file, "^predicting: 0 s\n")
        outer.label = "predicting by flow"
        until(page.file, "predicting by flow: 0 s\n")
        with Meter("training", 4, "steps", console=console()) as inner:  # shown by the outermost
            inner.advance()
            until(page.file, "predicting by flow, training: 1 of 4 steps, 0 s\n")
        until(page.file, "steps, 0 s\npredicting by flow: 0 s\n")


@pytest.mark.parametrize(("patience", "shown"), [(60.0, True), (0.0, False)])
def test_silent_when_short_or_not_wanted(monkeypatch, patience, shown):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    page = console(terminal=True)
    with Meter("training", 4, shown=shown, console=page) as meter:
        meter.advance()
        time.sleep(0.05)
    assert page.file.getvalue() == ""


def test_training_forecasts_and_replays_say_what_they_do(capsys):
    network, initial = nr.ReLUNetwork(nr.tasks.xor().task, 5), nr.initial.gaussian(0.2)
    work = {
        "training": lambda **options: nr.train(network, initial, 0.1, 20, record="gate_patterns", **options),
        "predicting": lambda **options: nr.predict(network, initial, [0.0, 3.0], draws=2, **options),
    }
    run = work["training"](progress=False)
    work["replaying modules"] = lambda **options: nr.reln.discover(run, 1, **options)
    for label, call in work.items():
        call(progress=False)
        assert capsys.readouterr().err == ""
        call()
        assert label in capsys.readouterr().err


WORKER = """
import multiprocessing, time
from neuralrace import progress

def work():
    progress.PATIENCE = 0.0
    with progress.Meter("training"):
        time.sleep(0.2)

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start()
    child.join()
"""


def test_workers_are_silent(tmp_path):
    (tmp_path / "work.py").write_text(WORKER)
    done = subprocess.run([sys.executable, tmp_path / "work.py"], capture_output=True, text=True, check=True)
    assert done.stderr == done.stdout == ""
