"""Sweeps and figures side by side: results, resuming, failures and interruptions."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas
import pytest
import xarray

import neuralrace as nr
from neuralrace import sweeps
from neuralrace.errors import NeuralRaceError, ResourceError
from neuralrace.io import load_dataset
from neuralrace.papers import run

NAME, TINY = "saxe2022-fig3", {"size": "tiny", "progress": False}


def work(number: int) -> int:
    """Return the square; some numbers fail, and one kills its worker."""
    if number == 3:
        raise ValueError("three")
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def test_a_failure_leaves_the_others_and_a_killed_worker_says_what_to_do() -> None:
    def run_all() -> None:
        with sweeps._processes(9, 1) as pool:
            futures = [pool.submit(work, number) for number in range(6)]
            with pytest.raises(ValueError, match="three"):
                futures[3].result()
            assert [futures[number].result() for number in (0, 1, 2, 4)] == [0, 1, 4, 16]
            futures[5].result()

    with pytest.raises(ResourceError, match=r"a worker was killed, .* with fewer"):
        run_all()


def test_a_sweep_resumes_and_its_points_are_the_figure_itself(tmp_path: Path) -> None:
    """First on a dask client, then in a process."""
    distributed = pytest.importorskip("distributed")
    axes = {"std": [0.01, 0.02], "hidden": [4]}
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        swept = nr.sweep(NAME, axes, out=tmp_path, seeds=1, on=client, **TINY)
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
    again = nr.sweep(NAME, axes, out=tmp_path, seeds=1, workers=1, **TINY)
    pandas.testing.assert_frame_equal(again, swept, rtol=1e-9)
    assert [path.stat().st_mtime_ns != before for path, before in zip(files, times, strict=True)] == [True, False]
    columns = "std,hidden,claim,holds,quantity,lowest,highest,file,failed\n"
    assert (tmp_path / "data.csv").read_text().startswith(columns)


def test_one_point_may_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def thread(count: int, workers: int) -> Iterator[ThreadPoolExecutor]:
        with ThreadPoolExecutor(1) as pool:
            yield pool

    def compute(name: str, size: str, code: str, changes: dict[str, float]) -> xarray.Dataset:
        if changes["std"] == 0.02:
            raise ValueError("two")
        return xarray.Dataset(attrs={"claims": "[]"})

    monkeypatch.setattr(sweeps, "_compute", compute)
    monkeypatch.setattr(sweeps, "_processes", thread)
    swept = nr.sweep(NAME, {"std": "0.01,0.02"}, out=tmp_path, seeds=1, **TINY)
    assert swept["failed"].isna().tolist() == [True, False]
    assert swept["failed"].iloc[1] == "ValueError: two"


@pytest.mark.parametrize(
    ("settings", "options", "words"),
    [
        ({}, {}, "at least one setting with its values"),
        ({"std": [0.1, 0.1]}, {}, "and different ones"),
        ({"seeds": [1]}, {"seeds": 2}, "each setting once"),
        ({"std": [0.1]}, {"on": "none://here"}, "could not connect"),
        ({"std": [0.1]}, {"on": "tcp://127.0.0.1:1", "workers": 2}, "workers is an option of on='local'"),
    ],
)
def test_bad_requests_leave_no_trace(settings, options, words, tmp_path: Path) -> None:
    with pytest.raises(NeuralRaceError, match=words):
        nr.sweep(NAME, settings, out=tmp_path / "out", **TINY, **options)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_figures_side_by_side_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    names = ["saxe2022-linear", "saxe2022-fig3"]
    found = list(sweeps.reproduced(names, "tiny", tmp_path, 1, str))
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
