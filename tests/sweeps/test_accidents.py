"""Work on two workers that meets every accident, and ends as if it had met none.

One cluster for all of it: a worker takes seconds to start. The experiment is P1 Fig 3 at its smallest.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import kills
import neuralrace as nr
from neuralrace import cli, source
from neuralrace import cluster as room
from neuralrace.batches import Batch
from neuralrace.cluster import ClusterError, connected
from neuralrace.errors import NeuralRaceError
from neuralrace.sweeps import reproducing

NAME = "saxe2022-fig3"
# steps are counted in 32 bits: points with more of them fail
SETTINGS = {"steps": [3, 3 * 10**9], "hidden": [4], "learning_rate": [0.2, 0.3, 0.4]}


@pytest.fixture(scope="module")
def client():
    with connected("local", workers=2) as client:
        yield client


def test_reproduce_is_killed_and_started_again(tmp_path, client, monkeypatch, capsys):
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    kills.kill_after("reproduce", folder, kills.soon_after_its_first_file("reproduce", folder), 120)
    kills.datasets(folder)  # what is there is whole
    monkeypatch.setattr(reproducing, "connected", lambda *cluster: contextlib.nullcontext(client))
    for out, workers in ((folder, "2"), (whole, "1")):
        with pytest.raises(SystemExit) as stopped:
            cli.main([*kills.COMMANDS["reproduce"].arguments(out)[2:], "--workers", workers])  # the last counts
        assert stopped.value.code == 0, capsys.readouterr().err
    assert kills.left_behind(folder) == []
    assert kills.same_results(folder, whole)


def run(out, client, **more):
    return nr.sweep(NAME, SETTINGS, size="tiny", seeds=1, out=out, on=client, progress=False, **more)


def stop_at_the_next_points(hold):
    """At a worker: while a file is there all its points wait but the first, so that a kill comes in the middle."""
    from pathlib import Path

    from neuralrace.sweeps import work

    compute, begun = work.compute_point, []

    def held(*point):
        begun.append(point)
        while len(begun) > 1 and Path(hold).exists():
            time.sleep(0.005)
        return compute(*point)

    work.compute_point = held


def kill_the_client_after_its_first_point(address, out):
    options = [f"--set={name}={','.join(map(str, values))}" for name, values in SETTINGS.items()]
    command = [sys.executable, "-m", "neuralrace", "sweep", NAME, "--size", "tiny", "--seeds", "1", *options]
    process = subprocess.Popen([*command, "--on", address, "--out", str(out)], stderr=subprocess.PIPE)
    for _ in range(20_000):
        if list(out.glob("points/*.nc")) or process.poll() is not None:
            break
        time.sleep(0.005)
    process.kill()
    _, told = process.communicate()
    return {path.name: path.stat().st_mtime_ns for path in out.glob("points/*.nc")}, told.decode()


def kill_a_busy_worker(client, hold):
    """In the middle: while it works at a point."""
    pids = client.run(os.getpid)

    def wait_and_kill():
        for _ in range(20_000):
            busy = [worker for worker, tasks in client.processing().items() if tasks]
            if busy:
                os.kill(pids[busy[0]], signal.SIGKILL)
                killed.append(busy[0])
                break
            time.sleep(0.005)
        hold.unlink()

    killed = []
    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread, killed


def is_watched(dask_worker):
    """Whether dask looks at the frames of its tasks, which lets the layout of a file depend on the moment."""
    return "profile" in dask_worker.periodic_callbacks


def is_deaf():
    """Whether no interruption has reached the process from its first moment on; that of a terminal reaches all."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_sweep_meets_every_accident(tmp_path, client):
    hold = tmp_path / "hold"
    assert not any(client.run(is_watched).values())
    assert all(client.run(is_deaf).values())
    client.run(stop_at_the_next_points, str(hold))
    hold.touch()
    finished, told = kill_the_client_after_its_first_point(client.scheduler.address, tmp_path / "killed")
    assert 0 < len(finished) < 3, told
    killer, killed = kill_a_busy_worker(client, hold)
    swept = run(tmp_path / "killed", client)
    killer.join()
    assert killed
    for name, written in finished.items():  # nothing that was finished is computed twice
        assert (tmp_path / "killed" / "points" / name).stat().st_mtime_ns == written
    # the failing points are marked, and the others are there
    assert swept.data["status"].sel(steps=3 * 10**9).values.tolist() == [["failed", "failed", "failed"]]
    assert (swept.data["status"].sel(steps=3) == "done").all()
    assert np.isfinite(swept.data["relu"].sel(steps=3)).all()
    assert len(swept.failed) == 3
    assert all("RangeError: steps must be at most 2,147,483,647" in why for why in swept.failed.values())
    # the same bytes without any accident
    run(tmp_path / "whole", client)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert set(contents(tmp_path / "whole")) >= {"sweep.json", "data.nc", "claims.json", "figure.png"}


def test_batches_are_reduced_on_the_cluster(client):
    """Twenty batches, more than one level of the tree, made where they are gathered; and dask arrays."""
    import dask.array

    architecture = nr.Architecture({"x": 3, "h": 2, "y": 1}, [("x", "h"), ("h", "y")])
    rows = np.random.default_rng(0).normal(size=(200, 3))
    gate = (rows[:, 0] > 0).astype(float)
    places = np.split(np.arange(200), 20)
    parts = [Batch({"x": rows[i]}, {"y": rows[i, :1]}, {"h": gate[i]}) for i in places]
    here = nr.batches.problem(architecture, parts)
    there = nr.batches.problem(architecture, parts, on=client)
    lazy = [dask.array.from_array(array, chunks=30) for array in (rows, rows[:, :1], gate)]
    cut = nr.batches.cut({"x": lazy[0]}, {"y": lazy[1]}, {"h": lazy[2]}, rows=50)
    for found in (there, nr.batches.problem(architecture, cut, on=client)):
        for one, two in zip(found.statistics().moments, here.statistics().moments, strict=True):
            np.testing.assert_allclose(one.inputs, two.inputs, atol=1e-14)
    with pytest.raises(NeuralRaceError, match=r"batch 3: .*node 'x' has none"):
        nr.batches.problem(architecture, [*parts[:3], parts[3]._replace(inputs={"z": rows[:10]})], on=client)


def test_workers_of_another_version_are_refused(client, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(source, "version", lambda package: "1.0")  # here, and not at the workers
        with pytest.raises(ClusterError, match=r"must run what is run here, .* 1.0; worker tcp://.* has"):
            room.refuse_other_versions(client)
