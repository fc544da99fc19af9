"""Figures on many workers: one over a grid of settings, or many side by side. Interrupted work resumes."""

import contextlib
import dataclasses
import hashlib
import io
import itertools
import json
import multiprocessing
import multiprocessing.resource_tracker
import os
import signal
import sys
import tempfile
import textwrap
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas
import xarray
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from neuralrace.datafiles import load_dataset, make_folder, save_dataset, write_text, write_whole
from neuralrace.errors import (
    FileFormatError,
    NeuralRaceError,
    RangeError,
    ResourceError,
    in_one_line,
    require_count,
    require_name,
)
from neuralrace.memory import free_memory
from neuralrace.papers import get
from neuralrace.papers import run as run_figure
from neuralrace.papers.experiment import SIZES, Experiment, Result
from neuralrace.papers.registry import FIGURES
from neuralrace.papers.settings import as_json, override
from neuralrace.plotting import label_axes, new_panels, sequence
from neuralrace.progress import Meter
from neuralrace.source import code_version, versions

Item = TypeVar("Item")
Found = TypeVar("Found")


class ClusterError(NeuralRaceError):
    """A dask cluster that cannot be reached, or whose workers run another version."""


@dataclass(frozen=True, eq=False)
class Swept:
    """A finished sweep.

    data: `status` ("done" or "failed") over the swept settings and, over these and `quantity`, `lowest` and `highest`,
    what the claims measured; `holds` says of each claim whether it holds. files: the values of the settings at a point
    -> its file. failed: settings as JSON -> reason.
    """

    experiment: Experiment
    axes: Mapping[str, tuple[Any, ...]]
    data: xarray.Dataset
    folder: Path
    files: Mapping[tuple[Any, ...], Path]
    failed: Mapping[str, str]

    def point(self, **settings: Any) -> xarray.Dataset:
        """Load everything that the figure computed at one point, for example `swept.point(std=1e-3)`."""
        place = tuple(settings.get(name) for name in self.axes)
        if place not in self.files or len(settings) > len(self.axes):
            values = "; ".join(f"{name} is one of {values}" for name, values in self.axes.items())
            raise RangeError(f"give one value for each of {', '.join(self.axes)}: {values}")
        return load_dataset(self.files[place])

    def summary(self) -> dict[str, Any]:
        """Return the sweep in plain values."""
        claims = []
        for text in self.data["claim"].values if "claim" in self.data else ():
            holds = self.data["holds"].sel(claim=text)
            claims.append({"claim": str(text), "points": int(holds.count()), "holds": int(holds.sum())})
        return {
            "experiment": self.experiment.name,
            "axes": {name: list(values) for name, values in self.axes.items()},
            "points": self.data["status"].size,
            "failed": [{"settings": json.loads(point), "why": why} for point, why in self.failed.items()],
            "claims": claims,
            "data": str(self.folder / "data.nc"),
        }

    def figure(self) -> Figure:
        """Draw what the claims measured, lowest to highest, over the setting with the most values."""
        along = max(self.axes, key=lambda name: len(self.axes[name]))
        if "quantity" not in self.data:
            figure, axes = new_panels(1)
            label_axes(axes[0], "nothing was measured", along, "")
            return figure
        others, values = [name for name in self.axes if name != along], self.data[along].values
        lines = self.data[["lowest", "highest"]].isel(quantity=slice(0, 12))
        lines = lines.stack(line=others, create_index=False) if others else lines.expand_dims("line")
        lines = lines.isel(line=slice(0, 6))
        figure, axes = new_panels(lines.sizes["quantity"])
        for number, axis in enumerate(axes):
            for place, color in enumerate(sequence(lines.sizes["line"])):
                line = lines.isel(line=place, quantity=number)
                label = ", ".join(f"{name} {line[name].item()}" for name in others)
                axis.plot(values, line["highest"], "o-", color=color, markersize=3, label=label or None)
                axis.fill_between(values, line["lowest"], line["highest"], color=color, alpha=0.2, linewidth=0)
            if values.dtype.kind in "fiu" and values.min() > 0 and values.max() > 20 * values.min():
                axis.set_xscale("log")
            what = textwrap.shorten(str(lines["quantity"].values[number]), 140, placeholder=" ...")
            label_axes(axis, "", along, textwrap.fill(what, 36))
        return figure


