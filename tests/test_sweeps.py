"""Sweeps and figures side by side: results, resuming, failures and interruptions."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import xarray

import neuralrace as nr
from neuralrace import cli, workers
from neuralrace.errors import NeuralRaceError, ResourceError
from neuralrace.io import load_dataset
from neuralrace.papers import run

NAME, TINY = "saxe2022-fig3", {"size": "tiny", "progress": False}
NOWHERE = "none://here"  # an address at which nothing can be computed


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A dask cluster in this process."""
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as opened:
        yield opened


def work(number: int) -> int:
    """Return the square; some numbers fail, and one kills its worker."""
    if number == 3:
        raise ValueError("three")
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def test_a_failure_leaves_the_others_and_a_killed_worker_says_what_to_do() -> None:
    def run_all() -> None:
        with workers.processes(9, 1) as pool:
            futures = [pool.submit(work, number) for number in range(6)]
            with pytest.raises(ValueError, match="three"):
                futures[3].result()
            assert [futures[number].result() for number in (0, 1, 2, 4)] == [0, 1, 4, 16]
            futures[5].result()

    with pytest.raises(ResourceError, match=r"a worker was killed, .* with fewer"):
        run_all()


def test_a_sweep_resumes_and_its_points_are_the_figure_itself(tmp_path: Path, client: Any) -> None:
    """First on a dask client, then in a process."""
    axes = {"std": [0.01, 0.02], "hidden": [4]}
    swept = nr.sweep(NAME, axes, out=tmp_path, seeds=1, on=client, **TINY).table
    assert set(swept[["std", "hidden"]].itertuples(index=False, name=None)) == {(0.01, 4), (0.02, 4)}
    assert swept["failed"].isna().all()
    alone = run(NAME, "tiny", changes={"std": 0.02, "hidden": 4, "seeds": 1})
    here = swept[swept["std"] == 0.02]
    point = load_dataset(here["file"].iloc[0])
    for name in alone.data.data_vars:
        if alone.data[name].dtype.kind == "f":
            np.testing.assert_allclose(point[name], alone.data[name], rtol=1e-9, atol=1e-12)
    numbers = [n for claim in alone.claims for q in claim.quantities for n in np.ravel(q.values) if np.isfinite(n)]
    assert here["lowest"].min() == pytest.approx(min(numbers), rel=1e-9)
    assert set(here["claim"]) == {claim.text for claim in alone.claims}
    files = sorted((tmp_path / "points").iterdir())
    times = [path.stat().st_mtime_ns for path in files]
    files[0].write_bytes(files[0].read_bytes()[:-40])  # a damaged point is computed again, the other is kept
    again = nr.sweep(NAME, axes, out=tmp_path, seeds=1, workers=1, **TINY).table
    pandas.testing.assert_frame_equal(again, swept, rtol=1e-9)
    assert [path.stat().st_mtime_ns != before for path, before in zip(files, times, strict=True)] == [True, False]
    columns = "std,hidden,claim,holds,quantity,lowest,highest,file,failed\n"
    assert (tmp_path / "data.csv").read_text().startswith(columns)


