"""Train, discover, race, forecast: one call from a task to its report."""

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralrace import reln
from neuralrace.errors import ProblemError, RangeError, TaskError, UnknownNameError, nearest, require_count
from neuralrace.explanation.measures import describe_modules, measure_assumptions, measure_selectivity
from neuralrace.explanation.plan import Plan, plan_training
from neuralrace.explanation.report import Report
from neuralrace.explanation.resolve import resolve
from neuralrace.initial import Initialiser
from neuralrace.problem import Problem
from neuralrace.reln import Discovery, Race, Staged
from neuralrace.reln.discovery import RTOL, check_modules
from neuralrace.task import Task
from neuralrace.tasks import NamedTask
from neuralrace.theory import Forecast, predict
from neuralrace.training import ReLUNetwork, train
from neuralrace.trajectory import Trajectory

RECORDS = 160  # gate patterns over the run
MOST_PATHWAYS = 20  # of one candidate
CRITERION = 0.1  # of the first loss: the finish of the race

Groups = str | Sequence[Any] | np.ndarray | None


def explain(
    task: Task | NamedTask | str | os.PathLike[str],
    hidden: int | Sequence[int] = (700,),
    seeds: int = 5,
    *,
    groups: Groups = None,
    modules: int | str = "auto",
    initial: Initialiser | None = None,
    learning_rate: float | None = None,
    steps: int | None = None,
    key: int = 0,
    progress: bool = True,
) -> Report:
    """Explain what ReLU networks do on a task: which modules they form, why those, and how they learn.

    task: examples, a named task or its name, or an .npz file. hidden: the width of each hidden layer. groups: a label
    for each example, or the name of a grouping of a named task; its coarsest if not given. modules: how many in each
    layer, "auto" by the elbow. initial, learning_rate, steps: of the training; small weights, a tenth of the inverse
    curvature, and until a first network has learned if not given.
    """
    count = require_count("seeds", seeds)
    check_modules(modules)
    named = resolve(task)
    labels_of_groups = _groups(named, groups)
    network = ReLUNetwork(named.task, hidden=hidden)
    plan = plan_training(network, initial, learning_rate, steps, key=key + 1, progress=progress)
    run = train(
        network,
        plan.law,
        plan.learning_rate,
        plan.steps,
        seeds=count,
        key=key,
        record="gate_patterns",
        every=max(1, plan.steps // RECORDS),
        progress=progress,
    )
    if (run.status == "diverged").any():
        raise RangeError(f"training diverged at learning_rate={plan.learning_rate:.3g}: give a smaller learning_rate")
    found = reln.discover(run, modules, draws=1, initial=plan.law, key=key)
    forecast = _forecast(found, plan, run)
    race = _race(named.task, network, found, labels_of_groups, plan, run.time)
    return Report(
        name=named.name,
        settings=_settings(named, network, plan, count, key),
        groups=labels_of_groups,
        run=run,
        found=found,
        staged=_staged(run, found, progress),
        race=race,
        modules=describe_modules(run, network, found, forecast, labels_of_groups, _labels(named)),
        selectivity=()
        if labels_of_groups is None
        else measure_selectivity(run, [layer.name for layer in found.layers], labels_of_groups),
        assumptions=measure_assumptions(run, found, forecast.certificate),
    )


def _groups(named: NamedTask, groups: Groups) -> np.ndarray | None:
    if isinstance(groups, str):
        if groups not in named.groups:
            raise UnknownNameError(f"task {named.name!r} has no grouping {groups!r}; {nearest(groups, named.groups)}")
        return np.asarray(named.groups[groups])
    if groups is not None:
        labels = np.asarray(groups)
        if labels.shape != (len(named.task),):
            raise TaskError(f"groups must have one label per example, {len(named.task)}; their shape is {labels.shape}")
        return labels
    counted = {name: len(np.unique(labels)) for name, labels in named.groups.items()}
    telling = [name for name, count in counted.items() if 1 < count < len(named.task)]
    return np.asarray(named.groups[min(telling, key=lambda name: counted[name])]) if telling else None


def _labels(named: NamedTask) -> tuple[Sequence[str], Sequence[str]]:
    """The names of the columns of inputs and targets, empty where there are none."""
    sides: list[list[str]] = []
    for nodes in (named.task.inputs, named.task.targets):
        complete = all(node in named.labels for node in nodes)
        sides.append([label for node in nodes for label in named.labels[node]] if complete else [])
    return sides[0], sides[1]


def _race(
    task: Task, network: ReLUNetwork, found: Discovery, groups: np.ndarray | None, plan: Plan, times: np.ndarray
) -> Race:
    """Race the gatings that respect the groups, and the one that was found."""
    candidates = {"common": np.ones((1, len(task)), dtype=bool)}
    if groups is not None:
        count = len(np.unique(groups))
        sizes = [size for size in range(1, count) if math.comb(count, size) < MOST_PATHWAYS]
        candidates = reln.gatings_of_groups(groups, sizes)
    patterns = found.layers[-1].modules.patterns
    same = [name for name, other in candidates.items() if _as_set(other) == _as_set(patterns)]
    if not same:
        candidates["found"] = patterns
    entered = {
        f"{name} (found)" if name in same else name: _network(task, network, rows) for name, rows in candidates.items()
    }
    first = 0.5 * float(task.weights @ np.sum(network.targets**2, axis=1))
    return reln.race(task, entered, initial=plan.law, times=times, criterion=CRITERION * first, draws=1)


def _as_set(patterns: np.ndarray) -> set[bytes]:
    return {np.asarray(row, dtype=bool).tobytes() for row in patterns}


def _network(task: Task, network: ReLUNetwork, patterns: np.ndarray) -> Problem:
    """The gated network whose last hidden layer has these patterns, and whose earlier layers are always open."""
    open_layers = [np.ones((1, len(task)))] * (len(network.hidden) - 1)
    widths = [*network.hidden[:-1], max(1, network.hidden[-1] // len(patterns))]
    if not open_layers:
        return reln.gated_problem(task, patterns, widths[0])
    return reln.gated_problem(task, [*open_layers, patterns], widths)


def _staged(run: Trajectory, found: Discovery, progress: bool) -> Staged | None:
    """The forecast in two stretches, for one hidden layer and a law that can be drawn from again."""
    if len(found.layers) > 1:
        return None
    try:
        return reln.staged_forecast(run, found, progress=progress)
    except ProblemError:  # the run cannot be repeated from its record
        return None


def _forecast(found: Discovery, plan: Plan, run: Trajectory) -> Forecast:
    """The gated network that was found by the strongest method that holds, with its modes and its certificate."""
    rate = plan.learning_rate
    return predict(found.problem, plan.law, run.time, draws=1, learning_rate=rate, rtol=RTOL)


def _settings(named: NamedTask, network: ReLUNetwork, plan: Plan, seeds: int, key: int) -> dict[str, Any]:
    return {
        "task": named.name,
        "task settings": dict(named.settings),
        "examples": len(named.task),
        "inputs": network.inputs.shape[1],
        "outputs": network.targets.shape[1],
        "hidden": list(network.hidden),
        "seeds": seeds,
        "key": key,
        "first weights": repr(plan.law),
        "learning rate": plan.learning_rate,
        "steps": plan.steps,
    }
