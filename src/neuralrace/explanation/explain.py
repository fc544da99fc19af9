"""Predict, train, find modules, replay them, judge: one call from a task, or from a run, to its explanation."""

import inspect
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralrace import initial as initials
from neuralrace import reln, tasks
from neuralrace.analysis import share_by_groups
from neuralrace.architecture import edge_name
from neuralrace.datafiles import as_path
from neuralrace.errors import (
    ProblemError,
    RangeError,
    TaskError,
    UnknownNameError,
    WeightError,
    nearest,
    require_count,
    require_known,
)
from neuralrace.explanation.recipe import (
    SETTLED,
    Recipe,
    check_given,
    choose_recipe,
    choose_width,
    divergence,
    linear_fit,
    records_of,
)
from neuralrace.explanation.result import ALONG, Explanation, along_gradient
from neuralrace.explanation.scores import measure_of, score_networks
from neuralrace.initial import Initializer, as_data, from_data
from neuralrace.interop import layers_of, read_folder
from neuralrace.problem import BIAS, Problem, ReLUNetwork, side_by_side
from neuralrace.reln.discover import Modular, check_modules
from neuralrace.reln.modules import examples_of, network_of, recorded_weights
from neuralrace.reln.predict_modules import largest_curvature
from neuralrace.settings import read_setting
from neuralrace.task import Task
from neuralrace.tasks import NamedTask, cautions
from neuralrace.tasks.files import TABLES
from neuralrace.training import train
from neuralrace.training.train import check_memory
from neuralrace.trajectory import Trajectory

SEEDS, QUICK_SEEDS = 5, 3
MOST_PATHWAYS = 20  # of one candidate in the race
MOST_SEEN = 200  # pathways times inputs of one candidate: its solution takes the cube of this
CRITERION = 0.1  # of the initial loss: the finish of the race

Groups = str | Sequence[Any] | np.ndarray | None


