"""What a worker does: send a point back as the bytes of its sealed file, or keep the files of an experiment."""

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray

from neuralrace.cluster import ClusterError
from neuralrace.datafiles import save_dataset
from neuralrace.errors import in_one_line
from neuralrace.memory import is_out_of_memory, memory_at_most
from neuralrace.papers import get, run
from neuralrace.papers.claims import Claim
from neuralrace.papers.experiment import Experiment, Result
from neuralrace.papers.settings import as_json
from neuralrace.source import versions

MEMORY = "it needs more memory than its worker has: make it smaller, or give workers more"


class Finished(NamedTuple):
    """A point's bytes, or why there are none."""

    key: str
    sealed: bytes | None
    error: str = ""


def compute_point(name: str, key: str, settings: Any, code: str) -> Finished:
    """Compute one point; if it fails, say why."""
    _check_code(code)
    experiment = get(name)
    try:
        with _without_bars(), memory_at_most(_limit_of_this_worker()):
            return _sealed(experiment, key, settings, experiment.compute(settings))
    except Exception as error:
        line = in_one_line(error)
        return Finished(key, None, f"{MEMORY} ({line})" if is_out_of_memory(error) else line)


def keep_experiment(name: str, code: str, keep: "Keep", memory: int | None) -> Any:
    """Run one experiment and keep its files in a folder that all can see; memory: bytes that it may take."""
    _check_code(code)
    with _without_bars(), memory_at_most(memory):
        return keep(name)[1]


class Keep(NamedTuple):
    """What is done with an experiment: its data, claims and figures are kept in a folder; finished data are reused.

    also: what else is made of the result, and told.
    """

    size: str
    out: str
    formats: tuple[str, ...]
    also: Callable[[Result], Any]

    def __call__(self, name: str) -> tuple[Result, Any]:
        """The result, and what else was made of it."""
        result = self.result(name)
        result.save(self.out, self.formats)
        return result, self.also(result)

    def result(self, name: str) -> Result:
        """The result, computed unless it is there."""
        return run(name, self.size, out=self.out, reuse=True)


def _check_code(code: str) -> None:
    mine = versions()["code"]
    if mine != code:  # a worker that came later than the others were asked
        raise ClusterError(f"every worker must run the code that started the work, {code}; one has {mine}")


def _without_bars() -> contextlib.AbstractContextManager[object]:
    """Several processes would draw over each other."""
    return contextlib.redirect_stderr(io.StringIO())


def _limit_of_this_worker() -> int | None:
    """Bytes that it may take before dask ends it."""
    from distributed import get_worker

    try:
        manager: Any = get_worker().memory_manager
    except ValueError:  # no worker at all
        return None
    return manager.memory_limit or None


def _sealed(experiment: Experiment, key: str, settings: Any, data: xarray.Dataset) -> Finished:
    """With its claims, which some settings may leave without anything to measure."""
    try:
        told = {"claims": json.dumps([_told(claim) for claim in experiment.claims(data)])}
    except Exception as error:
        told = {"claims": "[]", "without_claims": in_one_line(error)}
    stamp = {"experiment": experiment.name, "settings": as_json(settings), "code": versions()["code"]}
    with tempfile.TemporaryDirectory() as folder:
        path = save_dataset(data.assign_attrs(stamp | told), Path(folder) / "point.nc")
        return Finished(key, path.read_bytes())


def _told(claim: Claim) -> dict[str, Any]:
    """A claim with the lowest and highest number of each quantity."""
    known = {one.what: one.numbers[~np.isnan(one.numbers)] for one in claim.quantities}
    spans = [[what, numbers.min(), numbers.max()] for what, numbers in known.items() if numbers.size]
    return {"text": claim.text, "holds": claim.holds, "quantities": spans}
