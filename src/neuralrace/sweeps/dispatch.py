"""Tasks handed out to workers, and finished points taken in as they come."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from neuralrace.cluster import ClusterError
from neuralrace.errors import in_one_line
from neuralrace.source import versions
from neuralrace.sweeps.points import Point, Sweep, shape_of
from neuralrace.sweeps.work import MEMORY, Finished, compute_task

if TYPE_CHECKING:
    from distributed import Client


def finished_points(client: "Client", sweep: Sweep, tasks: Sequence[tuple[Point, ...]]) -> Iterator[Finished]:
    """Every point of the tasks as it is finished or fails, in any order.

    A task whose worker is lost is given to another. Tasks of one shape are meant for one worker if there are shapes
    enough, so that few programs are compiled; a worker with nothing to do takes over others'.
    """
    import distributed

    code, homes = versions()["code"], _homes(client, tasks)
    waiting = {}
    for task in tasks:
        points, home = [(point.key, point.settings) for point in task], homes.get(shape_of(task[0]))
        future = client.submit(
            compute_task,
            sweep.experiment.name,
            points,
            code,
            key=f"neuralrace-{task[0].key}-{len(task)}",
            workers=home,
            allow_other_workers=home is not None,
        )
        waiting[future] = task
    completed: Any = distributed.as_completed  # it has no types
    for future in completed(list(waiting), loop=client.loop):
        task = waiting.pop(future)
        yield from _outcome(future, task)
        future.release()


def _homes(client: "Client", tasks: Sequence[tuple[Point, ...]]) -> dict[str, list[str]]:
    """Shape -> the worker that it is meant for; nobody in particular where there are fewer shapes than workers."""
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    shapes = list(dict.fromkeys(shape_of(task[0]) for task in tasks))
    if len(shapes) < len(workers):
        return {}
    return {shape: [workers[place % len(workers)]] for place, shape in enumerate(shapes)}


def _outcome(future: Any, task: tuple[Point, ...]) -> list[Finished]:
    from distributed import KilledWorker

    if future.status == "finished":
        found: list[Finished] = future.result()
        return found
    if future.status != "error":
        raise ClusterError(
            "the scheduler is gone, and with it the work under way; what was finished is kept: start the sweep again"
        )
    error = future.exception()
    if isinstance(error, ClusterError):
        raise error
    if isinstance(error, KilledWorker):
        line = f"it took its worker with it each time it was tried; most likely {MEMORY}"
    else:
        line = in_one_line(error)
    return [Finished(point.key, None, line) for point in task]
