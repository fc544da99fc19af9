"""Workers that a script starts without saying which part of it is for itself alone."""

import multiprocessing

import pytest

from neuralrace.cluster import ClusterError, connected

distributed = pytest.importorskip("distributed")


def test_a_worker_that_reads_its_script_starts_no_workers(monkeypatch, capfd):
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(SystemExit), connected(workers=1):
        pass
    assert capfd.readouterr() == ("", "")


def test_where_no_worker_starts_it_says_what_a_script_needs(monkeypatch):
    def fails(**options):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "LocalCluster", fails)
    with pytest.raises(ClusterError, match=r'Nanny failed to start.*under if __name__ == "__main__":'):
        connected(workers=1).__enter__()