def sweep(
    name: str,
    settings: Mapping[str, Any],
    *,
    out: str | os.PathLike[str],
    size: str = "full",
    seeds: int | None = None,
    on: Any = "local",
    workers: int | None = None,
    progress: bool = True,
) -> Swept:
    """Run a figure for every combination of some settings' values.

    settings: name -> values. out: a folder with one file per finished point; run again, only what is missing is
    computed. on: "local", for processes of this machine, the address of a dask scheduler, or a dask client. workers:
    processes on this machine (default: one per core). A point that fails is marked and does not stop others.
    """
    experiment, base, axes = plan(name, settings, size=size, seeds=seeds)
    if on != "local" and workers is not None:
        raise ClusterError("workers is an option of on='local'; a dask scheduler has its own workers")
    workers = cores() if workers is None else require_count("workers", workers)
    folder = make_folder(out)
    chosen, files = {}, {}
    for point in itertools.product(*axes.values()):
        chosen[point] = dataclasses.replace(base, **dict(zip(axes, point, strict=True)))
        identity = json.dumps([name, size, as_json(chosen[point]), code_version(), versions()])
        files[point] = folder / f"points/{hashlib.sha256(identity.encode()).hexdigest()[:32]}.nc"
    missing = [point for point in files if _load(files[point]) is None]
    failed: dict[str, str] = {}
    with Meter("sweep", len(files), shown=progress, lines=True) as meter, contextlib.ExitStack() as opened:
        meter.advance(len(files) - len(missing))
        start: Callable[[int], Executor] = _local_pool
        if missing and on != "local":
            start, workers = opened.enter_context(_cluster(on))
        make_folder(folder / "points")  # not before: a cluster that cannot be reached leaves no trace
        work = partial(_compute_point, name, code_version())
        found = _run_all(work, [chosen[point] for point in missing], start, min(workers, len(missing)))
        for own, outcome in found:
            point = tuple(getattr(own, axis) for axis in axes)
            if isinstance(outcome, Exception):
                failed[json.dumps(dict(zip(axes, point, strict=True)))] = in_one_line(outcome)
            else:
                write_whole(files[point], partial(Path.write_bytes, data=outcome))
            meter.advance()
    swept = Swept(experiment, axes, _measurements(axes, files), folder, files, failed)
    save_dataset(swept.data, folder / "data.nc")
    write_text(folder / "claims.json", json.dumps(swept.summary(), indent=2) + "\n")
    write_whole(folder / "figure.png", lambda part: swept.figure().savefig(part, dpi=150))
    return swept


def plan(
    name: str, settings: Mapping[str, Any], *, size: str = "full", seeds: int | None = None
) -> tuple[Experiment, Any, dict[str, tuple[Any, ...]]]:
    """Check a sweep before anything starts; return the figure, its other settings and the values of each axis.

    settings: name -> values, or text as on the command line: "a,b", and "a,b;c,d" for settings that are lists.
    """
    experiment = get(name)
    require_name("size", size, SIZES)
    base = experiment.full if size == "full" else experiment.tiny
    base = base if seeds is None else override(base, {"seeds": require_count("seeds", seeds)})
    if not isinstance(settings, Mapping) or not settings:
        known = ", ".join(field.name for field in dataclasses.fields(base))
        raise RangeError(f"a sweep needs at least one setting with its values; {name} has {known}")
    if seeds is not None and "seeds" in settings:
        raise RangeError("seeds are given twice: as a number, and among the settings that are swept")
    axes = {}
    for axis, given in settings.items():
        if isinstance(given, str):
            given = [part.strip() for part in given.split(";" if isinstance(getattr(base, axis, None), tuple) else ",")]
        parts = given if isinstance(given, Sequence) else np.atleast_1d(given).tolist()
        if not parts or "" in parts:
            raise RangeError(f"setting {axis!r} needs at least one value, and none may be empty; it was {given!r}")
        axes[axis] = tuple(getattr(override(base, {axis: part}), axis) for part in parts)
        if len(set(axes[axis])) < len(axes[axis]):
            raise RangeError(f"the values of setting {axis!r} must differ; they are {', '.join(map(str, axes[axis]))}")
    for point in itertools.product(*axes.values()):
        experiment.check(dataclasses.replace(base, **dict(zip(axes, point, strict=True))))
    return experiment, base, axes


