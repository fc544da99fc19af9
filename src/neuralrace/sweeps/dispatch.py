"""Points handed out to workers, and taken in as they are finished."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from neuralrace.cluster import ClusterError
from neuralrace.errors import in_one_line
from neuralrace.source import versions
from neuralrace.sweeps.points import Point, Sweep, shape_of
from neuralrace.sweeps.work import MEMORY, Finished, compute_point

if TYPE_CHECKING:
    from distributed import Client


def finished_points(client: "Client", sweep: Sweep, points: Sequence[Point]) -> Iterator[Finished]:
    """Every point as it is finished or fails, in any order.

    A point whose worker is lost is given to another. Points of one shape are meant for one worker if there are shapes
    enough, so that few programs are compiled; a worker with nothing to do takes over others'.
    """
    import distributed

    code, homes, waiting = versions()["code"], _homes(client, points), {}
    for point in sorted(points, key=shape_of):
        home = homes.get(shape_of(point))
        future = client.submit(
            compute_point,
            sweep.experiment.name,
            point.key,
            point.settings,
            code,
            key=f"neuralrace-{point.key}",
            workers=home,
            allow_other_workers=home is not None,
        )
        waiting[future] = point
    completed: Any = distributed.as_completed  # it has no types
    for future in completed(list(waiting), loop=client.loop):
        yield _outcome(future, waiting.pop(future))
        future.release()


def _homes(client: "Client", points: Sequence[Point]) -> dict[str, list[str]]:
    """Shape -> the worker that it is meant for; nobody in particular where there are fewer shapes than workers."""
    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    shapes = list(dict.fromkeys(map(shape_of, points)))
    if len(shapes) < len(workers):
        return {}
    return {shape: [workers[place % len(workers)]] for place, shape in enumerate(shapes)}


def _outcome(future: Any, point: Point) -> Finished:
    from distributed import KilledWorker

    if future.status == "finished":
        found: Finished = future.result()
        return found
    if future.status != "error":
        raise ClusterError(
            "the scheduler is gone, and with it the work under way; what was finished is kept: start the sweep again"
        )
    error = future.exception()
    if isinstance(error, ClusterError):
        raise error
    if isinstance(error, KilledWorker):
        return Finished(point.key, None, f"it took its worker with it each time it was tried; most likely {MEMORY}")
    return Finished(point.key, None, in_one_line(error))
