"""A sweep as it is asked for, and what keeps one from going on. Whole sweeps: see test_accidents.py."""

import dataclasses
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import neuralrace as nr
from neuralrace import cluster as room
from neuralrace import source
from neuralrace.cluster import ClusterError
from neuralrace.errors import NeuralRaceError, ResourceError
from neuralrace.papers import get
from neuralrace.sweeps import dispatch, work
from neuralrace.sweeps.points import make_sweep
from neuralrace.sweeps.work import compute_point

NAME = "saxe2022-fig3"


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
