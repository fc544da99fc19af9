"""A sweep on two workers that meets every accident, and ends with the bytes of one that met none.

One test with one cluster: a worker takes seconds to start. The experiment is P1 Fig 3 at its smallest.
"""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import cluster as room
from neuralrace import source
from neuralrace.batches import Batch
from neuralrace.cluster import ClusterError, connected
from neuralrace.errors import NeuralRaceError, ResourceError
from neuralrace.experiments.experiment import get
from neuralrace.sweeps import dispatch, work
from neuralrace.sweeps.points import make_sweep
from neuralrace.sweeps.work import compute_point

NAME = "saxe2022-fig3"
# steps are counted in 32 bits: points with more of them fail
SETTINGS = {"steps": [3, 3 * 10**9, 4, 5], "hidden": [4], "learning_rate": [0.2, 0.4]}


def run(out, client, **more):
    return nr.sweep(NAME, SETTINGS, size="tiny", seeds=1, out=out, on=client, progress=False, **more)


def kill_the_client_after_its_first_point(address, out):
    options = [f"--set={name}={','.join(map(str, values))}" for name, values in SETTINGS.items()]
    command = [sys.executable, "-m", "neuralrace", "sweep", NAME, "--size", "tiny", "--seeds", "1", *options]
    process = subprocess.Popen([*command, "--on", address, "--out", str(out)], stderr=subprocess.PIPE)
    for _ in range(2000):
        if list(out.glob("points/*.nc")) or process.poll() is not None:
            break
        time.sleep(0.05)
    process.kill()
    _, told = process.communicate()
    return {path.name: path.stat().st_mtime_ns for path in out.glob("points/*.nc")}, told.decode()


def kill_a_busy_worker(client):
    """In the middle: while it works at a point."""
    pids = client.run(os.getpid)

    def wait_and_kill():
        for _ in range(2000):
            busy = [worker for worker, tasks in client.processing().items() if tasks]
            if busy:
                os.kill(pids[busy[0]], signal.SIGKILL)
                killed.append(busy[0])
                return
            time.sleep(0.02)

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


def test_a_sweep_meets_every_accident(tmp_path, monkeypatch):
    with connected("local", workers=2) as client:
        assert not any(client.run(is_watched).values())
        assert all(client.run(is_deaf).values())
        finished, told = kill_the_client_after_its_first_point(client.scheduler.address, tmp_path / "killed")
        assert 0 < len(finished) < 6, told
        killer, killed = kill_a_busy_worker(client)
        swept = run(tmp_path / "killed", client)
        killer.join()
        assert killed
        for name, written in finished.items():  # nothing that was finished is computed twice
            assert (tmp_path / "killed" / "points" / name).stat().st_mtime_ns == written
        # the failing point is marked, and the others are there
        assert swept.data["status"].sel(steps=3 * 10**9).values.tolist() == [["failed", "failed"]]
        assert (swept.data["status"].sel(steps=[3, 4, 5]) == "done").all()
        assert np.isfinite(swept.data["relu"].sel(steps=5)).all()
        assert len(swept.failed) == 2
        assert all("RangeError: steps must be at most 2,147,483,647" in why for why in swept.failed.values())
        # the same bytes without any accident
        run(tmp_path / "whole", client)
        assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
        assert set(contents(tmp_path / "whole")) >= {"sweep.json", "data.nc", "claims.json", "figure.png"}
        reduce_on_the_cluster(client)
        refuse_other_versions(client, monkeypatch)


def test_points_outlive_all_workers(monkeypatch):
    """Those that a point was meant for are lost at once, and then others come."""
    from distributed import Client, LocalCluster

    def slow(name, key, *_):
        time.sleep(0.2)
        return work.Finished(key, b"")

    monkeypatch.setattr(dispatch, "compute_point", slow)
    planned = make_sweep(NAME, {"hidden": [4, 8, 12]}, size="tiny")
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        points = dispatch.finished_points(client, planned, planned.points)
        found = [next(points)]
        cluster.scale(0)
        while client.scheduler_info()["workers"]:
            time.sleep(0.02)
        cluster.scale(1)
        try:
            found += pool.submit(list, points).result(timeout=10)  # it took for ever
        finally:
            client.close()
    assert {point.key for point in found} == {point.key for point in planned.points}


