"""What to mind before an explanation is believed: of the data, and of how the training ended."""

import numpy as np

from neuralrace.explanation.checkpoints import ALONG, along_gradient
from neuralrace.problem import BIAS
from neuralrace.task import Task
from neuralrace.tasks import NamedTask, cautions
from neuralrace.trajectory import Trajectory


def warnings_of(named: NamedTask, run: Trajectory, capped: bool) -> tuple[str, ...]:
    """Sentences; none where there is nothing to mind. capped: the steps were as many as are ever chosen."""
    return (*_of_data(named, run), *_off_the_gradient(run), *_unfinished(run, capped))


def _of_data(named: NamedTask, run: Trajectory) -> tuple[str, ...]:
    """What is to mind of the examples; biases are a constant input."""
    task = named.task
    if run.settings["problem"]["biases"] and BIAS not in task.inputs:
        task = Task({**task.inputs, BIAS: np.ones((len(task), 1))}, task.targets, task.weights)
    return cautions(task, named.labels)


def _off_the_gradient(run: Trajectory) -> tuple[str, ...]:
    """A training whose rule is not known and was not descent."""
    cosine = along_gradient(run)
    if cosine >= ALONG:
        return ()
    return (
        f"the weights did not move down the gradient of the squared error (cosine {cosine:.2f}; 1 is along it): "
        "another loss, an adaptive optimiser or a schedule moved them, and no reconstruction follows those",
    )


def _unfinished(run: Trajectory, capped: bool) -> tuple[str, ...]:
    """Networks that were still learning; where nobody says how a training ended, the loss does."""
    running = int(np.sum(run.status == "running"))
    if not running:
        return ()
    mean, half = run.loss.mean(axis=0), int(np.searchsorted(run.time, run.time[-1] / 2))
    late = (mean[half] - mean[-1]) / max(mean[0] - mean[-1], np.finfo(float).tiny)
    steps = int(run.data["step"].values[-1])
    told = (
        f"{running} of {len(run.loss)} networks were still moving after {steps} steps (the later half of them brought "
        f"{late:.1%} of the fall): this explains them up to there"
    )
    return (f"{told}. So many steps are the most that are chosen: give more if it matters" if capped else told,)
