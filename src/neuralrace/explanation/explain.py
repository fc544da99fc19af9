"""Predict, train, find modules, replay them, judge: one call from a task, or from a run, to its explanation."""

import inspect
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from neuralrace import initial as initials
from neuralrace import reln, tasks
from neuralrace.architecture import edge_name
from neuralrace.errors import (
    RangeError,
    TaskError,
    UnknownNameError,
    WeightError,
    nearest,
    option,
    require_count,
    require_known,
    require_number,
)
from neuralrace.explanation.recipe import choose_recipe, choose_width, divergence, plateau
from neuralrace.explanation.result import Explanation
from neuralrace.initial import Initializer, absolute, as_data, as_key, from_data, seed_words
from neuralrace.interop import layers_of, read_folder
from neuralrace.io import as_path
from neuralrace.memory import require_size
from neuralrace.problem import BIAS, Problem, ReLUNetwork, side_by_side
from neuralrace.progress import Meter
from neuralrace.reln.discover import Modular, check_modules
from neuralrace.reln.modules import examples_of, measured, network_of, replayable, small_steps
from neuralrace.settings import read_setting
from neuralrace.tables import as_table
from neuralrace.task import Task
from neuralrace.tasks import NamedTask, cautions
from neuralrace.tasks.files import TABLES
from neuralrace.training import train
from neuralrace.trajectory import Trajectory

Groups = str | Sequence[Any] | np.ndarray | None