def explain(
    task: Task | NamedTask | Trajectory | str | os.PathLike[str],
    hidden: int | Sequence[int] | None = None,
    seeds: int | None = None,
    *,
    groups: Groups = None,
    modules: int | str = "auto",
    initial: Initializer | None = None,
    learning_rate: float | None = None,
    steps: int | None = None,
    checkpoints: str | os.PathLike[str] | None = None,
    quick: bool = False,
    key: int = 0,
    progress: bool = True,
) -> Explanation:
    """Explain what ReLU networks do on a task: what theory predicts, which modules they form, what those are worth.

    task: examples, a named task or its name, a file, or a run of ReLU networks with record=("gate_patterns",
    "weights"), or from checkpoints, which is explained as it is. hidden: the width of each hidden layer (700, fewer for
    large tables). seeds: number of networks (5). groups: a label for each example, or the name of a grouping of a named
    task (its coarsest). modules: how many; "auto": the fewest that explain the networks. initial, learning_rate, steps:
    of the training (small weights, small steps, and until little more is learned). checkpoints: a folder with the
    weights of networks that you trained on this task, which are explained instead of new ones. quick: fewer neurons and
    networks, and no race. progress: report progress on standard error.
    """
    check_modules(modules)
    began = time.monotonic()

    def say(text: str) -> None:
        if progress:
            print(f"[{time.monotonic() - began:4.0f} s] {text}", file=sys.stderr, flush=True)

    given, before = isinstance(task, Trajectory), False
    own = {"hidden": hidden, "seeds": seeds, "steps": steps, "learning_rate": learning_rate if given else None}
    names = [name for name, value in own.items() if value is not None]
    if names and (given or checkpoints is not None):
        raise RangeError(f"the run that is explained has its own {' and '.join(names)}: leave that out")
    named = resolve(examples_of(network_of(task)) if isinstance(task, Trajectory) else task)
    labels, recipe, predicted = _groups(named, groups), None, None
    draws = 1 if quick else 2
    if isinstance(task, Trajectory) or checkpoints is not None:
        if isinstance(task, Trajectory):
            run = task
        else:
            folder = as_path("checkpoints", checkpoints, "a folder")
            say(f"reading the checkpoints in {folder}")
            run = run_of_folder(named.task, folder, learning_rate)
        network, run = _checked_run(run)
        drawn = _initializer_of(run) if initial is None else initial
        if drawn is not None and along_gradient(run) >= ALONG:
            say("predicting what the run should have done")
            rate = float(run.settings["learning_rate"])
            options: dict[str, Any] = {"learning_rate": rate, "draws": draws, "key": key}
            predicted = reln.predict_modules(network, drawn, run.time, modules, **options)
    else:
        relu = ReLUNetwork(named.task, choose_width(named.task, quick) if hidden is None else hidden)
        size = require_count("seeds", (QUICK_SEEDS if quick else SEEDS) if seeds is None else seeds)
        check_given(relu, initial, learning_rate, steps, key)
        check_memory(relu, 0 if steps is None else steps, None, size)
        widths = " and ".join(map(str, relu.hidden))
        say(f"{named.name}: {len(named.task)} examples, {widths} neurons; choosing steps")
        recipe = choose_recipe(relu, initial, learning_rate, steps, key=key, quick=quick)
        network, drawn, before, rate = relu, recipe.initial, True, recipe.learning_rate
        records = records_of(recipe.steps)
        say(f"predicting {recipe.steps} steps")
        predicted = reln.predict_modules(
            network, drawn, rate * records, modules, learning_rate=rate, draws=draws, key=key
        )
        say(f"training {size} networks")
        record = ("gate_patterns", "weights") if len(relu.hidden) == 1 else ("gate_patterns",)
        at = records.tolist()
        run = train(network, drawn, rate, recipe.steps, seeds=size, key=key, record=record, at=at, progress=progress)
        if (run.status == "diverged").any():
            raise divergence(named.task, rate)
    say("finding modules and replaying them")
    found = reln.discover(run, modules, key=key)
    ranking: reln.Ranking | None = None
    entered: tuple[str, ...] = ()
    if drawn is not None and not quick:
        say("racing gatings")
        ranking, entered = _race(found, run.time, drawn, labels)
    outputs = _titles(named, named.task.targets)
    targets, amount = side_by_side(named.task.targets), named.task.weights
    measure = measure_of(targets, outputs, labels, amount)
    sets = [run.weights(seed) for seed in range(len(run.loss))]
    return Explanation(
        name=named.name,
        settings=_settings(named, network, run, drawn),
        run=run,
        found=found,
        predicted=predicted,
        before=before,
        groups=labels,
        inputs=tuple(_titles(named, named.task.inputs)),
        outputs=tuple(outputs),
        race=ranking,
        entered=entered,
        measure=measure,
        scores=score_networks(measure, network, sets, found.modules),
        selectivity={} if labels is None else _selectivity(run, labels),
        assumptions=_assumptions(run, found),
        warnings=_warnings(named, run, network, recipe),
        notes=named.notes,
    )


def _checked_run(run: Trajectory) -> tuple[Problem, Trajectory]:
    """The network of a run that can be explained, and the run with the learning rate that it went by.

    The rate of an optimizer is a unit of time only; the true one is measured, as it is of checkpoints.
    """
    network, settings = network_of(run), run.settings
    if settings["loss"] != "squared":
        raise ProblemError(f"networks that descended the squared error are required; these used {settings['loss']!r}")
    if settings["learning_rate"] is None:
        raise ProblemError("a run with one learning rate is required; this one had a schedule of it")
    if len(run.time) < 2:
        raise ProblemError("a run with two records or more is required; this one has 1: train for some steps")
    if settings["rule"]["rule"] != "optax":
        return network, run
    if recorded_weights(run) is None:
        raise ProblemError(
            "the weights over time are required to measure what an optimizer did: train with "
            "record=('gate_patterns', 'weights')"
        )
    steps = run.data["step"].values.tolist()
    weights = [[run.weights(seed, record) for record in range(len(steps))] for seed in range(len(run.loss))]
    found = Trajectory.from_checkpoints(network, steps, weights, learning_rate=settings["learning_rate"])
    return network, found if along_gradient(found) < ALONG else Trajectory.from_checkpoints(network, steps, weights)


