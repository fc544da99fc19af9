"""What a worker does: compute some points and send each back as the bytes of its sealed file."""

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import xarray

from neuralrace.cluster import ClusterError
from neuralrace.datafiles import save_dataset
from neuralrace.errors import in_one_line
from neuralrace.experiments.experiment import Experiment
from neuralrace.experiments.registry import get
from neuralrace.experiments.settings import as_json
from neuralrace.source import versions

MEMORY = "it needs more memory than its worker has: make it smaller, or give workers more"


class Finished(NamedTuple):
    """A point's bytes, or why there are none."""

    key: str
    sealed: bytes | None
    error: str = ""


def compute_task(name: str, points: list[tuple[str, Any]], code: str) -> list[Finished]:
    """Compute points of one shape, given as key and settings; one that fails is marked, the others go on."""
    mine = versions()["code"]
    if mine != code:  # a worker that came later than the others were asked
        raise ClusterError(f"every worker must run the code that started the sweep, {code}; one has {mine}")
    experiment = get(name)
    with contextlib.redirect_stderr(io.StringIO()):  # no bars of single points
        return _computed(experiment, points)


def _computed(experiment: Experiment, points: list[tuple[str, Any]]) -> list[Finished]:
    if experiment.compute_many is not None and len(points) > 1:
        try:
            found = experiment.compute_many([settings for _, settings in points])
            return [_sealed(experiment, *point, data) for point, data in zip(points, found, strict=True)]
        except Exception:  # one of them fails: which one shows when each is alone
            pass
    return [_alone(experiment, *point) for point in points]


def _alone(experiment: Experiment, key: str, settings: Any) -> Finished:
    try:
        many = experiment.compute_many
        data = experiment.compute(settings) if many is None else many([settings])[0]
        return _sealed(experiment, key, settings, data)
    except Exception as error:
        line = in_one_line(error)
        short = isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in line or "Out of memory" in line
        return Finished(key, None, f"{MEMORY} ({line})" if short else line)


def _sealed(experiment: Experiment, key: str, settings: Any, data: xarray.Dataset) -> Finished:
    """With its claims, which some settings may leave without anything to measure."""
    try:
        claims = [
            {
                "text": c.text,
                "kind": c.kind,
                "expected": c.expected,
                "measured": c.measured,
                "holds": c.holds,
                "quantities": c.quantities,
            }
            for c in experiment.claims(data)
        ]
        told = {"claims": json.dumps(claims)}
    except Exception as error:
        told = {"claims": "[]", "without_claims": in_one_line(error)}
    stamp = {"experiment": experiment.name, "settings": as_json(settings), "code": versions()["code"]}
    with tempfile.TemporaryDirectory() as folder:
        path = save_dataset(data.assign_attrs(stamp | told), Path(folder) / "point.nc")
        return Finished(key, path.read_bytes())