def explain(
    task: Any,
    y: Any = None,
    *,
    target: str | Sequence[str] | None = None,
    hidden: int | Sequence[int] | None = None,
    seeds: int | None = None,
    groups: Groups = None,
    modules: int | str = "auto",
    initial: Initializer | None = None,
    learning_rate: float | None = None,
    steps: int | None = None,
    test: float | Task | None = None,
    checkpoints: str | os.PathLike[str] | None = None,
    quick: bool = False,
    key: int = 0,
    progress: bool = True,
    **reading: Any,
) -> Explanation:
    """Explain what ReLU networks do on a task: what theory predicts, which modules they form, and their contributions.

    task: a data frame or the name of a table with `target`, the columns to learn; arrays or frames X with y; a Task; a
    named task or its name; an .npz file; or a run of ReLU networks with record=("gate_patterns", "weights"), a saved
    one (.nc), or one from checkpoints, which is explained as it is. hidden: the width of each hidden layer (700, fewer
    for large tables). seeds: number of networks (5). groups: a label for each example, or the name of a grouping of a
    named task (its coarsest). modules: how many; "auto": the fewest that explain the networks. initial, learning_rate,
    steps: of the training (small weights, small steps, and until little more is learned). test: other examples, on
    which networks and forecast are evaluated, or the fraction of the examples, drawn at random, that is kept for this.
    checkpoints: a folder with the weights of networks that you trained on this task, which are explained instead of new
    ones. quick: fewer neurons and networks, and no race. progress: report progress on standard error.

    reading: how tables are read: classes, drop and missing, see `Task.from_frame`, and options of `pandas.read_csv` for
    files. Inputs and numeric targets of a table are standardized and a constant input is added, except with
    checkpoints; raw=True does neither. standardize=True or bias=True does one of the two in any case.
    """
    check_modules(modules)
    as_key(key)
    if learning_rate is not None:
        require_number("learning_rate", learning_rate, above=0)
    if steps is not None:
        require_count("steps", steps, most=2**31 - 1)
    began = time.monotonic()

    def say(text: str) -> None:
        if progress:
            print(f"[{time.monotonic() - began:4.0f} s] {text}", file=sys.stderr, flush=True)

    given = task if isinstance(task, Trajectory) else None
    if isinstance(task, (str, os.PathLike)) and os.fspath(task).endswith(".nc"):
        given = Trajectory.load(task)
    before = given is None and checkpoints is None  # nothing is trained yet
    own: dict[str, Any] = {"hidden": hidden, "seeds": seeds, "steps": steps}
    if given is not None:
        own |= {"learning_rate": learning_rate, "y": y, "target": target, "checkpoints": checkpoints, **reading}
    names = [name for name, value in own.items() if value is not None]
    if names and (given is not None or checkpoints is not None):
        raise RangeError(f"{' and '.join(names)} cannot be given: the run that is explained has its own")
    if test is not None and not before:
        raise RangeError(f"{option('test', test)} keeps examples from training, and these networks are trained already")
    named, evaluate = NamedTask(examples_of(network_of(given))) if given is not None else None, {}
    if named is None:
        share = None if test is None or isinstance(test, Task) else require_number("test", test, above=0, most=0.9)

        def training(count: int) -> np.ndarray:
            order = np.random.default_rng([*seed_words(key), 1]).permutation(count)
            return (order >= np.clip(round((share or 0.0) * count), 1, count - 1)).astype(float)

        part = None if share is None else training
        named = resolve(task, y, target, reading=reading, prepare=before, training=part)
        if not before and "targets" in named.settings and not {"standardize", "bias", "raw"} & set(reading):
            how_read = f"{option('standardize')}, {option('bias')} if the training had it so"
            note = f"the table was read as it is, because checkpoints are explained ({how_read})"
            named = replace(named, task=replace(named.task, notes=(*named.task.notes, note)))
        named, held = (named, test) if share is None else _split(named)
        evaluate = {} if held is None else {"test": held}
    labels, caution, predicted = _groups(named, groups), "", None
    skipped: tuple[str, ...] = ()
    network: Problem
    drawn: Initializer | None
    draws = 1 if quick else 2
    if before:
        relu = ReLUNetwork(named.task, choose_width(named.task, quick) if hidden is None else hidden)
        count = (3 if quick else 5) if seeds is None else require_count("seeds", seeds)
        layers = relu.architecture.hidden
        require_size([relu], count, records=60 * relu.architecture.weight_count if len(layers) == 1 else 0)
        widths = " and ".join(str(relu.architecture.nodes[layer]) for layer in layers)
        say(f"{named.name}: {len(named.task)} examples, {widths} neurons; choosing steps")
        with Meter("choosing steps", shown=progress):
            start, rate, last, caution = choose_recipe(relu, initial, learning_rate, steps, key=key, quick=quick)
        # evenly, and as densely in the beginning, where gates turn first
        records = np.concatenate([np.linspace(0, last, 61), np.geomspace(1, max(last, 1), 60)])
        records = np.unique(np.round(records).astype(int))
        say(f"predicting {last} steps")
        times = rate * records
        how: dict[str, Any] = {"learning_rate": rate, "draws": draws, "key": key, "evaluate": evaluate}
        predicted = reln.predict_modules(relu, start, times, modules, progress=progress, **how)
        say(f"training {count} networks")
        record = ("gate_patterns", "weights") if len(layers) == 1 else ("gate_patterns",)
        at = records.tolist()
        how = {"record": record, "at": at, "evaluate": evaluate, "progress": progress}
        run = train(relu, start, rate, last, seeds=count, key=key, **how)
        if (run.status == "diverged").any():
            raise divergence(named.task, rate)
        network, drawn = relu, start
    else:
        if given is None:
            folder = as_path("checkpoints", checkpoints, "a folder")
            say(f"reading the checkpoints in {folder}")
            given, skipped = run_of_folder(named.task, folder, learning_rate)
        say("measuring how the weights moved")
        network, run = network_of(given), measured(given)
        drawn = _initializer_of(run) if initial is None else initial
        if replayable(run) and drawn is None:
            caution = "nothing was predicted, because the initializer is not known: give initial=..."
        elif replayable(run) and drawn is not None:
            say("predicting the run")
            predicted, caution = _predict_run(run, drawn, modules, draws, key, progress)
    say("finding modules and replaying them" if replayable(run) else "finding modules")
    found = reln.discover(run, modules, key=key, progress=progress)
    ranking: reln.Ranking | None = None
    if drawn is not None and replayable(run) and not quick:
        say("racing gatings")
        ranking = _race(found, run.time, drawn, labels, progress)
    return Explanation(
        name=named.name,
        settings={
            "task": named.name,
            "task settings": dict(named.settings),
            "examples": len(named.task),
            "hidden": [network.architecture.nodes[layer] for layer in network.architecture.hidden],
            "biases": network.biases,
            "initial weights": None if drawn is None else as_data(drawn),
            **{name: run.settings[name] for name in ("seeds", "key", "learning_rate", "steps")},
        },
        run=run,
        found=found,
        predicted=predicted,
        before=before,
        groups=labels,
        inputs=named.task.input_names,
        outputs=named.task.output_names,
        race=ranking,
        warnings=_warnings(named, run, network, caution, skipped),
    )


