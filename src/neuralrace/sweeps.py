"""Grids of settings on many workers: over a task, a function or a figure. Interrupted sweeps resume."""

import contextlib
import hashlib
import inspect
import itertools
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import xarray
from matplotlib.figure import Figure

from neuralrace import explanation, initial, papers, tasks
from neuralrace.analysis import agreement, time_to
from neuralrace.errors import (
    FileFormatError,
    RangeError,
    UnknownNameError,
    nearest,
    require_count,
    require_known,
    require_name,
    shortened,
)
from neuralrace.explanation.recipe import choose_recipe, choose_width
from neuralrace.io import code_version, load_dataset, make_folder, save_dataset, versions, write_text, write_whole
from neuralrace.objectives import NAMED
from neuralrace.papers.experiment import SIZES, as_json, override, setting
from neuralrace.plotting import lay_out
from neuralrace.plotting.panels import curve_panels
from neuralrace.problem import ReLUNetwork
from neuralrace.progress import Meter
from neuralrace.task import Task
from neuralrace.theory import Forecast, predict
from neuralrace.training import train
from neuralrace.training.checkpoint import digest
from neuralrace.trajectory import Trajectory
from neuralrace.workers import call, cluster, cores, fingerprint, pack, processes

MOST_POINTS, MOST_CURVES = 100_000, 500


@dataclass(frozen=True)
class Networks:
    """The settings of ReLU networks on a task; None, and an empty `hidden`, are chosen as `explain` chooses them."""

    hidden: str = ""
    depth: int = 1
    std: float | None = None
    relative: float | None = None
    learning_rate: float | None = None
    steps: int | None = None
    biases: bool = False
    seeds: int = 5
    loss: str = setting("squared", words=tuple(NAMED))

    def check(self) -> None:
        """Refuse settings that do not go together."""
        if self.std is not None and self.relative is not None:
            raise RangeError("std and relative both set the initial weights: give one of them")
        if self.depth > 1 and not self.hidden.isdigit():
            raise RangeError("depth repeats one width: give hidden=50, or no depth and all widths as hidden=50x50")


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """A finished sweep.

    table: the settings of each point, what was computed there, its `file`, and the reason if the point `failed`.
    settings: the columns that are settings. folder: where the files are.
    """

    table: pandas.DataFrame
    settings: tuple[str, ...]
    folder: Path

    def __repr__(self) -> str:
        return str(self.table.drop(columns="file").to_string(float_format="{:.4g}".format, max_colwidth=50))

    def _repr_html_(self) -> str:
        return str(self.table.drop(columns="file").to_html(float_format="{:.4g}".format))

    def data(self, row: Any) -> xarray.Dataset:
        """Load everything that was computed at the point in a row of the table; curves are `run` and `forecast`."""
        require_known(row, list(self.table.index), f"the table has no row {shortened(row)}")
        return load_dataset(self.table["file"][row])

    def figure(self) -> Figure:
        """Draw the learning curves: a panel for each value of the first setting, a color for each of the others.

        Single networks are thin lines, their median is a strong one, and the median forecast is black and dashed.
        """
        points = self.table[self.table["failed"].isna()].drop_duplicates("file").head(MOST_CURVES)
        curves: dict[Any, Any] = {r: data for r in points.index if {"run", "forecast"} & set(data := self.data(r))}
        if not curves:
            raise RangeError("no point of this sweep has learning curves: draw its numbers, with table.plot(...)")
        drawn = points.loc[list(curves)]
        varied = [name for name in self.settings if drawn[name].nunique() > 1] or [self.settings[0]]
        first, *others = ([f"{n} = {v:g}" if isinstance(v, float) else f"{n} = {v}" for v in drawn[n]] for n in varied)
        labels = [", ".join(texts) for texts in zip(*(others or [first]), strict=True)]
        return curve_panels(first if others else ["learning curves"] * len(first), labels, list(curves.values()))


