"""Figures on many workers: one over a grid of settings, or many side by side. Interrupted work resumes."""

import contextlib
import dataclasses
import hashlib
import io
import itertools
import json
import logging
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
import xarray
from matplotlib.figure import Figure

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
from neuralrace.plotting import label_axes, new_figure, new_panels, sequence
from neuralrace.progress import Meter
from neuralrace.source import versions

Item = TypeVar("Item")
Found = TypeVar("Found")


KILLED = "it killed its worker on every attempt, most likely because it needs more memory: make it smaller"


class ClusterError(NeuralRaceError):
    """A dask cluster that cannot be reached, or whose workers run another version."""


@dataclass(frozen=True, eq=False)
class Swept:
    """A finished sweep.

    data: `status` ("done" or "failed") over the swept settings and, over these and `quantity`, `lowest` and `highest`,
    what the claims measured; `holds` says of each claim whether it holds. failed: settings as JSON -> reason.
    """

    experiment: Experiment
    axes: Mapping[str, tuple[Any, ...]]
    data: xarray.Dataset
    folder: Path
    failed: Mapping[str, str]

    def point(self, **settings: Any) -> xarray.Dataset:
        """Load everything that the figure computed at one point, for example `swept.point(std=1e-3)`."""
        place = tuple(_find(self.axes, name, settings) for name in self.axes)
        return load_dataset(self.folder / str(self.data["file"].values[place]))

    def summary(self) -> dict[str, Any]:
        """Return the sweep in plain values."""
        holds = self.data["holds"].values.reshape(-1, self.data.sizes["claim"]) if "claim" in self.data.sizes else None
        claims = [] if holds is None else zip(self.data["claim"].values, holds.T, strict=True)
        return {
            "experiment": self.experiment.name,
            "axes": {name: list(values) for name, values in self.axes.items()},
            "points": self.data["status"].size,
            "failed": [{"settings": json.loads(point), "why": why} for point, why in self.failed.items()],
            "claims": [
                {"claim": str(text), "points": int(np.isfinite(row).sum()), "holds": int(np.nansum(row))}
                for text, row in claims
            ],
            "data": str(self.folder / "data.nc"),
        }

    def figure(self) -> Figure:
        """Draw what the claims measured, lowest to highest, over the setting with the most values."""
        along = max(self.axes, key=lambda name: len(self.axes[name]))
        if "quantity" not in self.data.sizes:
            figure, panels = new_figure()
            label_axes(panels[0, 0], "nothing was measured", along, "")
            return figure
        shown, labels = self.data.isel(quantity=slice(0, 12)), self.data[along].values
        numeric = labels.dtype.kind in "fiu"
        places = labels if numeric else np.arange(len(labels))
        others = [name for name in self.axes if name != along]
        stacked = shown.stack(line=others) if others else shown.expand_dims(line=[""])
        figure, axes = new_panels(shown.sizes["quantity"])
        for number, axis in enumerate(axes):
            one = stacked.isel(quantity=number)
            for place, color in zip(range(min(one.sizes["line"], 6)), sequence(min(one.sizes["line"], 6)), strict=True):
                line = one.isel(line=place)
                low, high = (line[name].transpose(along).values for name in ("lowest", "highest"))
                label = ", ".join(f"{name} {line[name].item()}" for name in others)
                axis.plot(places, high, "o-", color=color, markersize=3, label=label or None)
                axis.fill_between(places, low, high, color=color, alpha=0.2, linewidth=0)
            if not numeric:
                axis.set_xticks(places, [str(label) for label in labels])
            elif (labels > 0).all() and labels.max() > 20 * labels.min():
                axis.set_xscale("log")
            what = textwrap.shorten(str(one["quantity"].values), 140, placeholder=" ...")
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

    settings: name -> values. out: a folder with one file per finished point; run again, the same sweep computes only
    what is missing. on: "local", for processes of this machine, the address of a dask scheduler, or a dask client.
    workers: processes on this machine (default: one per core). A point that fails is marked and does not stop others.
    """
    experiment, base, axes = plan(name, settings, size=size, seeds=seeds)
    if on != "local" and workers is not None:
        raise ClusterError("workers is an option of on='local'; a dask scheduler has its own workers")
    workers = None if workers is None else require_count("workers", workers)
    identity = {"experiment": name, "size": size, "settings": json.loads(as_json(base)), "versions": versions()}
    identity = json.loads(json.dumps(identity | {"axes": axes}))
    folder = make_folder(out)
    description = folder / "sweep.json"
    if os.path.lexists(description):
        try:
            stored = json.loads(description.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileFormatError(f"{description} cannot be read ({error}): remove it") from None
        if stored != identity:
            other = next((key for key in identity if stored.get(key) != identity[key]), "its kind")
            raise FileFormatError(f"{folder} holds another sweep, which differs in {other}: give another folder")
    points, files = list(itertools.product(*axes.values())), {}
    chosen = {point: dataclasses.replace(base, **dict(zip(axes, point, strict=True))) for point in points}
    for point, own in chosen.items():
        text = json.dumps([name, size, as_json(own), versions()])
        files[point] = f"points/{hashlib.sha256(text.encode()).hexdigest()[:32]}.nc"
    failed: dict[str, str] = {}
    missing = [point for point in points if _load(folder / files[point]) is None]
    with Meter("sweep", len(points), shown=progress, lines=True) as meter:
        meter.advance(len(points) - len(missing))
        work = partial(_compute_point, name, versions()["code"])
        with contextlib.ExitStack() as opened:
            start = opened.enter_context(_executor(on, workers, len(missing))) if missing else None
            make_folder(folder / "points")  # not before: a cluster that cannot be reached leaves no trace
            write_text(description, json.dumps(identity, indent=2) + "\n")
            for own, found in _run_all(start, work, [chosen[point] for point in missing]):
                point = tuple(getattr(own, axis) for axis in axes)
                if isinstance(found, Exception):
                    failed[json.dumps(dict(zip(axes, point, strict=True)))] = in_one_line(found)
                else:
                    write_whole(folder / files[point], partial(Path.write_bytes, data=found))
                meter.advance()
    swept = Swept(experiment, axes, _table(axes, points, files, folder), folder, failed)
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
            given = given.split(";" if isinstance(getattr(base, axis, None), tuple) else ",")
        parts = given if isinstance(given, Sequence) else np.atleast_1d(given).tolist()
        parts = [part.strip() if isinstance(part, str) else part for part in parts]
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
    formats: Sequence[str],
    workers: int | None = None,
    begin: Callable[[str], object] = lambda name: None,
    also: Callable[[Result], Any] = lambda result: None,
) -> Iterator[tuple[str, Result | Exception, Any]]:
    """Run figures side by side and save their files; those that are finished there are reused.

    Yields the name, the result or why it failed, and what `also`, a function of a module, makes of the result in the
    worker; in the order of the names. workers: processes (default: one per core, memory permitting). begin: called
    with the name of each figure that starts.
    """
    workers = None if workers is None else require_count("workers", workers)
    if workers is None:
        free = free_memory()  # a process took 3.2 GiB after five figures
        workers = max(1, min(len(names), cores(), len(names) if free is None else free // (4 << 30)))
    work = partial(_reproduce, size, str(Path(out).absolute()), tuple(formats), also)
    ended: dict[str, Any] = {}
    upcoming = iter(names)
    following = next(upcoming, None)
    longest_first = sorted(names, key=lambda name: -FIGURES[name].seconds)
    with contextlib.ExitStack() as opened:
        start = None if workers == 1 else opened.enter_context(_executor("local", workers, len(names)))
        for name, made in _run_all(start, work, list(names) if start is None else longest_first, begin):
            ended[name] = made
            while following in ended:
                made = ended[following]
                failed = isinstance(made, Exception)
                yield following, made if failed else run_figure(following, size, out=out, reuse=True), made
                following = next(upcoming, None)


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _reproduce(size: str, out: str, formats: tuple[str, ...], also: Callable[[Result], Any], name: str) -> Any:
    result = run_figure(name, size, out=out, reuse=True)
    result.save(out, formats)
    return also(result)


def _compute_point(name: str, code: str, settings: Any) -> bytes:
    """Compute one point and return its file, for workers may have no disk in common with the client."""
    if versions()["code"] != code:
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


def _table(
    axes: Mapping[str, tuple[Any, ...]], points: Sequence[tuple[Any, ...]], files: Mapping[Any, str], folder: Path
) -> xarray.Dataset:
    """Collect status and measurements of all points."""
    rows: list[dict[str, tuple[float, float]]] = []
    holds: list[dict[str, float]] = []
    done: list[str] = []
    for point in points:
        rows.append({})
        holds.append({})
        data = _load(folder / files[point])
        done.append("failed" if data is None else "done")
        for claim in json.loads("[]" if data is None else data.attrs["claims"]):
            holds[-1][claim["text"]] = float(claim["holds"])
            for quantity in claim["quantities"]:
                numbers = np.array([float(n) for v in quantity["values"] for n in np.atleast_1d(v) if n is not None])
                if numbers.size:
                    label = f"{claim['text']} {quantity['what']}"
                    rows[-1][label] = numbers.min(), numbers.max()
    shape, names = tuple(map(len, axes.values())), tuple(axes)
    found: dict[str, Any] = {
        "status": (names, np.array(done).reshape(shape)),
        "file": (names, np.array([files[point] for point in points]).reshape(shape)),
    }
    coords: dict[str, Any] = {
        name: list(values) if not isinstance(values[0], tuple) else [str(value) for value in values]
        for name, values in axes.items()
    }
    for what, kept in (("quantity", rows), ("claim", holds)):
        labels = list(dict.fromkeys(label for row in kept for label in row))
        if labels:
            coords[what] = labels
    if "claim" in coords:
        table = [[row.get(label, np.nan) for label in coords["claim"]] for row in holds]
        found["holds"] = (*names, "claim"), np.array(table).reshape(*shape, -1)
    if "quantity" in coords:
        for place, end in enumerate(("lowest", "highest")):
            table = [[row.get(label, (np.nan, np.nan))[place] for label in coords["quantity"]] for row in rows]
            found[end] = (*names, "quantity"), np.array(table).reshape(*shape, -1)
    return xarray.Dataset(found, coords)


@contextlib.contextmanager
def _executor(on: Any, workers: int | None, count: int) -> Iterator[tuple[Callable[[int], Executor], int]]:
    """Yield what starts an executor with a number of workers, and that number."""
    if on == "local":
        yield _local_pool, max(min(workers or cores(), count), 1)
        return
    try:
        import distributed
    except ImportError:
        raise ClusterError("a cluster needs dask: pip install 'neuralrace[sweeps]'") from None
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as opened:
        opened.callback(logger.setLevel, level)
        try:
            connect: Any = distributed.Client
            client = on
            if not isinstance(on, connect):
                client = opened.enter_context(connect(str(on), timeout=10, set_as_default=False))
            client.wait_for_workers(1, timeout=10)
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
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    wanted = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "XLA_FLAGS": flags}
    before = {name: os.environ.get(name) for name in wanted}
    context = multiprocessing.get_context("spawn")
    multiprocessing.resource_tracker.ensure_running()  # it lets interruptions through again as it starts
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    os.environ |= wanted
    try:
        pool = ProcessPoolExecutor(workers, context, _begin_worker)
        for _ in range(workers):  # each starts a process, with this environment, while no other is ready
            pool.submit(os.getpid)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return pool


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stderr = io.StringIO()  # progress bars of several processes would overwrite each other


def _run_all(
    start: tuple[Callable[[int], Executor], int] | None,
    work: Callable[[Item], Found],
    items: Sequence[Item],
    begin: Callable[[Item], object] = lambda item: None,
) -> Iterator[tuple[Item, Found | Exception]]:
    """Yield each item with what `work` returns or raises, in the order in which they end.

    start: see `_executor`; None runs them in this process, one after the other. A worker that dies takes its pool with
    it. The items that were under way are then tried again, each alone, which shows the one that kills its worker.
    """
    if start is None:
        for item in items:
            begin(item)
            try:
                outcome: Found | Exception = work(item)
            except Exception as error:
                outcome = error
            yield item, outcome
        return
    make, workers = start
    waiting, suspects = deque(items), deque[Item]()
    while waiting or suspects:
        count = workers if waiting else 1
        queue = waiting or deque([suspects.popleft()])
        others, running = set(multiprocessing.active_children()), dict[Future[Found], Item]()
        executor = make(count)
        try:
            while queue or running:
                while queue and len(running) < count:
                    if count > 1 or workers == 1:
                        begin(queue[0])
                    running[executor.submit(work, queue[0])] = queue[0]
                    queue.popleft()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    outcome = _outcome(future)
                    yield running.pop(future), outcome
        except BrokenProcessPool:
            if count > 1:
                suspects.extend(running.values())
            elif running:
                yield next(iter(running.values())), ResourceError(KILLED)
        finally:
            for child in set(multiprocessing.active_children()) - others:  # an interruption must not wait for them
                child.kill()
            executor.shutdown(wait=False)


def _outcome(future: "Future[Found]") -> Found | Exception:
    try:
        return future.result()
    except (BrokenProcessPool, ClusterError):
        raise
    except Exception as error:  # dask has tried a killed task on several workers
        return ResourceError(KILLED) if type(error).__name__ == "KilledWorker" else error


def _load(path: Path) -> xarray.Dataset | None:
    """Load a finished point; None if it is missing or damaged."""
    try:
        return load_dataset(path)
    except FileFormatError:
        return None


def _find(axes: Mapping[str, tuple[Any, ...]], name: str, chosen: Mapping[str, Any]) -> int:
    if name not in chosen or chosen[name] not in axes[name]:
        raise RangeError(f"give one value for each of {', '.join(axes)}; {name} is one of {axes[name]}")
    return axes[name].index(chosen[name])