def _predict_run(
    run: Trajectory, initial: Initializer, modules: int | str, draws: int, key: int, progress: bool
) -> tuple[Modular | None, str]:
    """Predict a run that was made elsewhere, and whether it ends on a plateau; the simulation may diverge."""
    network, parts = network_of(run), small_steps(run)
    rate = float(run.settings["learning_rate"]) / parts
    try:
        how: dict[str, Any] = {"learning_rate": rate, "draws": draws, "key": key, "progress": progress}
        predicted = reln.predict_modules(network, initial, run.time, modules, **how)
        return predicted, plateau(network, initial, rate, parts * int(run.data["step"].values[-1]), key=key)
    except RangeError:
        return None, f"nothing was predicted, because descent of fresh networks by steps of {rate:.3g} diverges"


def _initializer_of(run: Trajectory) -> Initializer | None:
    """The initializer of a run; of checkpoints a Gaussian of the same sizes by edge; None for given weights."""
    if run.settings["rule"]["rule"] != "checkpoints":
        return from_data(run.settings["initial"])
    sizes = {e: float(np.sqrt(np.mean(run.values(f"initial_weights[{edge_name(e)}]") ** 2))) for e in run.edges}
    return initials.gaussian(sizes)


def run_of_folder(
    task: Task, folder: str | os.PathLike[str], learning_rate: float | None = None
) -> tuple[Trajectory, tuple[str, ...]]:
    """Read the checkpoints of a folder as a run on some examples; widths and biases are those of the first file.

    Return also the names of what was skipped.
    """
    saved, skipped = read_folder(folder)
    steps, arrays = saved[0]
    for others, _ in saved[1:]:
        if others != steps:
            missing = sorted(set(steps) ^ set(others))
            raise WeightError(f"all networks must be saved at the same steps; step {missing[0]} is missing for some")
    layers, _ = layers_of(arrays[0], side_by_side(task.inputs).shape[1], side_by_side(task.targets).shape[1])
    if len(layers) < 2:
        raise WeightError("a network with a hidden layer is required; the checkpoints have one linear layer")
    hidden = [len(matrix) for _, matrix, _ in layers[:-1]]
    network = ReLUNetwork(task, hidden, biases=layers[0][2] is not None)
    run = Trajectory.from_checkpoints(network, steps, [arrays for _, arrays in saved], learning_rate=learning_rate)
    return run, skipped


