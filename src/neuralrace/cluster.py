"""A dask cluster to work on: processes of this machine, a scheduler by its address, or a client that is there."""

import atexit
import contextlib
import logging
import multiprocessing
import multiprocessing.resource_tracker
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from neuralrace.errors import NeuralRaceError, RangeError, in_one_line, require_count
from neuralrace.memory import search_seldom
from neuralrace.source import versions

if TYPE_CHECKING:
    from distributed import Client

INSTALL = "pip install 'neuralrace[sweeps]'"
PATIENCE = 10.0  # seconds for a scheduler to answer, and for it to have a worker
LOCAL = "local"
UNLIMITED = "unlimited"  # memory: what the machine has

# One thread for each worker: workers are what runs side by side, and to part small products among threads costs a
# third of their time. XLA takes as many threads as NPROC says.
ONE_THREAD = {
    "NPROC": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
XLA_THREAD = "--xla_cpu_multi_thread_eigen=false"


class ClusterError(NeuralRaceError):
    """A cluster that is not there, has no workers, or has workers of another version."""


@contextlib.contextmanager
def connected(on: Any = LOCAL, workers: int | None = None, memory: str | None = None) -> "Iterator[Client]":
    """A client whose workers run this version of the package.

    on: "local" for processes of this machine that nobody else can reach, the address of a scheduler, or a client.
    workers, memory: how many processes, and how much memory each may take ("2GiB", or "unlimited"); for "local" only.
    """
    try:
        import distributed
    except ImportError:
        raise ClusterError(f"a cluster needs dask, which is not installed: {INSTALL}") from None
    check_options(on, workers, memory)
    if isinstance(on, distributed.Client):
        refuse_other_versions(on)
        yield on
        return
    with contextlib.ExitStack() as opened:
        opened.enter_context(_quiet())
        local = on == LOCAL
        address = opened.enter_context(_local_cluster(distributed, workers, memory)) if local else on
        client = opened.enter_context(_client(distributed, address))
        refuse_other_versions(client)
        if local:
            client.run(_begin)
        yield client


def check_options(on: Any, workers: int | None, memory: str | None) -> None:
    """Refuse what no cluster can have, before anything starts."""
    if on != LOCAL and (workers is not None or memory is not None):
        raise ClusterError("workers and memory are set for on='local' only; a scheduler has its workers already")
    if workers is not None:
        require_count("workers", workers)
    if memory is not None and memory != UNLIMITED:
        _bytes(memory)


def cores() -> int:
    """How many cores this process may use; a container may have fewer than the machine."""
    from dask.system import CPU_COUNT

    return int(CPU_COUNT)


def refuse_other_versions(client: "Client") -> None:
    """Say which workers run another version, if any do, before they are given work."""
    mine = versions()
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
        found = client.run(versions, on_error="return")
    except (OSError, TimeoutError) as error:
        raise ClusterError(
            f"the cluster at {_name(client)} has no worker that answers ({in_one_line(error)})"
        ) from None
    for worker, theirs in found.items():
        told = theirs if isinstance(theirs, dict) else {}
        if isinstance(theirs, BaseException):
            raise ClusterError(
                f"worker {worker} cannot run neuralrace ({in_one_line(theirs)}): install version "
                f"{mine['neuralrace']} there"
            )
        for package, needed in mine.items():
            if told.get(package) != needed:
                raise ClusterError(
                    f"every worker must run what is run here, {package} {needed}; worker {worker} has "
                    f"{told.get(package)}: install the same there, and start that worker again"
                )


def _client(distributed: Any, address: Any) -> "Client":
    try:
        if not isinstance(address, distributed.LocalCluster):
            distributed.comm.resolve_address(address)  # a client of what is no address can hardly be closed
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        raise ClusterError(
            f"on must be 'local' or the address of a dask scheduler, like tcp://HOST:8786; at {address!r} nobody "
            f"answers ({in_one_line(error)})"
        ) from None


@contextlib.contextmanager
def _local_cluster(distributed: Any, workers: int | None, memory: str | None) -> Iterator[Any]:
    """Processes, each with its own memory limit and one task at a time, on the loopback address."""
    import dask

    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as multiprocessing itself asks
        raise SystemExit(1)  # a worker that reads the script which starts it, and would start workers; told there
    count = cores() if workers is None else workers
    limit = "auto" if memory is None else 0 if memory == UNLIMITED else _bytes(memory)
    # a point that takes its worker with it is given up after a second worker is lost: the first may be an accident
    threads = ONE_THREAD | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {XLA_THREAD}".strip()}
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.nanny.pre-spawn-environ": threads,
        "distributed.worker.multiprocessing-method": "spawn",
        # dask looks at what a worker does by holding on to its frames for a moment, and with them to parts of a file
        # that is being written: whether HDF5 uses their place again, and so the bytes, would hang on that moment
        "distributed.worker.profile.enabled": False,
        # what a worker has compiled stays with it, so one that pauses near its limit would wait for ever: at the limit
        # it is ended, and another goes on
        "distributed.worker.memory.pause": False,
    }
    with dask.config.set(settings), _uninterrupted_loop(distributed) as loop, contextlib.ExitStack() as opened:
        try:
            cluster = distributed.LocalCluster(
                loop=loop,
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",  # its page about itself: any port, for several clusters may be there
                worker_dashboard_address=None,
                memory_limit=limit,
                silence_logs=logging.CRITICAL,
            )
        except RuntimeError as error:
            raise ClusterError(
                f"no worker could start ({in_one_line(error)}): every worker reads the script that starts it, so put "
                'what a script does under if __name__ == "__main__":'
            ) from None
        except KeyboardInterrupt:
            atexit.unregister(distributed.deploy.spec.close_clusters)  # it complains of one that is half there
            raise
        opened.enter_context(cluster)
        try:
            yield cluster
        except BaseException:  # an interruption, most likely
            _end_at_once(cluster)
            raise