def reproduced(
    names: Sequence[str],
    size: str,
    out: str | Path,
    workers: int | None = None,
    begin: Callable[[str], object] = lambda name: None,
    also: Callable[[Result], Any] = lambda result: None,
) -> Iterator[tuple[str, Result | Exception, Any]]:
    """Run figures side by side and save their files; those that are finished there are reused.

    Yields the name, the result or why it failed, and what `also`, a function of a module, makes of the result in the
    worker; in the order of the names. workers: processes (default: one per core, memory permitting). begin: called
    with the name of each figure that starts.
    """
    if workers is None:
        free = free_memory()  # a process took 3.2 GiB after five figures
        workers = max(1, min(len(names), cores(), len(names) if free is None else free // (4 << 30)))
    start = None if require_count("workers", workers) == 1 else _local_pool
    work = partial(_reproduce, size, str(Path(out).absolute()), also)
    longest_first = names if start is None else sorted(names, key=lambda name: -FIGURES[name].seconds)
    waiting, ended = deque(names), dict[str, Any]()
    for name, made in _run_all(work, longest_first, start, min(workers, len(names)), begin):
        ended[name] = made
        while waiting and waiting[0] in ended:
            first = waiting.popleft()
            made = ended[first]
            failed = isinstance(made, Exception)
            yield first, made if failed else run_figure(first, size, out=out, reuse=True), made


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _reproduce(size: str, out: str, also: Callable[[Result], Any], name: str) -> Any:
    result = run_figure(name, size, out=out, reuse=True)
    result.save(out)
    return also(result)


def _compute_point(name: str, code: str, settings: Any) -> bytes:
    """Compute one point and return its file, for workers may have no disk in common with the client."""
    if code_version() != code:
        raise ClusterError(
            f"every worker must run the same code as the client; install {versions()['neuralrace']} there"
        )
    experiment = get(name)
    data = experiment.compute(settings)
    try:
        claims = [claim.as_values() for claim in experiment.claims(data)]
    except Exception:  # some settings leave a claim without anything to measure
        claims = []
    with tempfile.TemporaryDirectory() as folder:
        stamped = data.assign_attrs(experiment=name, settings=as_json(settings), claims=json.dumps(claims))
        return save_dataset(stamped, Path(folder) / "point.nc").read_bytes()


def _measurements(axes: Mapping[str, tuple[Any, ...]], files: Mapping[tuple[Any, ...], Path]) -> xarray.Dataset:
    """Collect status and measurements of all points."""
    points = []
    for file in files.values():
        data = _load(file)
        holds: dict[str, float] = {}
        ranges: dict[str, tuple[float, float]] = {}
        for claim in json.loads("[]" if data is None else data.attrs["claims"]):
            holds[claim["text"]] = float(claim["holds"])
            for quantity in claim["quantities"]:
                numbers = [float(n) for value in quantity["values"] for n in np.atleast_1d(value) if n is not None]
                if numbers:
                    ranges[f"{claim['text']} {quantity['what']}"] = min(numbers), max(numbers)
        found: dict[str, Any] = {"status": "failed" if data is None else "done"}
        if holds:
            found["holds"] = xarray.DataArray(list(holds.values()), {"claim": list(holds)})
        if ranges:
            ends = np.array(list(ranges.values()))
            for place, end in enumerate(("lowest", "highest")):
                found[end] = xarray.DataArray(ends[:, place], {"quantity": list(ranges)})
        points.append(xarray.Dataset(found))
    coordinates = [[str(v) if isinstance(v, tuple) else v for v in values] for values in axes.values()]
    index = pandas.MultiIndex.from_product(coordinates, names=list(axes))
    whole = xarray.concat(points, "point", join="outer", data_vars="all", coords="minimal", compat="override")
    whole = whole.assign_coords(xarray.Coordinates.from_pandas_multiindex(index, "point")).unstack("point")
    return whole.reindex(dict(zip(axes, coordinates, strict=True))).transpose(*axes, ...)


@contextlib.contextmanager
def _cluster(on: Any) -> Iterator[tuple[Callable[[int], Executor], int]]:
    """Connect to a dask cluster; yield what starts an executor there, and the number of its threads."""
    try:
        import distributed
    except ImportError:
        raise ClusterError("a cluster needs dask: pip install 'neuralrace[sweeps]'") from None
    with contextlib.ExitStack() as opened:
        try:
            connect: Any = distributed.Client
            client = on
            if not isinstance(on, connect):
                client = opened.enter_context(connect(str(on), timeout=5, set_as_default=False))
            client.wait_for_workers(1, timeout=5)
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            raise ClusterError(
                f"could not connect to workers at {on!r} ({in_one_line(error)}): give on='local', or the address of a "
                "dask scheduler with workers, like tcp://HOST:8786"
            ) from None
        threads = sum(worker["nthreads"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
        try:
            yield lambda number: client.get_executor(pure=False), threads
        except OSError as error:
            raise ClusterError(
                f"lost the cluster ({in_one_line(error)}): finished points are kept, run it again"
            ) from None


def _local_pool(workers: int) -> ProcessPoolExecutor:
    """Start processes with one thread each that no interruption from the terminal reaches."""
    multiprocessing.resource_tracker.ensure_running()  # it lets interruptions through again as it starts
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin_worker)
        for _ in range(workers):  # each starts a process, while no other is ready
            pool.submit(os.getpid)
    finally:
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return pool


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stderr = io.StringIO()  # progress bars of several processes would overwrite each other
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    os.environ |= {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "XLA_FLAGS": flags}
    threadpool_limits(1)  # of libraries that are loaded already


def _run_all(
    work: Callable[[Item], Found],
    items: Sequence[Item],
    start: Callable[[int], Executor] | None,
    workers: int,
    begin: Callable[[Item], object] = lambda item: None,
) -> Iterator[tuple[Item, Found | Exception]]:
    """Yield each item with what `work` returns or raises, in the order in which they end.

    start: makes an executor for a number of workers; None runs the items in this process, one after the other. A worker
    that dies takes its pool with it. The items that were under way are then tried again, each alone, which shows the
    one that kills its worker.
    """
    killed = ResourceError(
        "it killed its worker on every attempt, most likely because it needs more memory: make it smaller"
    )
    outcome: Any
    if start is None:
        for item in items:
            begin(item)
            try:
                outcome = work(item)
            except Exception as error:
                outcome = error
            yield item, outcome
        return
    waiting, suspects = deque(items), deque[Item]()
    while waiting or suspects:
        count = workers if waiting else 1
        queue = waiting or deque([suspects.popleft()])
        others, running = set(multiprocessing.active_children()), dict[Future[Found], Item]()
        executor = start(count)
        try:
            while queue or running:
                while queue and len(running) < count:
                    if queue is waiting:
                        begin(queue[0])
                    running[executor.submit(work, queue[0])] = queue[0]
                    queue.popleft()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    try:
                        outcome = future.result()
                    except BrokenProcessPool:
                        raise
                    except Exception as error:  # dask has tried a killed task on several workers
                        outcome = killed if type(error).__name__ == "KilledWorker" else error
                    yield running.pop(future), outcome
        except BrokenProcessPool:
            if queue is waiting:
                suspects.extend(running.values())
            else:
                yield (*running.values(), *queue)[0], killed
        finally:
            for child in set(multiprocessing.active_children()) - others:  # an interruption must not wait for them
                child.kill()
            executor.shutdown(wait=False)


def _load(path: Path) -> xarray.Dataset | None:
    """Load a finished point; None if it is missing or damaged."""
    try:
        return load_dataset(path)
    except FileFormatError:
        return None