def test_networks_on_a_task_are_those_of_train_and_predict(
    tmp_path: Path, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"out": tmp_path, "seeds": 2, "progress": False}
    axes = {"hidden": [(8,)], "relative": [1.0], "learning_rate": [0.2], "steps": [60]}
    swept = nr.sweep(nr.tasks.xor(), axes, on=client, **options)
    network, initial = nr.ReLUNetwork(nr.tasks.xor().task, 8), nr.initial.relative(1.0)
    trained = nr.train(network, initial, 0.2, 60, seeds=2, at=range(61), progress=False)
    forecast = nr.predict(network, initial, trained.time, learning_rate=0.2)
    found, curves = swept.table.loc[0], swept.data(0)
    assert found["hidden"] == 8
    np.testing.assert_allclose(curves["run"], trained.loss, rtol=1e-9)
    np.testing.assert_allclose(curves["forecast"], forecast.losses, rtol=1e-9)
    assert found["loss"] == pytest.approx(np.median(trained.loss[:, -1]))
    half = np.median(
        [np.interp(-0.5 * loss[0], -loss, trained.time) for loss in trained.loss]
    )  # they fall all the time
    assert found["half_time"] == pytest.approx(half)
    assert half < trained.time[-1]
    assert found["half_step"] == np.ceil(half / 0.2)
    assert found["normalized_l1"] == pytest.approx(nr.agreement(forecast, trained).normalized_l1)
    # the data decide, not who holds them: nothing is left to compute
    again = nr.sweep("xor", axes | {"hidden": "8"}, on=NOWHERE, **options)
    pandas.testing.assert_frame_equal(again.table, swept.table)
    with pytest.raises(ResourceError, match="could not connect"):
        nr.sweep(nr.tasks.xor(0.5), axes, on=NOWHERE, **options)
    words = ["hidden=8", "relative=1", "learning_rate=.2", "steps=60"]
    words = ["sweep", "xor", *(part for word in words for part in ("--set", word)), "--out", str(tmp_path), "--json"]
    with pytest.raises(SystemExit, match="0"):
        cli.main([*words, "--seeds", "2", "--on", NOWHERE])
    told = json.loads(capsys.readouterr().out)
    assert (told["task"], told["points"], told["failed"]) == ("xor", 1, [])
    assert told["rows"][0]["loss"] == pytest.approx(found["loss"])
    assert Path(told["figure"]).is_file()


def one(kind: str, size: int) -> Any:
    """Return what functions may return, and what not."""
    problem, initial = nr.tasks.xor().problem("xor", hidden=size), nr.initial.gaussian(0.1)
    if kind == "numbers":
        return {"double": 2 * size, "word": kind}
    if kind == "dataset":
        return xarray.Dataset({"double": 2.0 * size, "row": ("x", np.arange(size))})
    if kind == "fails":
        raise ValueError("two")
    trained = nr.train(problem, initial, 0.1, 20, seeds=2, progress=False)
    return {"run": trained, "both": (nr.predict(problem, initial, trained.time), trained)}.get(kind)


def test_a_function_of_your_own(tmp_path: Path, client: Any) -> None:
    kinds = ["numbers", "dataset", "run", "both", "fails", "nothing"]
    options = {"out": tmp_path, "on": client, "progress": False}
    swept = nr.sweep(one, {"kind": kinds, "size": np.array([2])}, **options)
    table = swept.table.set_index("kind")
    assert table["double"].dropna().to_dict() == {"numbers": 4, "dataset": 4}
    assert swept.data(1)["row"].values.tolist() == [0, 1]
    assert table["failed"].isna().tolist() == [True] * 4 + [False] * 2
    assert table["failed"]["fails"] == "ValueError: two"
    assert "must return a trajectory" in table["failed"]["nothing"]
    forecast, trained = one("both", 2)
    assert table["normalized_l1"]["both"] == pytest.approx(nr.agreement(forecast, trained).normalized_l1)
    assert table["loss"]["run"] == pytest.approx(np.median(trained.loss[:, -1]))
    (axis,) = swept.figure().axes
    assert axis.get_legend_handles_labels()[1] == ["kind = run", "kind = both", "forecast"]
    assert "<table" in swept._repr_html_()
    plain = nr.sweep(lambda a: {"a + 1": a + 1}, {"a": [1, 2]}, **options)  # other points in the same folder
    assert plain.table["a + 1"].tolist() == [2, 3]
    with pytest.raises(NeuralRaceError, match="no point of this sweep has learning curves"):
        plain.figure()


def test_what_a_function_computes_is_its_key_and_not_where_it_stands() -> None:
    def made(text: str) -> Any:
        found: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(text, f"cell {len(text)}", "exec"), found)
        return workers.fingerprint(found["f"])

    text = "class C:\n    k = 2\n    def again(self): return C()\ndef g(a): return a * C.k\ndef f(a): return g(a)"
    assert made(text) == made("\n\n" + text)
    assert len({made(text), made(text.replace("k = 2", "k = 3")), made(text.replace("a * C", "a + C"))}) == 3


SCRIPT = """
import sys
import neuralrace as nr

class Scale:
    factor = 3

def scaled(number):
    return {"product": Scale.factor * number}

def swept(**options):
    return nr.sweep(scaled, {"number": [0, 1]}, out=sys.argv[-1], progress=False, **options).table["product"].tolist()

if sys.argv[0] == __file__:
    print(swept(workers=1))
"""


