"""Figures 7 to 10 of P1 at the paper's sizes, and which pairs are trained: on a GPU, part by part, kept as records.

    python -m docs.images --folder FOLDER --out OUT                                        # --dry lists what is missing
    python -m docs.images --folder FOLDER --only saxe2022-fig8 --panels permuted-40 --out OUT
    python -m docs.images --out docs/records/images --results RESULTS                      # judge the records
    python -m docs.verdicts --larger RESULTS                                               # onto the page of verdicts

Every panel is one compiled program and one file in OUT, which figures share; existing files are not trained again, so
an interrupted run resumes. A figure whose panels are all there is judged and drawn. The files belong into
docs/records/images, of which the tables in the docs are made.
"""

import argparse
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xarray

from neuralrace.io import load_dataset, make_folder, save_dataset
from neuralrace.papers import get
from neuralrace.papers.experiment import Experiment, Result, override
from neuralrace.papers.saxe2022 import images

FIGURES = ("saxe2022-fig8", "saxe2022-fig10", "saxe2022-fig9", "saxe2022-fig7", "pairs")


def part_file(scan: images.Scan) -> str:
    """Name the file of a scan by what is run, not by where its images are."""
    told = {name: value for name, value in scan.items() if name != "folder"}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]
    kind = "linear" if scan["slope"] == 1 else "leaky"
    return f"{scan['data']}-{scan['inputs']}-{scan['domains']}-{kind}-{scan['over']}-{digest}.nc"


def part(path: Path, compute: Callable[[], xarray.Dataset], dry: bool) -> xarray.Dataset | None:
    """Load the dataset of a file, or make it."""
    print(f"{path.name}: {'there already' if path.is_file() else 'missing'}", flush=True)
    if not path.is_file():
        if dry:
            return None
        save_dataset(compute(), path)
    return load_dataset(path)


def trained(scan: images.Scan) -> xarray.Dataset:
    """Train a scan, and print mean errors at the end to look at while the rest trains."""
    began = time.monotonic()
    data = images.measure(scan)
    data.attrs |= {"seconds": time.monotonic() - began, "scan": json.dumps(scan | {"folder": ""})}
    print(f"  {data.attrs['seconds']:.0f} s, {1e3 * data.attrs['seconds'] / scan['steps']:.2f} ms a step")
    for number, (k, gain) in enumerate(scan["conditions"]):
        one, other = 100 * data["error"].isel(condition=number, moment=-1).mean("seed").values
        print(f"  K = {k:3d}  gain {gain:<7g} trained {one:5.1f} %  untrained {other:5.1f} %", flush=True)
    return data


def dataset(out: Path, experiment: Experiment, settings: Any, wanted: str, dry: bool) -> xarray.Dataset | None:
    """Return the dataset of a figure; None if a part is missing."""
    figure = getattr(experiment.compute, "__self__", None)
    if not isinstance(figure, images.RoutedFigure):
        return part(out / f"{settings.data}-{experiment.name}.nc", lambda: experiment.compute(settings), dry)
    scans, parts = figure.scans(settings), {}
    for panel, scan in scans.items():
        skipped = bool(wanted) and panel.removesuffix(" over gains") not in wanted.split(",")
        found = part(out / part_file(scan), lambda scan=scan: trained(scan), dry or skipped)
        if found is not None:
            parts[panel] = found
    return images.assemble(scans, parts) if len(parts) == len(scans) else None


def main() -> None:
    """Train the figures that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--folder", default="")
    parser.add_argument("--only", nargs="*", default=FIGURES)
    parser.add_argument("--panels", default="", help="train only these, such as permuted-40,rotated-40")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--out", type=Path, default=Path("results/images"))
    parser.add_argument("--results", type=Path, help="where figures and verdicts go (OUT/results)")
    parser.add_argument("--dry", action="store_true", help="list what would be trained")
    given = parser.parse_args()
    out = make_folder(given.out)
    changes: dict[str, Any] = {"data": given.data, "folder": given.folder}
    changes |= dict(change.split("=", 1) for change in given.changes)
    for name in given.only:
        experiment = get(name)
        settings = override(experiment.full, changes)
        data = dataset(out, experiment, settings, given.panels, given.dry)
        if data is not None:
            result, folder = Result(experiment, "full", settings, data), given.results or out / "results"
            for claim in result.claims:
                print(f"  {'holds' if claim.holds else 'FAILS'}: {claim.text} {claim.asked}; measured: {claim.shown}")
            result.save(make_folder(folder))
            save_dataset(data, folder / name / "data.nc")


if __name__ == "__main__":
    main()