def _initializer_of(run: Trajectory) -> Initializer | None:
    """The initializer of a run; of checkpoints one of the same sizes, edge by edge; None for given weights."""
    if run.settings["rule"]["rule"] != "checkpoints":
        return from_data(run.settings["initial"])
    sizes = {e: float(np.sqrt(np.mean(run.values(f"initial_weights[{edge_name(e)}]") ** 2))) for e in run.edges}
    return initials.gaussian(sizes)


def run_of_folder(task: Task, folder: str | os.PathLike[str], learning_rate: float | None = None) -> Trajectory:
    """Read the checkpoints of a folder as a run on some examples; widths and biases are those of the first file."""
    saved = read_folder(folder)
    steps, arrays = saved[0]
    for others, _ in saved[1:]:
        if others != steps:
            missing = sorted(set(steps) ^ set(others))
            raise WeightError(f"all networks must be saved at the same steps; step {missing[0]} is not there for all")
    layers = layers_of(arrays[0], side_by_side(task.inputs).shape[1], side_by_side(task.targets).shape[1])
    if len(layers) < 2:
        raise WeightError("a network with a hidden layer is required; the checkpoints have one linear layer")
    hidden = [len(matrix) for _, matrix, _ in layers[:-1]]
    network = ReLUNetwork(task, hidden, biases=layers[0][2] is not None)
    return Trajectory.from_checkpoints(network, steps, [arrays for _, arrays in saved], learning_rate=learning_rate)