def test_a_script_needs_no_guard_and_its_points_are_found_again(tmp_path: Path, monkeypatch: Any) -> None:
    """Its function and class are sent to the processes; the script itself does not run there."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    arguments = [str(script), str(tmp_path)]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[0, 3]\n", "")
    again: dict[str, Any] = {"__name__": "__main__", "__file__": str(script), "__package__": None}
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path)])
    exec(SCRIPT, again)
    assert again["swept"](on=NOWHERE) == [0, 3]


@pytest.mark.parametrize(
    ("what", "settings", "options", "words"),
    [
        (NAME, {}, {}, "at least one setting with its values"),
        (NAME, {"std": [0.1, 0.1]}, {}, "and different ones"),
        (NAME, {"seeds": [1]}, {"seeds": 2}, "each setting once"),
        (NAME, {"std": [0.1]}, {"on": NOWHERE}, "could not connect"),
        (NAME, {"std": [0.1]}, {"on": "tcp://127.0.0.1:1", "workers": 2}, "workers is an option of on='local'"),
        ("xor", {"hidden": "1,,2"}, {}, "at least one value"),
        ("xor", {"hidden": ["5x6", (5, 6)]}, {}, "and different ones"),
        ("xor", {"hiden": [5]}, {}, "did you mean 'hidden'"),
        ("xor", {"hidden": ["5y"]}, {}, "a width like 50, or widths like 50x20; it was '5y'"),
        ("xor", {"std": [0.1], "relative": [0.1]}, {}, "std and relative both"),
        ("xor", {"depth": [2]}, {}, "depth repeats one width: give hidden=50"),
        ("xor", {"hidden": [4]}, {"size": "tiny"}, "size is for figures"),
        ("xor", {"hidden": range(1, 40_000), "seeds": range(1, 40_000)}, {}, "these settings make 1,599,920,001"),
        ("saxe2022-fig33", {"std": [1]}, {}, "no task, figure or file 'saxe2022-fig33'; did you mean 'saxe2022-fig3'"),
        (one, {"kind": ["run"]}, {}, r"arguments of the function, .*: missing a required argument: 'size'"),
        (one, {"kind": ["run"], "size": [object()]}, {}, "must be numbers, words"),
        (
            one,
            {"kind": ["run"], "size": [2]},
            {"seeds": 3},
            "seeds for figures and tasks: leave it out, or make it a setting",
        ),
        (lambda a, stream=sys.stdout: {}, {"a": [1]}, {}, "cannot be sent to other processes"),
    ],
)
def test_bad_requests_leave_no_trace(what, settings, options, words, tmp_path: Path) -> None:
    size = {"size": "tiny"} if what == NAME else {}
    with pytest.raises(NeuralRaceError, match=words):
        nr.sweep(what, settings, out=tmp_path / "out", progress=False, **size, **options)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_a_name_of_both_a_task_and_a_figure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(nr.tasks.registry._factories, NAME, nr.tasks.xor)
    with pytest.raises(NeuralRaceError, match="names a figure and a task: give the task itself"):
        nr.sweep(NAME, {"hidden": [4]}, out=tmp_path)


def test_figures_side_by_side_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    names = ["saxe2022-linear", "saxe2022-fig3"]
    found = list(workers.reproduced(names, "tiny", tmp_path, 1, str))
    assert [name for name, _ in found] == names
    for name, made in found:
        assert "Result" in made
        assert json.loads((tmp_path / name / "claims.json").read_text())["experiment"] == name


def test_an_interruption_leaves_no_process_behind(tmp_path: Path) -> None:
    """As from a keyboard: it reaches the workers too."""
    line = ["reproduce", "--only", "saxe2022-linear", "--only", NAME, "--size", "tiny", "--workers", "2"]
    command = [sys.executable, "-m", "neuralrace", *line, "--out", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    try:
        while process.poll() is None and not any(tmp_path.iterdir()):  # its first folder
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 130
        assert told.splitlines()[-1] == "neuralrace: interrupted"
        assert "Traceback" not in told
        for _ in range(100):
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)
        pytest.fail("a process is left")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