def reduce_on_the_cluster(client):
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


def refuse_other_versions(client, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(source, "version", lambda package: "1.0")  # here, and not at the workers
        with pytest.raises(ClusterError, match=r"must run what is run here, .* 1.0; worker tcp://.* has"):
            room.refuse_other_versions(client)


def test_a_worker_that_comes_later_is_refused_too():
    with pytest.raises(ClusterError, match="must run the code that started the work, another"):
        compute_point(NAME, "key", None, "another")


class Future:
    """What is left of a task."""

    def __init__(self, status, error=None):
        self.status, self._error = status, error

    def result(self):
        raise self._error


def test_a_task_that_takes_its_workers_with_it_and_a_scheduler_that_is_gone():
    from distributed import KilledWorker

    lost = dispatch._answer(Future("error", KilledWorker("task", None, 2)))
    assert isinstance(lost, ResourceError)
    assert "it needs more memory than its worker has" in str(lost)
    with pytest.raises(ClusterError, match="every worker"):
        dispatch._answer(Future("error", ClusterError("every worker must run one code")))
    with pytest.raises(ClusterError, match=r"the scheduler is gone, .* what was finished is kept: start"):
        dispatch._answer(Future("cancelled"))


def test_a_point_that_asks_for_more_memory_than_there_is(monkeypatch):
    """Told before it starts where it can be foreseen, against the limit of its worker, and as such where it cannot."""
    settings = make_sweep(NAME, {"hidden": [10**6]}, size="tiny").points[0].settings
    with monkeypatch.context() as patch:
        patch.setattr(work, "_limit_of_this_worker", lambda: 10**7)
        point = compute_point(NAME, "key", settings, source.code_version())
    assert point.sealed is None
    assert "it needs more memory than its worker has" in point.error
    assert "would take 137 MiB of memory and 9.54 MiB are free" in point.error

    def refused(settings):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1125899906842624 bytes.")

    greedy = dataclasses.replace(get(NAME), compute=refused)
    monkeypatch.setattr(work, "get", lambda name: greedy)
    point = compute_point(NAME, "key", settings, source.code_version())
    assert point.error.startswith("it needs more memory than its worker has")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"on": "tcp://127.0.0.1:9"}, "at 'tcp://127.0.0.1:9' nobody answers"),
        ({"on": "nowhere at all"}, "at 'nowhere at all' nobody answers"),
        ({"on": "tcp://127.0.0.1:9", "workers": 2}, "workers and memory are set for on='local' only"),
        ({"workers": 0}, "workers must be a whole number, at least 1"),
        ({"memory": "much"}, "memory must be an amount like 2GiB or 500MB; it was 'much'"),
    ],
)
def test_a_cluster_that_is_not_there(tmp_path, monkeypatch, more, words):
    monkeypatch.setattr(room, "PATIENCE", 0.3)
    with pytest.raises(NeuralRaceError, match=words):
        nr.sweep(NAME, {"std": [0.1]}, size="tiny", out=tmp_path, progress=False, **more)
    assert not list(tmp_path.iterdir())  # another sweep may begin here


def test_the_folder_of_another_sweep_is_refused(tmp_path):
    folder = tmp_path / "sweep"
    folder.mkdir()
    (folder / "sweep.json").write_text('{"experiment": "another"}')
    with pytest.raises(NeuralRaceError, match=r"another sweep, with experiment .another. and not .saxe2022-fig3"):
        nr.sweep(NAME, {"std": [0.1]}, size="tiny", out=folder, on="tcp://127.0.0.1:9")
    assert (folder / "sweep.json").read_text() == '{"experiment": "another"}'
    assert list(folder.iterdir()) == [folder / "sweep.json"]


def test_without_dask_the_message_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(NeuralRaceError, match=r"pip install 'neuralrace\[sweeps\]'"):
        nr.sweep(NAME, {"std": [0.1]}, size="tiny", out=tmp_path, progress=False)
