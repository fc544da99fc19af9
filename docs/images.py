"""Figures 7 to 10 of P1 at the paper's sizes, and which pairs are trained: on a GPU, part by part, and kept as records.

    python -m docs.images --folder FOLDER --out OUT                                        # --dry lists what is missing
    python -m docs.images --folder FOLDER --only saxe2022-fig8 --panels permuted-40 --out OUT
    python -m docs.images --out docs/records/images --results RESULTS                      # judge what is on record
    python -m docs.verdicts --larger RESULTS                                               # onto the page of verdicts

Every panel is one compiled program and one file of numbers in OUT; what is there already is not trained again, so a run
that was cut short goes on where it was, and figures share panels. A figure whose panels are all there is judged and
drawn. The files of numbers belong into docs/records/images, of which the tables in the docs are made.
"""

import argparse
import dataclasses
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import xarray

from neuralrace.datafiles import load_dataset, make_folder, save_dataset
from neuralrace.papers import get
from neuralrace.papers.experiment import Experiment, Result
from neuralrace.papers.saxe2022 import _routed
from neuralrace.papers.saxe2022._routed import Settings
from neuralrace.papers.saxe2022._routed_figure import RoutedFigure, all_panels
from neuralrace.papers.settings import override

FIGURES = ("saxe2022-fig8", "saxe2022-fig10", "saxe2022-fig9", "saxe2022-fig7", "pairs")


def part_file(out: Path, scan: _routed.Scan) -> Path:
    """Where the numbers of a scan are; the name says what was run, not where its files were."""
    told = dataclasses.asdict(scan)
    told.pop("folder")
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]
    kind = "linear" if scan.slope == 1 else "leaky"
    what = "gains" if len({gain for _, gain in scan.conditions}) > 1 else "pairs"
    return out / f"{scan.data}-{scan.inputs}-{scan.domains}-{kind}-{what}-{digest}.nc"


def train(out: Path, scan: _routed.Scan, dry: bool) -> xarray.Dataset | None:
    """The numbers of a scan, from its file or by training."""
    path = part_file(out, scan)
    if path.is_file():
        print(f"{path.name}: there already", flush=True)
        return load_dataset(path)
    networks = len(scan.conditions) * scan.seeds
    print(f"{path.name}: {networks} networks, {scan.steps} steps", flush=True)
    if dry:
        return None
    began = time.monotonic()
    data = _routed.measure(scan)
    took = time.monotonic() - began
    data.attrs |= {"seconds": took, "scan": json.dumps(dataclasses.asdict(scan) | {"folder": ""})}
    save_dataset(data, path)
    print(f"{path.name}: {took:.0f} s, {1e3 * took / scan.steps:.2f} ms a step", flush=True)
    table(data)
    return data


def table(data: xarray.Dataset) -> None:
    """Mean errors at the end, to look at while the rest trains."""
    errors = 100 * data["error"].isel(moment=-1).mean("seed")
    for number in range(data.sizes["condition"]):
        trained, untrained = errors.isel(condition=number).values
        k, gain = int(data["trained"][number]), float(data["gain"][number])
        loss = float(data["loss"].isel(condition=number, moment=-1).mean())
        print(f"  K = {k:3d}  gain {gain:<7g} trained {trained:5.1f} %  untrained {untrained:5.1f} %  loss {loss:.3f}")


def panels(out: Path, figure: RoutedFigure, settings: Settings, wanted: str, dry: bool) -> xarray.Dataset | None:
    """The numbers of a figure, panel by panel; None if a panel is still to be trained."""
    asked, parts = figure.scans(settings), {}
    for panel, scan in asked.items():
        left = wanted and panel.removesuffix(" over gains") not in wanted.split(",")
        part = train(out, scan, dry or bool(left and not part_file(out, scan).is_file()))
        if part is not None:
            parts[panel] = part
    return all_panels(asked, parts) if len(parts) == len(asked) else None


def whole(out: Path, experiment: Experiment, settings: Any, dry: bool) -> xarray.Dataset | None:
    """The numbers of an experiment that is one part."""
    path = out / f"{settings.data}-{experiment.name}.nc"
    print(f"{path.name}: {'there already' if path.is_file() else 'to be trained'}", flush=True)
    if not path.is_file():
        if dry:
            return None
        save_dataset(experiment.compute(settings), path)
    return load_dataset(path)


def finish(folder: Path, result: Result) -> None:
    """Judge and draw a figure."""
    for claim in result.claims:
        print(f"  {'holds' if claim.holds else 'FAILS'}: {claim.text} asked: {claim.asked}; measured: {claim.shown}")
    result.save(make_folder(folder))
    save_dataset(result.data, folder / result.experiment.name / "data.nc")


def main() -> None:
    """Train what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--folder", default="")
    parser.add_argument("--only", nargs="*", default=FIGURES)
    parser.add_argument("--panels", default="", help="train only these, such as permuted-40,rotated-40")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--out", type=Path, default=Path("results/images"))
    parser.add_argument("--results", type=Path, help="where figures and verdicts go; OUT/results unless given")
    parser.add_argument("--dry", action="store_true", help="list what would be trained")
    given = parser.parse_args()
    out = make_folder(given.out)
    changes: dict[str, Any] = {"data": given.data, "folder": given.folder}
    changes |= dict(change.split("=", 1) for change in given.changes)
    for name in given.only:
        experiment = get(name)
        settings, figure = override(experiment.full, changes), getattr(experiment.compute, "__self__", None)
        if isinstance(figure, RoutedFigure):
            data = panels(out, figure, settings, given.panels, given.dry)
        else:
            data = whole(out, experiment, settings, given.dry)
        if data is not None:
            print(f"{name}: judged", flush=True)
            finish(given.results or out / "results", Result(experiment, "full", settings, data))


if __name__ == "__main__":
    main()
