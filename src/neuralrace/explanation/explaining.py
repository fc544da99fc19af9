"""Train, discover, race, reconstruct: one call from a task, or from a run, to its explanation."""

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from neuralrace import reln
from neuralrace.errors import ProblemError, RangeError, TaskError, UnknownNameError, nearest, require_count
from neuralrace.explanation.explanation import Explanation
from neuralrace.explanation.measures import describe_modules, measure_assumptions, measure_selectivity
from neuralrace.explanation.recipe import choose_recipe, curvature
from neuralrace.explanation.resolve import resolve
from neuralrace.initial import Initialiser, as_data
from neuralrace.problem import Problem
from neuralrace.reln import Discovery, Race, Staged
from neuralrace.reln.discovery import check_modules
from neuralrace.reln.recorded import can_repeat, law_of, network_of
from neuralrace.task import Task
from neuralrace.tasks import NamedTask
from neuralrace.training import ReLUNetwork, train
from neuralrace.trajectory import Trajectory

RECORDS = 160  # gate patterns over the run
MOST_PATHWAYS = 20  # of one candidate
CRITERION = 0.1  # of the first loss: the finish of the race

Groups = str | Sequence[Any] | np.ndarray | None


class Trained(NamedTuple):
    """What there is to explain: networks that learned a task, and the law of their first weights."""

    named: NamedTask
    network: ReLUNetwork
    run: Trajectory
    law: Initialiser


def explain(
    task: Task | NamedTask | Trajectory | str | os.PathLike[str],
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
) -> Explanation:
    """Explain what ReLU networks do on a task: which modules they form, why those, and how they learn.

    task: examples, a named task or its name, a file, or a run of ReLU networks with record="gate_patterns", which is
    explained as it is. hidden: the width of each hidden layer. groups: a label for each example, or the name of a
    grouping of a named task; its coarsest if not given. modules: how many in each layer, "auto" by the elbow. initial,
    learning_rate, steps: of the training; small weights, a tenth of the inverse curvature, and until a first network
    has learned if not given.
    """
    check_modules(modules)
    if isinstance(task, Trajectory):
        trained = _of_run(task, initial, learning_rate, steps)
        labels = _groups(trained.named, groups)
    else:
        named = resolve(task)
        labels = _groups(named, groups)
        trained = _train(named, hidden, seeds, initial, learning_rate, steps, key, progress)
    if (trained.run.status == "diverged").any():
        rate = trained.run.settings["settings"]["learning_rate"]
        raise RangeError(f"training diverged at learning_rate={rate}: give a smaller learning_rate")
    return _explained(trained, labels, modules, key, progress)


def _explained(
    trained: Trained, labels: np.ndarray | None, modules: int | str, key: int, progress: bool
) -> Explanation:
    """Everything that follows training."""
    named, network, run, law = trained
    found = reln.discover(run, modules, draws=1, initial=law, key=key)
    race, entered = _race(trained, found, labels)
    layers = [layer.name for layer in found.layers]
    return Explanation(
        name=named.name,
        settings=_settings(trained),
        groups=labels,
        run=run,
        found=found,
        staged=_staged(run, found, progress),
        race=race,
        entered=entered,
        modules=describe_modules(run, network, found, labels, _labels(named)),
        selectivity=() if labels is None else measure_selectivity(run, layers, labels),
        assumptions=measure_assumptions(run, found, curvature(network.task, len(network.hidden) + 1)),
    )


def _train(
    named: NamedTask,
    hidden: int | Sequence[int],
    seeds: int,
    initial: Initialiser | None,
    learning_rate: float | None,
    steps: int | None,
    key: int,
    progress: bool,
) -> Trained:
    """Train networks on a task with what was given, and what a recipe has for the rest."""
    count, network = require_count("seeds", seeds), ReLUNetwork(named.task, hidden=hidden)
    recipe = choose_recipe(network, initial, learning_rate, steps, key=key + 1, progress=progress)
    run = train(
        network,
        recipe.law,
        recipe.learning_rate,
        recipe.steps,
        seeds=count,
        key=key,
        record="gate_patterns",
        every=max(1, recipe.steps // RECORDS),
        progress=progress,
    )
    return Trained(named, network, run, recipe.law)


def _of_run(run: Trajectory, initial: Initialiser | None, learning_rate: float | None, steps: int | None) -> Trained:
    """Networks that were trained before."""
    if learning_rate is not None or steps is not None:
        raise RangeError("learning_rate and steps are those of the run that is explained: leave them out")
    network = network_of(run)
    settings, law = run.settings["settings"], law_of(run) if initial is None else initial
    if settings["loss"] != "squared":
        raise ProblemError(f"networks that descended the squared error are required; these used {settings['loss']!r}")
    if law is None:
        raise ProblemError("the law of the first weights is required and this run does not hold one: give initial=...")
    return Trained(resolve(network.given), network, run, law)


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


def _race(trained: Trained, found: Discovery, groups: np.ndarray | None) -> tuple[Race, tuple[str, ...]]:
    """Race the gatings that respect the groups and the one that was found; say under which names it takes part."""
    task, network = trained.named.task, trained.network
    candidates = {"common": np.ones((1, len(task)), dtype=bool)}
    if groups is not None:
        count = len(np.unique(groups))
        sizes = [size for size in range(1, count) if math.comb(count, size) < MOST_PATHWAYS]
        candidates = reln.gatings_of_groups(groups, sizes)
    patterns = found.layers[-1].modules.patterns
    entered = tuple(name for name, other in candidates.items() if _as_set(other) == _as_set(patterns))
    if not entered:
        candidates["found"], entered = patterns, ("found",)
    problems = {name: _network(task, network, rows) for name, rows in candidates.items()}
    first = 0.5 * float(task.weights @ np.sum(network.targets**2, axis=1))
    times, finish = trained.run.time, CRITERION * first
    return reln.race(task, problems, initial=trained.law, times=times, criterion=finish, draws=1), entered


def _as_set(patterns: np.ndarray) -> set[bytes]:
    return {np.asarray(row, dtype=bool).tobytes() for row in patterns}


def _network(task: Task, network: ReLUNetwork, patterns: np.ndarray) -> Problem:
    """The gated network whose last hidden layer has these patterns, and whose earlier layers are always open."""
    open_layers = [np.ones((1, len(task)))] * (len(network.hidden) - 1)
    widths = [*network.hidden[:-1], max(1, network.hidden[-1] // len(patterns))]
    if not open_layers:
        return reln.gated_problem(task, patterns, widths[0], network.biases)
    return reln.gated_problem(task, [*open_layers, patterns], widths, network.biases)


def _staged(run: Trajectory, found: Discovery, progress: bool) -> Staged | None:
    """The reconstruction in two stretches, for one hidden layer and a run that can be repeated from its record."""
    if len(found.layers) > 1 or not can_repeat(run):
        return None
    return reln.staged_reconstruction(run, found, progress=progress)


def _settings(trained: Trained) -> dict[str, Any]:
    network, made_with = trained.network, trained.run.settings["settings"]
    return {
        "task": trained.named.name,
        "task settings": dict(trained.named.settings),
        "examples": len(trained.named.task),
        "inputs": network.inputs.shape[1],
        "outputs": network.targets.shape[1],
        "hidden": list(network.hidden),
        "first weights": as_data(trained.law),
        **{name: made_with[name] for name in ("seeds", "key", "learning_rate", "steps")},
    }
