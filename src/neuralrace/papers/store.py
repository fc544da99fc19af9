"""Finished experiments on disk: reused while settings and code are the same, computed again when they are not."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neuralrace.datafiles import load_dataset, make_folder, save_dataset, write_whole
from neuralrace.errors import FileFormatError, RangeError, UnknownNameError, require_kind, require_known
from neuralrace.papers.claim import Claim
from neuralrace.papers.experiment import Result, get
from neuralrace.papers.settings import as_json, override
from neuralrace.source import code_version

SIZES = ("full", "tiny")
FORMATS = ("png", "svg", "pdf")


def run(
    name: str,
    size: str = "full",
    *,
    changes: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    reuse: bool = False,
) -> Result:
    """Run one experiment; with `out`, keep its data there, and with `reuse` take them from there if they still fit."""
    experiment = get(name)
    check_size(size)
    settings = override(experiment.full if size == "full" else experiment.tiny, changes or {})
    experiment.check(settings)
    stamp = {"experiment": name, "size": size, "settings": as_json(settings), "code": code_version()}
    path = None if out is None else make_folder(make_folder(out) / name) / "data.nc"
    if path is not None and reuse:
        stored = _stored(path, stamp)
        if stored is not None:
            return Result(experiment, size, settings, stored)
    data = experiment.compute(settings).assign_attrs(stamp)
    if path is not None:
        save_dataset(data, path)
    return Result(experiment, size, settings, data)


def save_result(result: Result, out: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write an experiment's claims and figure beside its data; return the pictures, one for each format."""
    require_kind("result", result, Result, RangeError)
    check_formats(formats)
    folder = make_folder(Path(out) / result.experiment.name)
    summary = json.dumps(summarize(result), indent=2)
    write_whole(folder / "claims.json", lambda part: part.write_text(summary, encoding="utf-8"))
    paths = [folder / f"figure.{kind}" for kind in formats]
    return [write_whole(path, lambda part: result.laid_out.savefig(part, dpi=150)) for path in paths]


def check_size(size: str) -> None:
    """Refuse a size that there is not."""
    require_known(size, SIZES, f"size must be full or tiny; it was {size!r}")


def check_formats(formats: Sequence[str]) -> None:
    """Refuse a picture format that cannot be written."""
    for kind in formats:
        if kind not in FORMATS:
            raise UnknownNameError(f"a figure can be {', '.join(FORMATS)}; {kind!r} was asked")


def summarize(result: Result) -> dict[str, Any]:
    """A result in plain values: what was run and what came of each claim."""
    return {
        "experiment": result.experiment.name,
        "title": result.experiment.title,
        "differs": result.experiment.differs,
        "finding": result.experiment.finding,
        "size": result.size,
        "settings": json.loads(as_json(result.settings)),
        "judged": result.judged,
        "as_recorded": result.as_recorded,
        "claims": [as_values(claim) for claim in result.claims],
    }


def as_values(claim: Claim) -> dict[str, Any]:
    """A claim in plain values, as it is put on record."""
    return {name: value for name, value in dataclasses.asdict(claim).items() if name != "quantities"}


def _stored(path: Path, stamp: Mapping[str, str]) -> Any:
    """The data on disk if they carry this stamp; a file that cannot be read is computed again."""
    try:
        data = load_dataset(path)
    except FileFormatError:
        return None
    return data if all(data.attrs.get(key) == value for key, value in stamp.items()) else None