def sweep(
    what: Any,
    settings: Mapping[str, Any],
    *,
    out: str | os.PathLike[str],
    size: str = "full",
    seeds: int | None = None,
    on: Any = "local",
    workers: int | None = None,
    progress: bool = True,
) -> Sweep:
    """Train and forecast networks, call a function, or run a figure, for every combination of some settings' values.

    what: a task or its name: ReLU networks are trained on it and forecast, with the settings hidden (a width, or widths
    by layer, "50x20"), depth (layers of that width), std or relative (see `initial.gaussian`, `initial.relative`),
    learning_rate, steps, biases, seeds, loss; those not given are chosen as in `explain`. Or a function of your own: it
    is called with the settings as keyword arguments and returns a trajectory, a forecast and a run, numbers by name, or
    an xarray dataset. Or the name of a paper's figure, with its settings.

    settings: name -> values, or text as on the command line: "a,b", and "a,b;c,d" for settings that are lists. out: a
    folder with one file per finished point; run again, only what is missing is computed. size: of a figure. seeds: of
    a figure, or of networks on a task. on: "local", for processes of this machine, the address of a dask scheduler, or
    a dask client. workers: processes on this machine (default: one per core). A point that fails is marked and does
    not stop others.

    The table has a row for each point. Of networks: the final `loss`, the time and the step at which half of the
    initial loss is left (medians over networks), the same of the forecast (`predicted_...`), and the `normalized_l1`
    distance of their means. Of a function: its numbers. Of a figure: a row for each point, claim and measured quantity,
    with its `lowest` and `highest` value, and whether the claim `holds`. The folder holds the table as data.csv and the
    learning curves as figure.png.
    """
    names = list(settings) if isinstance(settings, Mapping) else []
    base, check, key, compute = _resolve(what, names, size, {} if seeds is None else {"seeds": seeds})
    if not names or (seeds is not None and "seeds" in names):
        known = f"{shortened(what)} has {', '.join(vars(base))}" if base else "a function has its arguments"
        raise RangeError(f"a sweep needs at least one setting with its values, each setting once; {known}")
    axes = _axes(base, settings)
    if on != "local" and workers is not None:
        raise RangeError("workers is an option of on='local'; a dask scheduler has its own workers")
    workers = cores() if workers is None else require_count("workers", workers)
    packed, folder, points = pack(compute), make_folder(out), []
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        if base:
            check(changed := override(base, point))
        identity = json.dumps([*key, as_json(changed) if base else point, code_version(), dict(versions())])
        file = folder / f"points/{hashlib.sha256(identity.encode()).hexdigest()[:32]}.nc"
        points.append(point | {"file": str(file), "failed": None})
    missing = [point for point in points if _load(point["file"]) is None]
    with Meter("sweep", len(points), "points", shown=progress) as meter, contextlib.ExitStack() as opened:
        meter.advance(len(points) - len(missing))
        futures = {}
        if missing:
            executor = opened.enter_context(processes(len(missing), workers) if on == "local" else cluster(on))
            make_folder(folder / "points")  # not earlier, so that an unreachable cluster leaves no folder behind
            for point in missing:
                chosen = {name: point[name] for name in axes}
                futures[executor.submit(call, packed, code_version(), chosen)] = point
        for future in as_completed(futures):
            point = futures.pop(future)  # and with it what was computed, once it is saved
            try:
                found = future.result()
                point["failed"] = found if isinstance(found, str) else save_dataset(found, point["file"]) and None
            except BrokenProcessPool:
                raise
            except Exception as error:
                point["failed"] = shortened(error, 300)
            meter.advance()
    rows = [row | point for point in points for row in _rows(_load(point["file"]))]
    computed = (name for row in rows for name in row if name not in ("file", "failed"))
    columns = dict.fromkeys([*axes, *computed, "file", "failed"])
    swept = Sweep(pandas.DataFrame(rows, columns=list(columns)), tuple(axes), folder)
    write_text(folder / "data.csv", swept.table.to_csv(index=False))
    with contextlib.suppress(RangeError):  # without curves
        figure = lay_out(swept.figure())
        write_whole(folder / "figure.png", lambda part: figure.savefig(part, dpi=150))
    return swept


