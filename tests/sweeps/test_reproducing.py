"""Experiments side by side. That killed, continued and in turn they end with the same files: see test_accidents.py."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import distributed
import pytest

from neuralrace import cli
from neuralrace.cluster import ClusterError, interruption_deferred
from neuralrace.papers.registry import FIGURES
from neuralrace.sweeps import dispatch, reproducing, work
from neuralrace.sweeps.reproducing import reproduced

NAMES = ("jarvis2025-fig5", "saxe2022-fig3", "views-law")
LOST = ValueError("a network is lost")
SIDE_BY_SIDE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a test runs in the background
from neuralrace.cli import main
main(["reproduce", "--only", "views-law", "--only", "saxe2022-fig3", "--size", "tiny", "--workers", "2", *sys.argv[1:]])
"""


class Made(str):
    """A result that is only a name."""

    def save(self, *arguments):
        """Keep nothing."""


def one_fails(name, *args, **options):
    if name == "saxe2022-fig3":
        raise LOST
    return Made(f"the result of {name}")


def test_the_longest_start_first_and_one_that_fails_leaves_the_others_alone(monkeypatch):
    monkeypatch.setattr(work, "run", one_fails)
    begun, names, task = [], NAMES[::-1], (work.Keep("tiny", "out", ("png",), len), None)
    alone = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.Client(**alone, set_as_default=False) as client:
        found = dict(dispatch.finished_experiments(client, names, begun.append, *task))
        assert begun == sorted(names, key=lambda name: -FIGURES[name].seconds)
        assert begun[0] == "jarvis2025-fig5"
        assert str(found.pop("saxe2022-fig3")) == str(LOST)
        assert found == {name: len(one_fails(name)) for name in ("jarvis2025-fig5", "views-law")}
        monkeypatch.setattr(dispatch, "versions", lambda: {"code": "another"})
        with pytest.raises(ClusterError, match="must run the code that started the work, another"):
            list(dispatch.finished_experiments(client, names[:1], begun.append, *task))


@pytest.mark.parametrize("workers", [1, 2])
def test_they_are_told_in_the_order_asked(workers, monkeypatch, tmp_path):
    made = [len(one_fails(name)) for name in ("views-law", "jarvis2025-fig5")]
    ended = [("views-law", made[0]), ("saxe2022-fig3", LOST), ("jarvis2025-fig5", made[1])]
    monkeypatch.setattr(reproducing, "connected", lambda *given, **options: contextlib.nullcontext())
    monkeypatch.setattr(reproducing, "finished_experiments", lambda *task: iter(ended))
    monkeypatch.setattr(work, "run", one_fails)
    told = [f"the result of {NAMES[0]}", LOST, f"the result of {NAMES[2]}"]
    found = [outcome[:2] for outcome in reproduced(NAMES, "tiny", tmp_path, ("png",), workers, also=len)]
    assert found == list(zip(NAMES, told, strict=True))


def test_a_fault_is_told_after_the_others_are_kept(monkeypatch, tmp_path, capsys):
    true = work.run
    monkeypatch.setattr(
        work, "run", lambda name, *a, **o: one_fails(name) if name != "views-law" else true(name, *a, **o)
    )
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    only = ["--only", "saxe2022-fig3", "--only", "views-law", "--size", "tiny", "--workers", "1"]
    with pytest.raises(SystemExit) as stopped:
        cli.main(["reproduce", *only, "--out", str(tmp_path / "out")])
    assert stopped.value.code == 3
    told = capsys.readouterr().err
    assert "saxe2022-fig3 failed: ValueError: a network is lost\n" in told
    assert "neuralrace: a fault of ours: ValueError: a network is lost (details: " in told
    assert (tmp_path / "out/views-law/claims.json").is_file()
    assert "views-law" in (tmp_path / "out/report.html").read_text(encoding="utf-8")


def test_as_many_processes_as_have_a_core_and_memory(monkeypatch):
    monkeypatch.setattr(reproducing, "cores", lambda: 4)
    for free, count in ((None, 4), (100 * reproducing.NEED, 4), (2.5 * reproducing.NEED, 2), (0, 1)):
        monkeypatch.setattr(reproducing, "free_memory", lambda free=free: free)
        assert reproducing._default(26) == count
    monkeypatch.setattr(reproducing, "free_memory", lambda: None)
    assert reproducing._default(3) == 3
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert reproducing._default(26) == 1


def interrupted(times, check_at_once):
    """What is done although an interruption comes, and whether one is raised."""
    done = []
    try:
        with interruption_deferred() as check:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            done.append("made")
            if check_at_once:
                check()
            done.append("waited")
    except KeyboardInterrupt:
        return [*done, "interrupted"]
    return done


def test_an_interruption_waits_for_what_must_not_be_half_made():
    """As a future of dask, whose end complains where it was not begun."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert interrupted(0, True) == ["made", "waited"]
        assert interrupted(1, True) == ["made", "interrupted"]
        assert interrupted(1, False) == ["made", "waited", "interrupted"]
        assert interrupted(2, False) == ["interrupted"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interruption_leaves_no_process_behind(tmp_path):
    """As from a keyboard: it reaches the workers too."""
    command = [sys.executable, "-c", SIDE_BY_SIDE, "--out", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        assert [process.stderr.readline() for _ in range(2)] == ["[1/2] views-law\n", "[2/2] saxe2022-fig3\n"]
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (130, "neuralrace: interrupted\n")
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("a process is left")
