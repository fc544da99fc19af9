"""The command line, as a user meets it: what it prints where, and with which status it ends."""

import ctypes
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import neuralrace as nr
from neuralrace import cli
from neuralrace.papers.experiment import Result

NAME = "saxe2022-fig3"


def ending(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    return int(stopped.value.code or 0)


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, key, name in ((["list"], "papers", NAME), (["list", "--tasks"], "tasks", "contextual")):
        assert ending(arguments) == 0
        assert name in capsys.readouterr().out
        assert ending([*arguments, "--json"]) == 0
        assert name in [entry["name"] for entry in json.loads(capsys.readouterr().out)[key]]
    assert ending(["list", NAME, "--json"]) == 0
    assert "steps" in [entry["setting"] for entry in json.loads(capsys.readouterr().out)["settings"]]


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert ending(["--version"]) == 0
    assert capsys.readouterr().out == f"neuralrace {importlib.metadata.version('neuralrace')}\n"
    for arguments in (["--help"], []):
        assert ending(arguments) == 0
        assert "reproduce" in capsys.readouterr().out


def test_run_prints_claims_and_keeps_its_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = ["run", NAME, "--size", "tiny", "--seeds", "1", "--set", "steps=20", "--out", str(tmp_path)]
    assert ending(command) == 0
    printed = capsys.readouterr().out
    assert "paper: 2, not judged at this size" in printed
    assert "where the settings are not the paper's: The text gives no initial strength" in printed
    assert {path.name for path in (tmp_path / NAME).iterdir()} == {"data.nc", "claims.json", "figure.png"}


def test_json_is_alone_on_standard_output_and_only_takes_patterns(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["reproduce", "--only", "saxe*-fig3", "--only", NAME, "--size", "tiny", "--out", str(tmp_path), "--json"]
    assert ending(command) == 0
    printed = capsys.readouterr()
    assert [result["experiment"] for result in json.loads(printed.out)["results"]] == [NAME]
    assert NAME in printed.err
    assert (tmp_path / "report.html").is_file()


def test_explain_passes_what_it_is_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work itself is tested with `explain`; here something that answers like a report stands for it."""
    report = MagicMock(spec=nr.Explanation, summary=lambda: {"verdict": "explained"})
    report.save.side_effect = lambda out: out / "report.html"
    explain = MagicMock(return_value=report)
    monkeypatch.setattr("neuralrace.explanation.explain", explain)
    command = ["explain", "contextual", "--set", "contexts=2", "--hidden", "9", "--hidden", "8", "--seeds", "3"]
    command += ["--key", "-1"]
    assert ending([*command, "--out", str(tmp_path / "out"), "--json"]) == 0
    page = str(tmp_path / "out" / "report.html")
    assert json.loads(capsys.readouterr().out) == {"verdict": "explained", "page": page}
    (named,), given = explain.call_args.args, explain.call_args.kwargs
    assert (named.settings["contexts"], given["hidden"], given["seeds"], given["key"]) == (2, (9, 8), 3, -1)
    options = ["--target", "a", "--drop", "b", "--drop", "c", "--missing", "mean", "--test", ".2", "--raw"]
    ending(["explain", "t.csv", *options])
    given = explain.call_args.kwargs
    expected = {"target": ["a"], "drop": ["b", "c"], "missing": "mean", "test": 0.2, "raw": True}
    assert {name: given[name] for name in expected} == expected
    assert "standardize" not in given


def test_a_verdict_other_than_recorded_is_status_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tiny = nr.papers.run(NAME, size="tiny")
    judged = Result(tiny.experiment, "full", tiny.settings, tiny.data + 1.0)  # nothing learned
    monkeypatch.setattr(nr.papers, "run", lambda *args, **kwargs: judged)
    assert ending(["run", NAME]) == 1
    printed = capsys.readouterr().out
    assert "paper: 1 holds, 1 refuted" in printed
    assert "refuted, other than recorded" in printed
    assert ending(["reproduce", "--only", NAME, "--out", str(tmp_path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["counts"]["paper"] == {"hold": 1, "do_not": 1, "other_than_recorded": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "saxe2022-fig33"], "did you mean 'saxe2022-fig3'"),
        (["bogus"], "No such command 'bogus'"),
        (["run", NAME, "--size", "huge"], "size must be one of full, tiny; it was 'huge'"),
        (["run", NAME, "--set", "steps"], "--set needs key=value; it was 'steps'"),
        (["run", NAME, "--set", "steps=3", "--set", "steps=4"], "setting 'steps' is given twice"),
        (["run", NAME, "--set", "steps=few"], "'steps' must be a whole number"),
        (["sweep", NAME], "a sweep needs at least one setting with its values, each setting once; 'saxe2022-fig3' has"),
        (["reproduce", "--only", "nothing"], "no experiment 'nothing'"),
        (["run", NAME, "--out", ""], "out must be the name of a folder; it was empty"),
    ],
)
def test_a_mistake_is_one_line_and_status_two(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ending(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.startswith("neuralrace: ")
    assert printed.err.count("\n") == 1
    assert ending([*arguments, "--json"]) == 2
    assert json.loads(capsys.readouterr().out) == {"status": 2, "error": printed.err[len("neuralrace: ") : -1]}


# accidents


def test_a_fault_of_ours_is_status_three_with_its_details_in_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(arguments: list[str]) -> Any:
        raise ValueError("two\nlines")

    monkeypatch.setattr(cli, "perform", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ending(["run", NAME]) == 3
    printed = capsys.readouterr()
    (log,) = tmp_path.glob("neuralrace-*.log")
    assert printed.err == f"neuralrace: internal error: ValueError: two lines (details: {log})\n"
    assert printed.out == ""
    assert "Traceback" in log.read_text(encoding="utf-8")
    assert "in broken" in log.read_text(encoding="utf-8")


def test_json_stays_alone_whatever_is_written_below(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As LAPACK does, whose words come from C and past Python's own streams."""

    def noisy(arguments: list[str]) -> Any:
        print("from Python")
        ctypes.CDLL(None).printf(b" ** On entry to DLASCL parameter number 4 had an illegal value\n")
        return 0, {"verdict": "fine"}

    monkeypatch.setattr(cli, "perform", noisy)
    assert ending(["explain", "xor", "--json"]) == 0
    printed = capfd.readouterr()
    assert json.loads(printed.out) == {"verdict": "fine"}
    assert "DLASCL" in printed.err
    assert "from Python" in printed.err


# speed, measured as what is imported

HEAVY = {"jax", "matplotlib", "sklearn", "scipy", "xarray", "diffrax", "networkx", "optax", "numpy", "pandas"}
HEAVY |= {"dask", "distributed"}


@pytest.mark.parametrize(
    "code",
    [
        "import neuralrace; neuralrace.NeuralRaceError; neuralrace.papers.names()",
        "from neuralrace.cli import main; main(['--help'])",
        "from neuralrace.cli import main; main(['list', '--json'])",
        "from neuralrace.cli import main; main(['bogus'])",
    ],
)
def test_what_only_answers_imports_nothing_heavy(code: str) -> None:
    tell = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    ran = subprocess.run([sys.executable, "-c", tell + code], capture_output=True, text=True, check=False)
    imported = set(ran.stderr.splitlines()[-1].split())
    assert "neuralrace" in imported
    assert not imported & HEAVY


AT_EXIT = """
import atexit, os, signal, sys, threading
from neuralrace import cli

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(20)

def interrupted():
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores Ctrl-C
if sys.argv[1] == "130":
    cli.perform = lambda arguments: interrupted()
atexit.register(interrupt)
sys.argv = ["neuralrace", "--version"]
cli.main()
"""


@pytest.mark.parametrize(("status", "said"), [(0, ""), (130, "neuralrace: interrupted\n")])
def test_an_interruption_at_exit_leaves_no_trace(status: int, said: str) -> None:
    ran = subprocess.run([sys.executable, "-c", AT_EXIT, str(status)], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (status, said)
    assert ran.stdout.startswith("neuralrace ") == (status == 0)


def test_names_are_completed_by_the_shell() -> None:
    for words, names in (
        ("run views-l", "views-law"),
        ("explain xo", "xor"),
        ("reproduce --only views-l", "views-law"),
    ):
        asked = {"COMP_WORDS": f"neuralrace {words}", "COMP_CWORD": str(len(words.split()))}
        command, shell = [sys.executable, "-m", "neuralrace"], {"_NEURALRACE_COMPLETE": "complete_bash"}
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | asked | shell)
        assert ran.stdout.split() == [names]


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = [sys.executable, "-m", "neuralrace", "list", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.close()
        assert "Error" not in ran.stderr.read()
    assert ran.returncode == 0