def _race(
    found: Modular, times: np.ndarray, initial: Initializer, groups: np.ndarray | None, progress: bool
) -> reln.Ranking:
    """Race the gatings that respect the groups and the one that was found; nothing is trained.

    Candidates that cannot be solved in seconds are left out: the time grows with the cube of pathways times
    inputs.
    """
    network, sizes = found.network, found.network.architecture.nodes
    task, (*before, last) = examples_of(network), network.architecture.hidden
    most = int(np.clip(200 // side_by_side(task.inputs).shape[1], 1, 20))
    candidates = {"common": np.ones((1, len(task)), dtype=bool)}
    if groups is not None:
        count = len(np.unique(groups))
        candidates = reln.gatings_of_groups(groups, [s for s in range(1, count) if math.comb(count, s) < most])
    own = [module.pattern for module in found.modules if module.layer == last]
    if 0 < len(own) <= most:
        candidates["found"] = np.array(own)
    problems = {}
    for name, rows in candidates.items():  # earlier layers are always open
        patterns = [*(np.ones((1, len(task))) for _ in before), rows]
        widths = [*(sizes[layer] for layer in before), max(1, sizes[last] // len(rows))]
        problems[name] = reln.gated_problem(task, patterns, widths, network.biases)
    finish = 0.1 * 0.5 * float(task.weights @ np.sum(side_by_side(task.targets) ** 2, axis=1))  # of the initial loss
    start = absolute(initial, network)
    return reln.race(task, problems, initial=start, times=times, criterion=finish, draws=2, progress=progress)


def _warnings(
    named: NamedTask, run: Trajectory, network: Problem, caution: str, skipped: Sequence[str]
) -> tuple[str, ...]:
    """Cautions about the data, the rule of the training, networks that still move, and what reading them changed."""
    task, sentences = named.task, [caution] if caution else []
    if network.biases and BIAS not in task.inputs:
        inputs = {**task.inputs, BIAS: np.ones((len(task), 1))}
        task = Task(inputs, task.targets, task.weights, names=task.names)
    running, rule, rate = int(np.sum(run.status == "running")), run.settings["rule"], run.settings["learning_rate"]
    if not replayable(run):
        why = f"it descended the {run.settings['loss']} loss by the rule {rule['rule']!r}, at {len(run.time)} records"
        if "direction" in rule:
            why = (
                "no learning rate of descent on the squared error leads from record to record (the best has cosine "
                f"{rule['cosine']:.2f}; 1 is along it); of directions, {rule['direction']}"
            )
        sentences.append(
            "the training was neither predicted nor repeated, and modules are read from the trained weights alone: "
            f"{why}"
        )
    elif small_steps(run) > 1:
        sentences.append(
            f"the weights moved at a pace of {rate:.3g} a step, at which plain descent diverges: momentum is a likely "
            f"cause; {small_steps(run)} small steps stand for one here"
        )
    if running:
        mean, half = run.loss.mean(axis=0), int(np.searchsorted(run.time, run.time[-1] / 2))
        fall, late = mean[0] - mean[-1], mean[half] - mean[-1]
        how = f"the later half of them brought {late / fall:.1%} of the fall" if fall > 0 else "the loss did not fall"
        last = int(run.data["step"].values[-1])
        sentences.append(
            f"{running} of {len(run.loss)} networks were still moving after {last} steps ({how}): this explains them "
            "up to there"
        )
    sentences += run.settings.get("notes", ())
    if skipped:
        more = f" and {len(skipped) - 5} more" if len(skipped) > 5 else ""
        sentences.append(f"skipped in the folder of checkpoints: {', '.join(skipped[:5])}{more}")
    notes = (f"of the data: {note}" for note in named.task.notes)
    return (*cautions(task), *sentences, *notes)


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


def resolve(
    task: Any,
    y: Any = None,
    target: str | Sequence[str] | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    reading: Mapping[str, Any] | None = None,
    prepare: bool = True,
    training: Callable[[int], np.ndarray] | None = None,
) -> NamedTask:
    """Resolve what `explain` accepts to a task.

    settings: of a named task, as text, each read as the type of its default. reading: of tables. prepare: whether these
    are standardized and get a constant input if `reading` does not say so. training: from the number of examples to the
    weights, zero for those that are kept for a test.
    """
    options, named = dict(reading or {}), isinstance(task, str) and task in tasks.names() and not os.path.isfile(task)
    if named or isinstance(task, (Task, NamedTask)):
        given = [*options, *(name for name, value in {"target": target, "y": y}.items() if value is not None)]
        if given:
            kind = f"{task!r} is a named task, with settings of its own" if named else "this is a task already"
            raise TaskError(f"{', '.join(given)}: for tables and files; {kind}")
        found = _named_task(task, settings) if named else NamedTask(task) if isinstance(task, Task) else task
        if training is None:
            return found
        one = found.task
        return replace(found, task=replace(one, weights=one.weights * training(len(one))))
    if settings:
        raise TaskError("settings are for named tasks; a table or a file has none")
    path = os.fspath(task) if isinstance(task, (str, os.PathLike)) else None
    raw = options.pop("raw", not prepare or (path is not None and path.lower().endswith(".npz")))
    options = {"standardize": not raw, "bias": not raw} | options | ({"weights": training} if training else {})
    if path is not None:
        if not (path.endswith((".npz", *TABLES)) or os.path.exists(path)):
            raise UnknownNameError(
                f"there is no task and no file {path!r}; {nearest(path, tasks.names())}; files end in .npz or .csv"
            )
        return tasks.read(path, target, **options)
    if y is not None:
        task, target = as_table(task, y)
    if not hasattr(task, "columns"):
        raise TaskError(
            f"a task, the name of one, a file, a data frame with target='NAME', or arrays X and y are required; got "
            f"{type(task).__name__}"
        )
    if target is None:
        raise TaskError(f"target='NAME', the column to learn, is required; there are {', '.join(map(str, task))}")
    return replace(tasks.from_frame(task, target, **options), name="table")


def _named_task(name: str, settings: Mapping[str, str] | None) -> NamedTask:
    known, read = inspect.signature(tasks.factories()[name]).parameters, {}
    for setting, value in (settings or {}).items():
        like = known[setting].default if setting in known else None
        plain = isinstance(like, (int, float, str, tuple))
        read[setting] = read_setting(setting, value, known[setting].annotation, like) if plain else value
    return tasks.get(name, **read)


def _split(named: NamedTask) -> tuple[NamedTask, Task]:
    """Split off the examples without weight, for a test in which they count equally."""
    task, held = named.task, named.task.weights == 0
    groups = {name: np.asarray(values)[~held] for name, values in named.groups.items()}
    inputs, targets = ({node: rows[held] for node, rows in side.items()} for side in (task.inputs, task.targets))
    return replace(named, task=task.take(~held), groups=groups), Task(inputs, targets, names=task.names)
