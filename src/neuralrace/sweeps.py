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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import xarray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from neuralrace import papers
from neuralrace.errors import FileFormatError, RangeError, ResourceError, require_count, require_name, shortened
from neuralrace.io import code_version, load_dataset, make_folder, save_dataset, versions, write_text, write_whole
from neuralrace.memory import free_memory
from neuralrace.papers.experiment import SIZES, Result, as_json, override
from neuralrace.progress import Meter

Point = tuple[Any, ...]  # the value of each swept setting


@dataclass(frozen=True, eq=False)
class Swept:
    """A finished sweep.

    axes: the swept settings and their values. data: a row for each point, claim and measured quantity: the settings,
    `claim`, whether it `holds` there, `quantity`, and its `lowest` and `highest` value. files: a point's values of the
    settings -> its file. failed: the same -> the reason.
    """

    name: str
    axes: Mapping[str, tuple[Any, ...]]
    data: pandas.DataFrame
    folder: Path
    files: Mapping[Point, Path]
    failed: Mapping[Point, str]

    def point(self, **settings: Any) -> xarray.Dataset:
        """Load everything that the figure computed at one point, for example `swept.point(std=1e-3)`."""
        place = tuple(settings.get(name) for name in self.axes)
        if place not in self.files or len(settings) > len(self.axes):
            values = "; ".join(f"{name} is one of {values}" for name, values in self.axes.items())
            raise RangeError(f"give one value for each of {', '.join(self.axes)}: {values}")
        return load_dataset(self.files[place])

    def summary(self) -> dict[str, Any]:
        """Return the sweep in plain values."""
        once = self.data.drop_duplicates([*self.axes, "claim"]).groupby("claim", sort=False)["holds"]
        return {
            "experiment": self.name,
            "axes": {name: list(values) for name, values in self.axes.items()},
            "points": len(self.files),
            "failed": [
                {"settings": dict(zip(self.axes, point, strict=True)), "why": why} for point, why in self.failed.items()
            ],
            "claims": [{"claim": text, "points": len(holds), "holds": int(holds.sum())} for text, holds in once],
            "data": str(self.folder / "data.csv"),
        }


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
    base, axes = plan(name, settings, size=size, seeds=seeds)
    if on != "local" and workers is not None:
        raise RangeError("workers is an option of on='local'; a dask scheduler has its own workers")
    workers = cores() if workers is None else require_count("workers", workers)
    folder = make_folder(out)
    chosen, files = {}, dict[Point, Path]()
    for point in itertools.product(*axes.values()):
        chosen[point] = dataclasses.replace(base, **dict(zip(axes, point, strict=True)))
        identity = json.dumps([name, size, as_json(chosen[point]), code_version(), versions()])
        files[point] = folder / f"points/{hashlib.sha256(identity.encode()).hexdigest()[:32]}.nc"
    missing = [point for point in files if _load(files[point]) is None]
    failed = dict[Point, str]()
    with Meter("sweep", len(files), shown=progress, lines=True) as meter, contextlib.ExitStack() as opened:
        meter.advance(len(files) - len(missing))
        work = partial(_compute_point, name, code_version())
        futures = {}
        if missing:
            start = _processes(min(workers, len(missing))) if on == "local" else _cluster(on)
            executor = opened.enter_context(start)
            make_folder(folder / "points")  # not before: a cluster that cannot be reached leaves no trace
            futures = {executor.submit(work, chosen[point]): point for point in missing}
        for future in as_completed(futures):
            try:
                content = future.result()
            except BrokenProcessPool:
                raise
            except Exception as error:
                failed[futures[future]] = shortened(error, 300)
            else:
                write_whole(files[futures[future]], partial(Path.write_bytes, data=content))
            meter.advance()
    swept = Swept(name, axes, _measurements(axes, files), folder, files, failed)
    write_text(folder / "data.csv", swept.data.to_csv(index=False))
    write_text(folder / "claims.json", json.dumps(swept.summary(), indent=2) + "\n")
    return swept


def plan(
    name: str, settings: Mapping[str, Any], *, size: str = "full", seeds: int | None = None
) -> tuple[Any, dict[str, Point]]:
    """Check a sweep before anything starts; return the figure's other settings and the values of each axis.

    settings: name -> values, or text as on the command line: "a,b", and "a,b;c,d" for settings that are lists.
    """
    experiment = papers.get(name)
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
    return base, axes


