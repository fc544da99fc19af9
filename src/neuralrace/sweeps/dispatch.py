"""Work handed out to workers, and taken in as it is finished: the points of a sweep, or whole experiments."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from neuralrace.cluster import ClusterError, interruption_deferred
from neuralrace.errors import ResourceError, in_one_line
from neuralrace.papers.registry import FIGURES
from neuralrace.source import versions
from neuralrace.sweeps.points import Point, Sweep, shape_of
from neuralrace.sweeps.work import MEMORY, Finished, compute_point, keep_experiment

if TYPE_CHECKING:
    from distributed import Client

Work = TypeVar("Work")

OURS = "neuralrace-"  # how the keys of our tasks begin
POLL = 0.02  # seconds
LOST = f"it took its worker with it each time it was tried; most likely {MEMORY}"


def finished_points(client: "Client", sweep: Sweep, points: Sequence[Point]) -> Iterator[Finished]:
    """Every point as it is finished or fails, in any order.

    A point whose worker is lost is given to another. Points of one shape are meant for one worker if there are shapes
    enough, so that few programs are compiled; a worker with nothing to do takes over others'.
    """
    import distributed

    code, homes, waiting = versions()["code"], _homes(client, points), {}
    _free_of_lost_homes(client)
    completed: Any = distributed.as_completed  # it has no types
    with interruption_deferred():
        for point in sorted(points, key=shape_of):
            home = homes.get(shape_of(point))
            future = client.submit(
                compute_point,
                sweep.experiment.name,
                point.key,
                point.settings,
                code,
                key=f"{OURS}{point.key}",
                workers=home,
                allow_other_workers=home is not None,
            )
            waiting[future] = point
        futures = completed(list(waiting), loop=client.loop)
    while waiting:
        point, found = _next(futures, waiting)
        yield Finished(point.key, None, in_one_line(found)) if isinstance(found, Exception) else found


def finished_experiments(
    client: "Client", names: Sequence[str], begin: Callable[[str], object], *task: Any
) -> Iterator[tuple[str, Any]]:
    """What is told of every experiment when it is finished, or the exception: one for each worker, the longest first.

    begin: is told the name of each that is handed out. task: what `keep_experiment` needs beside the name.
    """
    import distributed

    code, under_way = versions()["code"], {}
    waiting = iter(sorted(names, key=lambda name: -FIGURES[name].seconds))
    completed: Any = distributed.as_completed
    futures = completed(loop=client.loop)

    def hand_out(count: int) -> None:
        for name in itertools.islice(waiting, count):
            begin(name)
            future = client.submit(keep_experiment, name, code, *task, key=f"{OURS}{name}")
            under_way[future] = name
            futures.add(future)

    with interruption_deferred():
        hand_out(len(client.scheduler_info(n_workers=-1)["workers"]))
    while under_way:
        yield _next(futures, under_way, lambda: hand_out(1))


def _next(futures: Any, waiting: dict[Any, Work], hand_out: Callable[[], object] = lambda: None) -> tuple[Work, Any]:
    """Wait for a task to end, hand out another, and return what the task was and what it came to."""
    with interruption_deferred() as check:
        while not futures.has_ready():
            check()
            time.sleep(POLL)
        future = next(futures)
        hand_out()
        found = waiting.pop(future), _answer(future)
        future.release()
    return found


def _homes(client: "Client", points: Sequence[Point]) -> dict[str, list[str]]:
    """Shape -> the worker that it is meant for; nobody in particular where there are fewer shapes than workers."""
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    shapes = list(dict.fromkeys(map(shape_of, points)))
    if len(shapes) < len(workers):
        return {}
    return {shape: [workers[place % len(workers)]] for place, shape in enumerate(shapes)}


def _free_of_lost_homes(client: "Client") -> None:
    """Let points be taken by any worker once the one that they were meant for is gone.

    Where all workers are lost at once, as at the end of their wall time, dask keeps such tasks for the lost ones for
    ever, though others may take them.
    """
    from distributed.diagnostics.plugin import SchedulerPlugin

    class AnyWorker(SchedulerPlugin):
        idempotent = True  # a second sweep on the same cluster finds it there

        def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
            meant = [key for key, task in scheduler.tasks.items() if worker in (task.worker_restrictions or ())]
            scheduler.set_restrictions({key: None for key in meant if str(key).startswith(OURS)})

    client.register_plugin(AnyWorker(), name=f"{OURS}any-worker")


def _answer(future: Any) -> Any:
    """What a task came to, or the exception that it ended with; a cluster that cannot go on is raised."""
    from distributed import KilledWorker

    if future.status not in ("finished", "error"):
        raise ClusterError(
            "the scheduler is gone, and with it the work under way; what was finished is kept: start again"
        )
    try:
        return future.result()
    except ClusterError:
        raise
    except Exception as error:
        return ResourceError(LOST) if isinstance(error, KilledWorker) else error