def _race(
    found: Modular, times: np.ndarray, initial: Initializer, groups: np.ndarray | None
) -> tuple[reln.Ranking, tuple[str, ...]]:
    """Race the gatings that respect the groups and the one that was found; say under which names that takes part.

    Candidates that are too large to be solved in seconds stay out. Nothing is trained.
    """
    network = found.network
    task, (*before, last) = examples_of(network), network.architecture.hidden
    most = max(1, min(MOST_PATHWAYS, MOST_SEEN // side_by_side(task.inputs).shape[1]))
    candidates = {"common": np.ones((1, len(task)), dtype=bool)}
    if groups is not None:
        count = len(np.unique(groups))
        candidates = reln.gatings_of_groups(groups, [s for s in range(1, count) if math.comb(count, s) < most])
    own = [module.pattern for module in found.modules if module.layer == last]
    entered: tuple[str, ...] = ()
    if own:
        mine = np.unique(own, axis=0)
        entered = tuple(name for name, other in candidates.items() if np.array_equal(np.unique(other, axis=0), mine))
        if not entered and len(own) <= most:
            candidates["found"], entered = np.array(own), ("found",)
    sizes = network.architecture.nodes
    problems = {}
    for name, rows in candidates.items():  # earlier layers are always open
        patterns = [*(np.ones((1, len(task))) for _ in before), rows]
        widths = [*(sizes[layer] for layer in before), max(1, sizes[last] // len(rows))]
        problems[name] = reln.gated_problem(task, patterns, widths, network.biases)
    level = CRITERION * 0.5 * float(task.weights @ np.sum(side_by_side(task.targets) ** 2, axis=1))
    return reln.race(task, problems, initial=initial, times=times, criterion=level, draws=2), entered


def _selectivity(run: Trajectory, groups: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    """Layer -> in how many groups its neurons are active: shares of neurons, of strength, and before training."""
    found = {}
    for layer in network_of(run).architecture.hidden:
        samples = reln.gate_samples(run, layer)
        found[layer] = {
            "neurons": share_by_groups(samples[:, -1], groups),
            "counted by strength": share_by_groups(samples[:, -1], groups, reln.neuron_strengths(run, layer)),
            "before training": share_by_groups(samples[:, 0], groups),
        }
    return found


def _assumptions(run: Trajectory, found: Modular) -> tuple[tuple[str, str], ...]:
    """What the description by modules rests on, and how far that held."""
    held, layers = [], found.network.architecture.hidden
    for layer in layers:
        samples, own = reln.gate_samples(run, layer), [one for one in found.modules if one.layer == layer]
        agree = np.concatenate([samples[:, -1][one.members] == one.pattern for one in own] or [np.ones((1, 1))])
        silent = 1 - sum(one.members.mean() for one in own)
        kind = f"{layer}: " if len(layers) > 1 else ""
        told = f"{agree.mean():.1%} of gates agree at the end; {silent:.1%} of neurons are on for nothing"
        held.append((f"{kind}neurons gate like their module", told))
        flips = (samples[:, 1:] != samples[:, :-1]).mean(axis=(0, 2, 3))
        half = int(np.searchsorted(run.time[1:], run.time[-1] / 2))
        if 0 < half < len(flips):
            parts = flips[:half].sum(), flips[half:].sum()
            told = f"a gate turns {parts[0]:.3g} times in the first half of training, {parts[1]:.3g} in the second"
            held.append((f"{kind}gates do not change", f"{told}, in the mean"))
    bound = run.settings["learning_rate"] * largest_curvature(examples_of(found.network), len(layers) + 1)
    told = f"learning rate times a bound on the curvature is {bound:.2g}; 2 would be unstable"
    if along_gradient(run) < ALONG:
        told = f"the weights did not go down the gradient, cosine {along_gradient(run):.2f}"
    return (*held, ("descent follows its flow", told))


def _warnings(named: NamedTask, run: Trajectory, network: Problem, recipe: Recipe | None) -> tuple[str, ...]:
    """Cautions about the data, the rule of the training, networks that still move, and plateaus."""
    task, told = named.task, []
    if network.biases and BIAS not in task.inputs:
        task = Task({**task.inputs, BIAS: np.ones((len(task), 1))}, task.targets, task.weights)
    cosine, running = along_gradient(run), int(np.sum(run.status == "running"))
    if cosine < ALONG:
        told.append(
            f"the weights did not move down the gradient of the squared error (cosine {cosine:.2f}; 1 is along it): "
            "another loss, an adaptive optimizer, a schedule, or examples that were prepared in another way "
            "(standardized, say) moved them; reconstructions descend that gradient, so they say little here"
        )
    mean, half, steps = run.loss.mean(axis=0), int(np.searchsorted(run.time, run.time[-1] / 2)), run.data["step"].values
    fall, late = mean[0] - mean[-1], mean[half] - mean[-1]
    if running:
        how = "the loss did not fall"
        if fall > 0:
            brought = f"the later half of them brought {late / fall:.1%} of the fall"
            how = brought if late >= 0 else "in the later half of them the loss rose"
        still = f"{running} of {len(run.loss)} networks were still moving after {int(steps[-1])} steps ({how})"
        capped = ". This is the largest number of steps that is chosen: give more if it matters"
        told.append(f"{still}: this explains them up to there{capped if recipe is not None and recipe.capped else ''}")
    linear = linear_fit(task)
    if recipe is not None and recipe.drop is not None:
        step = recipe.drop / float(run.time[-1]) * int(steps[-1])
        told.append(
            f"still on a plateau: the next drop of the loss is expected near t = {recipe.drop:.3g}, after about "
            f"{step:,.0f} steps, by a simulation of a few neurons; give more steps to see it"
        )
    elif late < SETTLED * fall and abs(mean[-1] - linear) <= 0.05 * linear and linear >= 0.01 * mean[0]:
        told.append(
            f"the networks do as well as the best linear function (loss {mean[-1]:.3g}; linear {linear:.3g}) and have "
            "settled there, which may be a plateau: give more steps to see whether the loss falls again"
        )
    return (*cautions(task, named.labels), *told)


def _groups(named: NamedTask, groups: Groups) -> np.ndarray | None:
    if isinstance(groups, str):
        require_known(groups, named.groups, f"task {named.name!r} has no grouping {groups!r}")
        return np.asarray(named.groups[groups])
    if groups is not None:
        labels = np.asarray(groups)
        if labels.shape != (len(named.task),):
            raise TaskError(f"groups must have one label per example, {len(named.task)}; their shape is {labels.shape}")
        return labels
    counted = {name: len(np.unique(labels)) for name, labels in named.groups.items()}
    telling = [name for name, count in counted.items() if 1 < count < len(named.task)]
    return np.asarray(named.groups[min(telling, key=lambda name: counted[name])]) if telling else None


def _titles(named: NamedTask, nodes: Mapping[str, np.ndarray]) -> Sequence[str]:
    """The names of the columns of inputs or targets; none where not all have some."""
    complete = all(node in named.labels for node in nodes)
    return [label for node in nodes for label in named.labels[node]] if complete else []


def _settings(named: NamedTask, network: Problem, run: Trajectory, initial: Initializer | None) -> dict[str, Any]:
    return {
        "task": named.name,
        "task settings": dict(named.settings),
        "examples": len(named.task),
        "inputs": side_by_side(named.task.inputs).shape[1],
        "outputs": side_by_side(named.task.targets).shape[1],
        "hidden": [network.architecture.nodes[layer] for layer in network.architecture.hidden],
        "biases": network.biases,
        "initial weights": None if initial is None else as_data(initial),
        **{name: run.settings[name] for name in ("seeds", "key", "learning_rate", "steps")},
    }


def resolve(
    task: Any,
    *more: str | os.PathLike[str],
    settings: Mapping[str, Any] | None = None,
    reading: Mapping[str, Any] | None = None,
) -> NamedTask:
    """The task that is meant: examples, a named task or its name with settings, or files and how to read them."""
    if isinstance(task, NamedTask):
        return task
    if isinstance(task, Task):
        return NamedTask(name="task", settings={}, task=task)
    if not isinstance(task, (str, os.PathLike)):
        raise TaskError(
            f"a task, the name of one or a file is required; {type(task).__name__} came: of arrays make "
            "Task({'x': inputs}, {'y': targets}), one example per row"
        )
    text = os.fspath(task)
    named = text in tasks.names() and not os.path.isfile(text)  # a folder of that name is no data
    if more and named:
        others = [os.fspath(one) for one in more]
        advice = "repeat --hidden for each layer" if others[0].isdecimal() else "explain them one by one"
        raise TaskError(f"one named task is required; beside {text!r} came {', '.join(map(repr, others))}: {advice}")
    if more or text.endswith((".npz", *TABLES)) or (os.path.exists(text) and not named):
        if settings:
            raise TaskError("settings are for named tasks; a file has none")
        if more:
            raise TaskError(f"one file with examples is required; {1 + len(more)} came")
        return tasks.read(text, **(reading or {}))
    if text not in tasks.names():
        raise UnknownNameError(
            f"there is no task and no file {text!r}; {nearest(text, tasks.names())}; files end in .npz or .csv"
        )
    if reading:
        raise TaskError(
            f"{', '.join(reading)} is for files; {text!r} is a named task, whose settings are given as --set name=value"
        )
    return tasks.get(text, **(settings or {}))


def task_settings(name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Settings of a named task that came as text, each read as the kind of its default."""
    if name not in tasks.names():
        return dict(given)
    known = inspect.signature(tasks.factories()[name]).parameters
    plain = {key: p for key, p in known.items() if isinstance(p.default, (int, float, str, tuple))}
    return {
        key: read_setting(key, text, plain[key].annotation, plain[key].default) if key in plain else text
        for key, text in given.items()
    }
