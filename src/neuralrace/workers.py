"""Independent work side by side: processes of this machine, a dask cluster, and figures on the former."""

import contextlib
import hashlib
import inspect
import io
import multiprocessing
import multiprocessing.resource_tracker
import os
import signal
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from neuralrace import papers
from neuralrace.errors import RangeError, ResourceError, require_count, shortened
from neuralrace.io import code_version
from neuralrace.memory import free_memory
from neuralrace.papers.experiment import Result


def pack(work: Callable) -> bytes:
    """Pickle a function for `call`; those of scripts, notebooks and other functions are sent whole."""
    try:
        return bytes(cloudpickle.dumps(work))
    except Exception as error:
        raise RangeError(
            f"the function cannot be sent to other processes ({shortened(error, 200)}): make what it needs inside it"
        ) from None


def call(packed: bytes, code: str, settings: Mapping[str, Any]) -> Any:
    """Call a packed function on a worker with settings as keyword arguments; a text says why it failed.

    code: the version of the package that packed it.
    """
    try:
        if code_version() != code:
            raise ResourceError("every worker must run the same code as the client: install the same version there")
        return cloudpickle.loads(packed)(**settings)
    except (Exception, SystemExit) as error:  # as text, because the client may not know the class of the error
        return shortened(error, 300)


class _Code(cloudpickle.Pickler):  # type: ignore[misc]
    """Write what a function computes, without the places of its lines; never read back."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, types.CodeType):
            return tuple, ((thing.co_code, thing.co_consts, thing.co_names, thing.co_varnames, thing.co_freevars),)
        if isinstance(thing, type) and thing.__module__ == "__main__":  # cloudpickle gives it a random number
            own = [(name, part) for name, part in vars(thing).items() if name not in ("__dict__", "__weakref__")]
            return types.SimpleNamespace, (), {"name": thing.__qualname__, "own": own}
        return super().reducer_override(thing)


def fingerprint(function: Callable) -> str:
    """Hash the code of a function with what it refers to, and the file of its module; the same in another process."""
    written = io.BytesIO()
    try:
        _Code(written).dump(function)
    except Exception:
        written.write(pack(function))
    module = inspect.getmodule(function)
    if module is not None and module.__name__ != "__main__":
        with contextlib.suppress(OSError, TypeError):  # no file
            written.write(inspect.getsource(module).encode())
    return hashlib.sha256(written.getvalue()).hexdigest()


@contextlib.contextmanager
def cluster(on: Any) -> Iterator[Executor]:
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
def processes(tasks: int, workers: int) -> Iterator[Executor]:
    """Start processes with one thread each that no interruption from the terminal reaches, and end them."""
    count = min(tasks, require_count("workers", workers))
    others, main = set(multiprocessing.active_children()), sys.modules["__main__"]
    multiprocessing.resource_tracker.ensure_running()  # it lets interruptions through again as it starts
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    sys.modules["__main__"] = types.ModuleType("__main__")  # a worker would run the script of the caller again
    try:
        pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin_worker)
        for _ in range(count):  # each starts a process, while no other is ready
            pool.submit(os.getpid)
    finally:
        sys.modules["__main__"] = main
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


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
        workers = cores() if free is None else max(1, min(cores(), free // (4 << 30)))
    with processes(len(names), workers) as pool:
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