def _end_at_once(cluster: Any) -> None:
    """End workers in the middle of their work, for which dask would wait seconds; what they had finished is kept."""
    for nanny in list(cluster.workers.values()):
        nanny.close_gracefully()  # no other worker is started
        with contextlib.suppress(OSError, TypeError):  # gone already, or not yet there
            os.kill(nanny.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


@contextlib.contextmanager
def _uninterrupted_loop(distributed: Any) -> Iterator[Any]:
    """An event loop in a thread that no interruption reaches, nor the processes that it starts.

    A terminal interrupts every process; the one that started the workers ends them.
    """
    runner = distributed.utils.LoopRunner()
    with _deaf() if hasattr(signal, "pthread_sigmask") else contextlib.nullcontext():  # not everywhere
        runner.start()
    try:
        yield runner.loop
    finally:
        runner.stop()


@contextlib.contextmanager
def interruption_deferred() -> Iterator[Callable[[], None]]:
    """Hold back an interruption to the end, or to a call of the function that is yielded; a second is raised at once.

    Raised inside dask, an interruption may find a future half made, whose end then complains on standard error, or be
    lost in the end of another object. Only the main thread of a process hears interruptions.
    """
    came: list[int] = []

    def note(number: int, frame: Any) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    before, main = signal.getsignal(signal.SIGINT), threading.current_thread() is threading.main_thread()
    heard = main and callable(before)  # in the background of a shell it is ignored
    if heard:
        signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        if heard:
            signal.signal(signal.SIGINT, before)
    check()


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Threads and processes that start here hear no interruption."""
    multiprocessing.resource_tracker.ensure_running()  # as it starts it lets interruptions through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """At a worker. Once it has written a file it has a client of its own, which complains if it ends after its loop."""
    search_seldom()
    sys.unraisablehook = lambda _: None


def _bytes(memory: str) -> int:
    from dask.utils import parse_bytes

    try:
        found = int(parse_bytes(memory))
    except (ValueError, TypeError, AttributeError):
        found = 0
    if found <= 0:
        raise RangeError(f"memory must be an amount like 2GiB or 500MB; it was {memory!r}")
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the words of a cluster that opens and closes; what goes wrong is told by us."""
    parts = ("client", "core", "nanny", "scheduler", "worker")
    names = ("distributed", *(f"distributed.{part}" for part in parts))
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _name(client: "Client") -> str:
    return str(client.scheduler.address) if client.scheduler is not None else "an unknown address"