def _resolve(
    what: Any, names: list[Any], size: str, common: Mapping[str, Any]
) -> tuple[Any, Callable, list[Any], Callable]:
    """Return the settings with their defaults, their check, the key of what is swept, and the work of a point.

    A function has no settings with defaults: None.
    """
    figure = isinstance(what, str) and what in papers.names()
    if figure and what in tasks.names():
        raise UnknownNameError(f"{what!r} names a figure and a task: give the task itself, tasks.get({what!r})")
    if figure:
        experiment = papers.get(what)
        base = override(getattr(experiment, require_name("size", size, SIZES)), common)
        return base, experiment.check, [what, size], partial(_figure, what, size, common)
    if size != "full" or (common and callable(what)):
        raise RangeError("size is for figures, and seeds for figures and tasks: leave it out, or make it a setting")
    if callable(what):
        with contextlib.suppress(ValueError):  # a function without an inspectable signature
            try:
                (signature := inspect.signature(what)).bind(**dict.fromkeys(names))
            except TypeError as error:
                raise RangeError(f"the settings must be the arguments of the function, {signature}: {error}") from None
        return None, print, ["function", fingerprint(what)], partial(_returned, what)
    try:
        task = explanation.resolve(what).task
    except UnknownNameError:
        known = nearest(what, [*tasks.names(), *papers.names()])
        raise UnknownNameError(f"there is no task, figure or file {what!r}; {known}") from None
    arrays = {("input", node): rows for node, rows in task.inputs.items()}
    arrays |= {("target", node): rows for node, rows in task.targets.items()} | {("weights", ""): task.weights}
    return override(Networks(), common), Networks.check, ["task", digest({}, arrays)], partial(_trained, task, common)