def reproduced(
    names: Sequence[str], size: str, out: str | Path, workers: int | None, also: Callable[[Result], Any]
) -> Iterator[tuple[str, Any]]:
    """Run figures side by side and save their files; those that are finished there are reused.

    Yields each name, in order, with the exception that it raised or what `also`, a function of a module, makes of the
    result in the worker. workers: processes (default: one per core, memory permitting).
    """
    if workers is None:
        free = free_memory()  # a process took 3.2 GiB after five figures
        workers = max(1, min(len(names), cores(), len(names) if free is None else free // (4 << 30)))
    work = partial(_reproduce, size, str(Path(out).absolute()), also)
    if min(require_count("workers", workers), len(names)) == 1:
        yield from ((name, work(name)) for name in names)
        return
    with _processes(min(workers, len(names))) as pool:
        longest_first = sorted(names, key=lambda name: -papers.figures()[name].seconds)
        futures = {name: pool.submit(work, name) for name in longest_first}
        yield from ((name, futures[name].result()) for name in names)


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _reproduce(size: str, out: str, also: Callable[[Result], Any], name: str) -> Any:
    try:
        result = papers.run(name, size, out=out, reuse=True)
        result.save(out)
        return also(result)
    except Exception as error:
        return error


def _compute_point(name: str, code: str, settings: Any) -> bytes:
    """Compute one point and return its file, for workers may have no disk in common with the client."""
    if code_version() != code:
        raise ResourceError(
            f"every worker must run the same code as the client; install {versions()['neuralrace']} there"
        )
    experiment = papers.get(name)
    data = experiment.compute(settings)
    try:
        claims = [claim.as_values() for claim in experiment.claims(data)]
    except Exception:  # some settings leave a claim without anything to measure
        claims = []
    with tempfile.TemporaryDirectory() as folder:
        stamped = data.assign_attrs(experiment=name, settings=as_json(settings), claims=json.dumps(claims))
        return save_dataset(stamped, Path(folder) / "point.nc").read_bytes()


def _measurements(axes: Mapping[str, Point], files: Mapping[Point, Path]) -> pandas.DataFrame:
    rows = []
    for point, file in files.items():
        data = _load(file)
        for claim in json.loads("[]" if data is None else data.attrs["claims"]):
            for quantity in claim["quantities"]:
                values = [float(n) for value in quantity["values"] for n in np.atleast_1d(value) if n is not None]
                ends = min(values, default=np.nan), max(values, default=np.nan)
                rows.append([*point, claim["text"], claim["holds"], quantity["what"], *ends])
    return pandas.DataFrame(rows, columns=[*axes, "claim", "holds", "quantity", "lowest", "highest"])


@contextlib.contextmanager
def _cluster(on: Any) -> Iterator[Executor]:
    """Connect to a dask cluster that has workers."""
    try:
        import distributed
    except ImportError:
        raise ResourceError("a cluster needs dask: pip install 'neuralrace[sweeps]'") from None
    with contextlib.ExitStack() as opened:
        try:
            connect: Any = distributed.Client
            client = on
            if not isinstance(on, connect):
                client = opened.enter_context(connect(str(on), timeout=5, set_as_default=False))
            client.wait_for_workers(1, timeout=5)
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            raise ResourceError(
                f"could not connect to workers at {on!r} ({shortened(error, 300)}): give on='local', or the address "
                "of a dask scheduler with workers, like tcp://HOST:8786"
            ) from None
        yield client.get_executor(pure=False)


@contextlib.contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    """Start processes with one thread each that no interruption from the terminal reaches, and end them."""
    others = set(multiprocessing.active_children())
    multiprocessing.resource_tracker.ensure_running()  # it lets interruptions through again as it starts
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin_worker)
        for _ in range(workers):  # each starts a process, while no other is ready
            pool.submit(os.getpid)
    finally:
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    try:
        yield pool
    except BrokenProcessPool:
        raise ResourceError(
            "a worker was killed, most likely because memory ran out; finished results are kept: run it again with "
            "fewer workers"
        ) from None
    finally:
        for child in set(multiprocessing.active_children()) - others:  # an interruption must not wait for them
            child.kill()
        pool.shutdown(wait=False)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stderr = io.StringIO()  # progress bars of several processes would overwrite each other
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    os.environ |= {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "XLA_FLAGS": flags}
    threadpool_limits(1)  # of libraries that are loaded already


def _load(path: Path) -> xarray.Dataset | None:
    """Load a finished point; None if it is missing or damaged."""
    try:
        return load_dataset(path)
    except FileFormatError:
        return None
