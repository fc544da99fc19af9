"""Figures on many workers: one over a grid of settings, or many side by side. Interrupted work resumes."""

import contextlib
import hashlib
import io
import itertools
import json
import multiprocessing
import multiprocessing.resource_tracker
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import xarray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from neuralrace import papers
from neuralrace.errors import FileFormatError, RangeError, ResourceError, require_count, require_name, shortened
from neuralrace.io import code_version, load_dataset, make_folder, save_dataset, versions, write_text
from neuralrace.memory import free_memory
from neuralrace.papers.experiment import SIZES, Result, as_json, override
from neuralrace.progress import Meter


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
) -> pandas.DataFrame:
    """Run a figure for every combination of some settings' values.

    settings: name -> values, or text as on the command line: "a,b", and "a,b;c,d" for settings that are lists. out: a
    folder with one file per finished point; run again, only what is missing is computed. on: "local", for processes of
    this machine, the address of a dask scheduler, or a dask client. workers: processes on this machine (default: one
    per core). A point that fails is marked and does not stop others.

    Returns a row for each point, claim and measured quantity: the settings, `claim`, whether it `holds` there,
    `quantity`, its `lowest` and `highest` value, the `file` with everything that the figure computed, and the reason
    if the point `failed`. The same rows are in data.csv.
    """
    experiment, common = papers.get(name), {} if seeds is None else {"seeds": seeds}
    require_name("size", size, SIZES)
    base = override(getattr(experiment, size), common)
    if not isinstance(settings, Mapping) or not settings or set(settings) & set(common):
        known = ", ".join(vars(base))
        raise RangeError(f"a sweep needs at least one setting with its values, each setting once; {name} has {known}")
    axes: dict[str, list[Any]] = {}
    for axis, given in settings.items():
        if isinstance(given, str):
            given = [part.strip() for part in given.split(";" if isinstance(getattr(base, axis, None), tuple) else ",")]
        parts = given if isinstance(given, Sequence) else np.atleast_1d(given).tolist()
        axes[axis] = [getattr(override(base, {axis: part}), axis) for part in parts]
        if not parts or "" in parts or len(set(axes[axis])) < len(parts):
            raise RangeError(f"setting {axis!r} needs at least one value, and different ones; they were {given!r}")
    if on != "local" and workers is not None:
        raise RangeError("workers is an option of on='local'; a dask scheduler has its own workers")
    workers = _cores() if workers is None else require_count("workers", workers)
    folder, points = make_folder(out), []
    for values in itertools.product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        changed = override(base, point)
        experiment.check(changed)
        identity = json.dumps([name, size, as_json(changed), code_version(), dict(versions())])
        file = folder / f"points/{hashlib.sha256(identity.encode()).hexdigest()[:32]}.nc"
        points.append(point | {"file": str(file), "failed": None})
    missing = [point for point in points if _load(point["file"]) is None]
    with Meter("sweep", len(points), "points", shown=progress) as meter, contextlib.ExitStack() as opened:
        meter.advance(len(points) - len(missing))
        futures = {}
        if missing:
            executor = opened.enter_context(_processes(len(missing), workers) if on == "local" else _cluster(on))
            make_folder(folder / "points")  # not earlier, so that an unreachable cluster leaves no folder behind
            work = partial(_compute, name, size, code_version())
            for point in missing:
                futures[executor.submit(work, common | {axis: point[axis] for axis in axes})] = point
        for future in as_completed(futures):
            try:
                save_dataset(future.result(), futures[future]["file"])
            except BrokenProcessPool:
                raise
            except Exception as error:
                futures[future]["failed"] = shortened(error, 300)
            meter.advance()
    rows = []
    for point in points:
        stored = _load(point["file"])
        claims = json.loads("[]" if stored is None else stored.attrs["claims"])
        measured = [(claim, quantity) for claim in claims for quantity in claim["quantities"]]
        for claim, quantity in measured:
            numbers = [float(n) for value in quantity["values"] for n in np.atleast_1d(value) if n is not None]
            ends = {"lowest": min(numbers, default=np.nan), "highest": max(numbers, default=np.nan)}
            rows.append(point | {"claim": claim["text"], "holds": claim["holds"], "quantity": quantity["what"]} | ends)
        rows += [] if measured else [point]
    columns = [*axes, "claim", "holds", "quantity", "lowest", "highest", "file", "failed"]
    data = pandas.DataFrame(rows, columns=columns)
    write_text(folder / "data.csv", data.to_csv(index=False))
    return data


def reproduced(
    names: Sequence[str], size: str, out: str | Path, workers: int | None, also: Callable[[Result], Any]
) -> Iterator[tuple[str, Any]]:
    """Run figures side by side and save their files; those that are finished there are reused.

    Yields each name, in order, with the exception that it raised or what `also`, a function of a module, makes of the
    result in the worker. workers: processes (default: one per core, memory permitting).
    """
    work = partial(_reproduce, size, str(Path(out).absolute()), also)
    if len(names) == 1:
        yield names[0], work(names[0])
        return
    if workers is None:
        free = free_memory()  # a process took 3.2 GiB after five figures
        workers = _cores() if free is None else max(1, min(_cores(), free // (4 << 30)))
    with _processes(len(names), workers) as pool:
        longest_first = sorted(names, key=lambda name: -papers.figures()[name].seconds)
        futures = {name: pool.submit(work, name) for name in longest_first}
        yield from ((name, futures[name].result()) for name in names)


def _reproduce(size: str, out: str, also: Callable[[Result], Any], name: str) -> Any:
    try:
        result = papers.run(name, size, out=out, reuse=True)
        result.save(out)
        return also(result)
    except Exception as error:
        return error


def _compute(name: str, size: str, code: str, changes: Mapping[str, Any]) -> xarray.Dataset:
    """Compute one point; its data go back to the client, because workers may share no disk with it."""
    if code_version() != code:
        raise ResourceError("every worker must run the same code as the client: install the same version there")
    result = papers.run(name, size, changes=changes)
    try:
        claims = [claim.as_values() for claim in result.claims]
    except Exception:  # some settings leave a claim without anything to measure
        claims = []
    return result.data.assign_attrs(claims=json.dumps(claims))


@contextlib.contextmanager
def _cluster(on: Any) -> Iterator[Executor]:
    """Connect to a dask cluster that has workers."""
    try:
        import distributed
    except ImportError:
        raise ResourceError("a cluster needs dask: pip install 'neuralrace[sweeps]'") from None
    connect: Any = distributed.Client
    with contextlib.ExitStack() as opened:
        try:
            own = not isinstance(on, connect)
            client = opened.enter_context(connect(str(on), timeout=5, set_as_default=False)) if own else on
            client.wait_for_workers(1, timeout=5)
        except (OSError, ValueError) as error:
            raise ResourceError(
                f"could not connect to workers at {on!r} ({shortened(error, 300)}): give on='local', or the address of "
                "a dask scheduler with workers, like tcp://HOST:8786"
            ) from None
        yield client.get_executor(pure=False)


@contextlib.contextmanager
def _processes(tasks: int, workers: int) -> Iterator[Executor]:
    """Start processes with one thread each that no interruption from the terminal reaches, and end them."""
    count = min(tasks, require_count("workers", workers))
    others = set(multiprocessing.active_children())
    multiprocessing.resource_tracker.ensure_running()  # it lets interruptions through again as it starts
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin_worker)
        for _ in range(count):  # each starts a process, while no other is ready
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


def _cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _load(path: str) -> xarray.Dataset | None:
    """Load a finished point; None if it is missing or damaged."""
    try:
        return load_dataset(path)
    except FileFormatError:
        return None
