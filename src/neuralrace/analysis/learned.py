"""When each class, output or group of examples is learned, and when to stop."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from neuralrace._engine.evaluation import entry_losses, loss_tables, make_evaluation
from neuralrace.analysis.curves import time_to
from neuralrace.arrays import float64
from neuralrace.errors import ProblemError, RangeError, TaskError, UnknownNameError, require_number, shortened
from neuralrace.problem import Problem

if TYPE_CHECKING:
    import pandas


class Stop(NamedTuple):
    """Where the mean loss on other examples is least.

    step: None where the learning rate is not known. last: it is the last record, after which the loss may fall further.
    accuracy: None where targets are no classes. earliest, latest: the
    times at which the losses of single seeds, or draws, are least.
    """

    time: float
    step: int | None
    loss: float
    accuracy: float | None
    earliest: float
    latest: float
    last: bool


def best_stop(curve: Any, name: str) -> Stop:
    """Find where the loss on the examples of this name is least, over the records of a trajectory."""
    found = curve.evaluated[name]
    losses = found["loss"].values
    if not np.isfinite(losses).any():
        raise RangeError(f"a finite loss on {name!r} is required; there is none, because training diverged")
    mean = np.where(np.isfinite(losses).all(axis=0), losses.mean(axis=0), np.inf)
    best, each = int(np.argmin(mean)), curve.time[np.argmin(np.where(np.isfinite(losses), losses, np.inf), axis=1)]
    accuracy = float(found["accuracy"].values[:, best].mean()) if "accuracy" in found else None
    time, ends = float(curve.time[best]), (float(each.min()), float(each.max()))
    return Stop(time, curve.step_at(time), float(mean[best]), accuracy, *ends, best == len(mean) - 1)


@float64
def learned(curve: Any, by: Any = "class", fraction: float = 0.5) -> "pandas.DataFrame":
    """Find when each class, output or group of examples has lost a fraction of its initial loss.

    See `Trajectory.learned`.
    """
    import pandas

    problem, share = curve.problem, require_number("fraction", fraction, above=0, most=1)
    if not isinstance(problem, Problem):
        raise ProblemError("the examples are required: a forecast from statistics alone, and routed images, have none")
    task, loss = problem.task, curve.settings.get("loss", "squared")
    if loss not in ("squared", "cross-entropy"):
        raise ProblemError(f"the squared error or the cross-entropy is required; this curve is of {loss!r}")
    outputs = sum(rows.shape[1] for rows in task.targets.values())
    names, title = task.output_names or tuple(f"output {i + 1}" for i in range(outputs)), "group"
    labels = np.ones((1, len(task)))
    if isinstance(by, str) and by == "class":
        if task.classes is None:
            raise TaskError(
                "targets that are classes, each example in one, are required; these are not: give by='output', or a "
                "label for each example"
            )
        names, title = task.class_names, "class"
        labels = (np.arange(len(names))[:, None] == task.classes).astype(float)
    elif isinstance(by, str) and by == "output":
        title = "output"
    else:
        given = np.asarray(by)
        if isinstance(by, str) or given.shape != (len(task),):
            raise TaskError(
                f"by must be 'class', 'output' or one label for each of the {len(task)} examples; it was "
                f"{shortened(by)}"
            )
        kinds, place = np.unique(given, return_inverse=True)
        names = tuple(kinds.tolist())
        labels = (np.arange(len(names))[:, None] == place).astype(float)
    tables = []
    for seed in range(len(curve.losses)):
        try:
            start, sets = curve.weights_over_time(seed)
        except UnknownNameError:
            raise ProblemError(
                "weights are required, and a forecast that was saved keeps its curves alone: call this before saving it"
            ) from None
        followed = make_evaluation(curve.followed, moments=False)
        if sets is not None:
            found = loss_tables(followed, [start, *sets], labels, loss)
        elif all(f"outputs[{node}]" in curve.data for node in task.targets):
            recorded = [curve.values(f"outputs[{node}]")[seed] for node in task.targets]
            parts = zip(recorded, task.targets.values(), strict=True)
            entries = np.concatenate([np.asarray(entry_losses(*both, loss)) for both in parts], axis=-1)
            found = np.concatenate([loss_tables(followed, [start], labels, loss), (labels * task.weights) @ entries])
        else:
            raise ProblemError(
                "what each example's output was over time is required, and this run did not record it: train with "
                "record='outputs', or record='weights'"
            )
        tables.append(found[:, 0].T if title == "output" else found.sum(axis=2).T)
    initial, curves = np.array(tables)[..., 0], np.array(tables)[..., 1:]
    times = time_to(curve.time, curves, (1 - share) * initial)
    times = np.where(initial > 0, times, np.nan)  # nothing to learn
    middle = np.median(times, axis=0)
    steps = [curve.step_at(time) for time in middle]
    columns = {title: names, "time": middle, "step": pandas.array(steps, "Int64")}
    return pandas.DataFrame(columns | {"earliest": times.min(axis=0), "latest": times.max(axis=0)})