def _axes(base: Any, settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Read the values of each setting."""
    parts: dict[str, Any] = {}
    for axis, given in settings.items():
        if isinstance(given, str) and base:
            split = given.split(";" if isinstance(getattr(base, axis, None), tuple) else ",")
            given = [part.strip() for part in split if all(map(str.strip, split))]
        parts[axis] = given if isinstance(given, list | tuple | range) else np.atleast_1d(given)
    count = math.prod(map(len, parts.values()))
    if count > MOST_POINTS:
        raise RangeError(
            f"a sweep has at most {MOST_POINTS:,} points; these settings make {count:,}: give fewer values"
        )

    def read(axis: str, value: Any) -> Any:
        value = np.asarray(value).tolist() if hasattr(value, "dtype") else value
        if isinstance(base, Networks) and axis == "hidden":
            text = "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
                raise RangeError(
                    f"setting 'hidden' must be a width like 50, or widths like 50x20; it was {shortened(value)}"
                )
            return text if "x" in text else int(text)
        return getattr(override(base, {axis: value}), axis) if base else _plain(f"setting {axis!r}", value)

    axes = {axis: [read(axis, value) for value in values] for axis, values in parts.items()}
    for axis, values in axes.items():
        if not values or len(set(values)) < len(values):
            given = shortened(settings[axis])
            raise RangeError(f"setting {axis!r} needs at least one value, and different ones; they were {given}")
    return axes


def _plain(name: str, value: Any) -> Any:
    """Return a value that can stand in a table and in JSON."""
    value = np.asarray(value).tolist() if hasattr(value, "dtype") else value
    if isinstance(value, list | tuple):
        return tuple(_plain(name, part) for part in value)
    if not (value is None or isinstance(value, bool | int | float | str)):
        raise RangeError(f"{name} must be numbers, words, True, False or None; it was {shortened(value)}")
    return value


def _figure(name: str, size: str, common: Mapping[str, Any], /, **point: Any) -> xarray.Dataset:
    result = papers.run(name, size, changes={**common, **point})
    try:
        claims = [claim.as_values() for claim in result.claims]
    except Exception:  # some settings leave a claim without anything to measure
        claims = []
    return result.data.assign_attrs(claims=json.dumps(claims))


def _trained(task: Task, common: Mapping[str, Any], /, **point: Any) -> xarray.Dataset:
    """Train and forecast ReLU networks on a task."""
    chosen = override(Networks(), {**common, **point})
    widths = [int(width) for width in chosen.hidden.split("x") if width] or [choose_width(task)]
    network = ReLUNetwork(task, widths * chosen.depth, biases=chosen.biases)
    gaussian = None if chosen.std is None else initial.gaussian(chosen.std)
    given = gaussian if chosen.relative is None else initial.relative(chosen.relative)
    start, rate, steps, caution = choose_recipe(network, given, chosen.learning_rate, chosen.steps, key=0)
    at = np.unique(np.round([*np.linspace(0, steps, 101), *np.geomspace(1, max(steps, 1), 50)]).astype(int)).tolist()
    run = train(network, start, rate, steps, seeds=chosen.seeds, loss=chosen.loss, at=at, progress=False)
    squared = chosen.loss == "squared"
    forecast = predict(network, start, run.time, learning_rate=rate) if squared else None
    more = {"learning_rate": rate, "steps": steps, "caution": caution if squared else ""}
    return _curves(run, forecast, {name: value for name, value in more.items() if name not in point})


def _returned(function: Callable, /, **point: Any) -> xarray.Dataset:
    """Call a function of the user's and describe what it returns."""
    found = function(**point)
    curves = list(found) if isinstance(found, list | tuple) else [found]
    if all(isinstance(one, Trajectory) for one in curves):
        by_kind = {"method" in one.settings: one for one in curves}
        if len(by_kind) == len(curves) > 0:
            return _curves(by_kind.get(False), by_kind.get(True), {})
    if not isinstance(found, Mapping | xarray.Dataset):
        raise RangeError(
            "the function must return a trajectory, a forecast and a run, numbers by name, or an xarray dataset; it "
            f"returned {shortened(found)}"
        )
    data = found.load() if isinstance(found, xarray.Dataset) else xarray.Dataset()
    named = {name: value for name, value in found.items() if not (data and value.ndim)}
    if taken := {*point, "file", "failed"} & set(named):
        raise RangeError(f"the function returns {min(taken)!r}, which the table has already: give it another name")
    numbers = {name: _plain(f"the number {name!r}", value) for name, value in named.items()}
    return data.assign_attrs(numbers=json.dumps(numbers))


def _curves(run: Trajectory | None, forecast: Trajectory | None, more: Mapping[str, Any]) -> xarray.Dataset:
    """Keep the losses of a run and a forecast, and describe them by numbers."""
    data, numbers = xarray.Dataset(), dict[str, Any]()
    rate = None if run is None else run.settings["learning_rate"]
    for name, prefix, axis, curve in (("run", "", "seed", run), ("forecast", "predicted_", "draw", forecast)):
        if curve is not None:
            losses, rate = curve.losses, rate or curve.settings["learning_rate"]
            data = data.assign_coords(time=curve.time).assign({name: ((axis, "time"), losses)})
            half = float(np.median(time_to(curve.time, losses, 0.5 * losses[:, 0])))
            numbers |= {f"{prefix}loss": float(np.median(losses[:, -1])), f"{prefix}half_time": half}
            numbers |= {f"{prefix}half_step": float(np.ceil(half / rate))} if rate else {}
    if run is not None:
        kinds, counts = np.unique(run.status, return_counts=True)
        numbers["status"] = ", ".join(f"{count} {kind}" for kind, count in zip(kinds, counts, strict=True))
    if run is not None and forecast is not None:
        numbers["normalized_l1"] = agreement(forecast, run).normalized_l1
    if isinstance(forecast, Forecast):  # a loaded one has its certificate as text
        numbers["certificate_holds"] = forecast.certificate.holds
    return data.assign_attrs(numbers=json.dumps({**numbers, **more}))


def _rows(stored: xarray.Dataset | None) -> list[dict[str, Any]]:
    """Return what the table says about a point: one row, or one for each claim and quantity of a figure."""
    if stored is None or "numbers" in stored.attrs:
        return [{} if stored is None else json.loads(stored.attrs["numbers"])]
    rows = []
    for claim in json.loads(stored.attrs["claims"]):
        for quantity in claim["quantities"]:
            numbers = [float(n) for value in quantity["values"] for n in np.atleast_1d(value) if n is not None]
            row = {"claim": claim["text"], "holds": claim["holds"], "quantity": quantity["what"]}
            rows.append(row | {"lowest": min(numbers, default=np.nan), "highest": max(numbers, default=np.nan)})
    return rows or [{}]


def _load(path: str) -> xarray.Dataset | None:
    """Load a finished point; None if it is missing or damaged."""
    try:
        return load_dataset(path)
    except FileFormatError:
        return None
