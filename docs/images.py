"""Figures 7 to 10 of P1 at the paper's sizes: trained on a GPU, panel by panel, and kept as small records.

    python -m docs.images --folder FOLDER --out OUT                                        # --dry lists what is missing
    python -m docs.images --folder FOLDER --only saxe2022-fig8 --panels permuted-40 --out OUT
    python -m docs.images --folder FOLDER --only pairs moments --out OUT                   # theory on real data
    python -m docs.verdicts --larger OUT/results                                           # onto the page of verdicts

Every panel is one compiled program and one file of numbers in OUT; what is there already is not trained again, so a run
that was cut short goes on where it was, and figures share panels. A figure whose panels are all there is judged and
drawn into OUT/results. The files of numbers belong into docs/records.
"""

import argparse
import dataclasses
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import xarray

import neuralrace as nr
from neuralrace.datafiles import load_dataset, make_folder, save_dataset
from neuralrace.experiments.experiment import Result
from neuralrace.experiments.figures import _pairs_images, _routed
from neuralrace.experiments.figures._routed_figure import RoutedFigure, assemble
from neuralrace.experiments.figures.pairs import IMAGES
from neuralrace.experiments.registry import get
from neuralrace.experiments.settings import override
from neuralrace.experiments.store import save_result

GAINS, DRAWS = (1.0, 0.1, 0.01, 0.001, 0.0001), 3
FIGURES = ("saxe2022-fig8", "saxe2022-fig10", "saxe2022-fig9", "saxe2022-fig7")


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


def forecast_curves(out: Path, data: str, folder: str, dry: bool) -> None:
    """Curves of squared errors from moments, beside training, for `pairs`."""
    path, given = out / f"{data}-curves.nc", dataclasses.replace(IMAGES[data], folder=folder)
    print(f"{path.name}: {'there already' if path.is_file() else given.forecast}", flush=True)
    if path.is_file() or dry:
        return
    began = time.monotonic()
    found = _pairs_images.curves(given)
    save_dataset(found.assign_attrs(seconds=time.monotonic() - began), path)
    print(f"{path.name}: {found.attrs}", found["curve_flow"].isel(image_time=-1).values, flush=True)
    print(found["curve_trained"].isel(image_time=-1).values, flush=True)


def forecast_gains(out: Path, data: str, folder: str, dry: bool) -> None:
    """Squared errors of Fig 10 from moments alone: in the paper's time, and when trained pairs are learned."""
    for domains in (40, 100):
        path = out / f"{data}-moments-{domains}.nc"
        print(f"{path.name}: {'there already' if path.is_file() else 'to be forecast'}", flush=True)
        if path.is_file() or dry:
            continue
        began = time.monotonic()
        sizes = _routed.SIZES[data]
        task = nr.tasks.routed_images(data, domains, sizes.trained, folder=folder)
        found = _pairs_images.by_gain(task, sizes.hidden, GAINS, DRAWS, _routed.PAPER_TIME)
        save_dataset(found.assign_attrs(seconds=time.monotonic() - began), path)
        print(f"{path.name}: {time.monotonic() - began:.0f} s\n{found['error'].mean('draw').values}", flush=True)
        print(found["learned"].values, flush=True)


def finish(out: Path, result: Result) -> None:
    """Judge and draw a figure."""
    for claim in result.claims:
        print(
            f"  {'holds' if claim.holds else 'FAILS'}: {claim.text} asked: {claim.expected}; measured: {claim.measured}"
        )
    folder = make_folder(out / "results")
    save_result(result, folder)
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
    parser.add_argument("--dry", action="store_true", help="list what would be trained")
    given = parser.parse_args()
    out = make_folder(given.out)
    changes: dict[str, Any] = {"data": given.data, "folder": given.folder}
    changes |= dict(change.split("=", 1) for change in given.changes)
    wanted = given.panels.split(",") if given.panels else None
    others = {"pairs": forecast_curves, "moments": forecast_gains}
    for name in given.only:
        if name in others:
            others[name](out, given.data, given.folder, given.dry)
            continue
        experiment = get(name)
        settings = override(experiment.full, changes)
        figure: RoutedFigure = getattr(experiment.compute, "__self__")  # noqa: B009
        asked, parts = figure.scans(settings), {}
        for panel, scan in asked.items():
            left = wanted is not None and panel.removesuffix(" over gains") not in wanted
            parts[panel] = train(out, scan, given.dry or (left and not part_file(out, scan).is_file()))
        if all(part is not None for part in parts.values()):
            print(f"{name}: judged", flush=True)
            finish(out, Result(experiment, "full", settings, assemble(asked, parts)))


if __name__ == "__main__":
    main()
