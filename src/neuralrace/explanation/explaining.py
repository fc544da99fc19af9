"""Foresee, train, judge, find modules and what fewer would cost: one call from a task, or from a run, to its story."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from neuralrace.datafiles import as_path
from neuralrace.errors import RangeError, TaskError, require_count, require_known
from neuralrace.explanation.candidates import race_of
from neuralrace.explanation.explanation import Explanation
from neuralrace.explanation.foretold import matches
from neuralrace.explanation.measures import describe_modules, measure_assumptions, measure_selectivity, words_of
from neuralrace.explanation.recipe import SETTLED, check_given, choose_recipe, choose_width, curvature, linear_fit
from neuralrace.explanation.resolve import resolve
from neuralrace.explanation.scores import measure_of, score_networks
from neuralrace.explanation.trained import (
    ALONG,
    Asked,
    Trained,
    along_gradient,
    foresee_and_train,
    run_of_folder,
    trained_before,
)
from neuralrace.initial import Initializer, as_data
from neuralrace.problem import BIAS
from neuralrace.reln import Ranking
from neuralrace.reln.chains import as_relu_law, as_relu_run
from neuralrace.reln.modular import check_modules
from neuralrace.reln.pricing import deep_prices, distance_learned, fewest, prices
from neuralrace.reln.recorded import can_repeat, network_of, weight_records
from neuralrace.reln.watched import Watched
from neuralrace.task import Task
from neuralrace.tasks import NamedTask, cautions
from neuralrace.training import ReLUNetwork
from neuralrace.training.train import check_memory
from neuralrace.trajectory import Trajectory

SEEDS, QUICK_SEEDS = 5, 3

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
    """Explain what ReLU networks do on a task: what theory foresees, which modules they form, what those are worth.

    task: examples, a named task or its name, a file, or a run of ReLU networks with record="gate_patterns" or from
    checkpoints, which is explained as it is. hidden: the width of each hidden layer; 700, fewer for large tables, if
    not given. seeds: how many networks, 5 if not given. groups: a label for each example, or the name of a grouping of
    a named task; its coarsest if not given. modules: how many; "auto": the fewest that explain the networks. initial,
    learning_rate, steps: of the training; small weights, small steps, and until little more is learned if not given.
    checkpoints: a folder with the weights of networks that you trained on this task, which are explained instead of new
    ones. quick: fewer neurons and networks, a coarser forecast and no race. progress: say on standard error what is
    done.
    """
    check_modules(modules)
    asked = Asked(None if isinstance(modules, str) else modules, quick, key, progress)
    ready = isinstance(task, Trajectory)
    if isinstance(task, Trajectory):
        run, task = task, as_relu_run(task)
        initial = None if initial is None else as_relu_law(run, initial)
    own = {"hidden": hidden, "seeds": seeds, "steps": steps, "learning_rate": learning_rate if ready else None}
    names = [name for name, value in own.items() if value is not None]
    if names and (ready or checkpoints is not None):
        raise RangeError(f"the run that is explained has its own {' and '.join(names)}: leave that out")
    named = resolve(network_of(task).given if isinstance(task, Trajectory) else task)
    labels = _groups(named, groups)
    if isinstance(task, Trajectory):
        trained = trained_before(task, initial, asked)
    elif checkpoints is not None:
        folder = as_path("checkpoints", checkpoints, "a folder")
        asked.say(f"reading the checkpoints in {folder}")
        trained = trained_before(run_of_folder(named.task, folder, learning_rate), initial, asked)
    else:
        network = ReLUNetwork(named.task, choose_width(named.task, quick) if hidden is None else hidden)
        count = require_count("seeds", (QUICK_SEEDS if quick else SEEDS) if seeds is None else seeds)
        check_given(network, initial, learning_rate, steps, key)
        check_memory(network, 0 if steps is None else steps, None, count)
        told = f"{named.name}: {len(named.task)} examples, {' and '.join(map(str, network.hidden))} neurons"
        asked.say(f"{told}; choosing steps")
        recipe = choose_recipe(network, initial, learning_rate, steps, key=key, quick=quick)
        trained = foresee_and_train(network, recipe, count, asked)
    return _explained(named, trained, labels, asked)


def _explained(named: NamedTask, trained: Trained, labels: np.ndarray | None, asked: Asked) -> Explanation:
    """Everything that follows training."""
    network, run, law, forecast, foretold = trained[:5]
    watched = Watched.of(run, network) if len(network.hidden) == 1 else None
    inputs, outputs = _titles(named, named.task.inputs), _titles(named, named.task.targets)
    measure = measure_of(network.targets, outputs, labels, network.task.weights)
    measured = partial(measure.score, targets=network.targets, weights=network.task.weights)
    if watched is not None:
        rate = run.settings["learning_rate"]
        rows = prices(run, watched, rate, asked.modules, key=asked.key, said=asked.say, measured=measured)
        layers = {"h1": fewest(rows).gatings[-1]}  # the last stretch
    else:
        asked.say("finding modules layer by layer")
        rows = deep_prices(run, law, asked.modules, asked.key, measured)
        layers = dict(zip(network.architecture.hidden, fewest(rows).gatings, strict=True))
    race: Ranking | None = None
    entered: tuple[str, ...] = ()
    if law is not None and not asked.quick:
        asked.say("racing gatings")
        race, entered = race_of(named.task, network, run.time, law, layers, labels)
    modules = describe_modules(run, network, layers, watched, labels, (inputs, outputs))
    members = [gating.members == place for gating in layers.values() for place in range(len(gating))]
    parts = [(module.name, module.layer, inside) for module, inside in zip(modules, members, strict=True)]
    words = partial(words_of, groups=labels, rows=network.inputs, labels=inputs)
    return Explanation(
        name=named.name,
        settings=_settings(named, trained),
        groups=labels,
        outputs=tuple(outputs),
        run=replace(run, data=run.data.drop_vars(weight_records(run))) if can_repeat(run) else run,
        forecast=forecast,
        foreseen=None if forecast is None else distance_learned(forecast, run),
        foretold=foretold,
        matches=() if foretold is None else matches(foretold.layers(layers), layers, network.task.weights, words),
        prices=rows,
        chosen=fewest(rows),
        layers=layers,
        race=race,
        entered=entered,
        modules=modules,
        measure=measure,
        scores=score_networks(measure, network, [run.weights(seed) for seed in range(len(run.loss))], parts),
        selectivity=() if labels is None else measure_selectivity(run, list(layers), labels),
        assumptions=measure_assumptions(run, layers, curvature(network.task, len(network.hidden) + 1)),
        warnings=(
            *_of_data(named, run),
            *_off_the_gradient(run),
            *_unfinished(run, trained.capped),
            *_plateau(run, network, trained.drop),
        ),
        notes=named.notes,
        before=trained.before,
    )


def _plateau(run: Trajectory, network: ReLUNetwork, drop: float | None) -> tuple[str, ...]:
    """A caution where the loss has come to rest above what networks can reach; drop: when it is expected to fall."""
    mean = run.loss.mean(axis=0)
    if drop is not None:
        step = drop / float(run.time[-1]) * int(run.data["step"].values[-1])
        expected = f"the next drop of the loss is expected near t = {drop:.3g}, after about {step:,.0f} steps"
        return (f"still on a plateau: {expected}, by a simulation of a few neurons; give more steps to see it",)
    half = int(np.searchsorted(run.time, run.time[-1] / 2))
    fall, linear = mean[0] - mean[-1], linear_fit(network)
    resting = mean[half] - mean[-1] < SETTLED * fall
    if not resting or abs(mean[-1] - linear) > 0.05 * linear or linear < 0.01 * mean[0]:
        return ()
    return (
        f"the networks do as well as the best linear function (loss {mean[-1]:.3g}; linear {linear:.3g}) and have come "
        "to rest there, which may be a plateau: give more steps to see whether the loss falls again",
    )


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


def _settings(named: NamedTask, trained: Trained) -> dict[str, Any]:
    network, made_with = trained.network, trained.run.settings
    return {
        "task": named.name,
        "task settings": dict(named.settings),
        "examples": len(named.task),
        "inputs": network.inputs.shape[1],
        "outputs": network.targets.shape[1],
        "hidden": list(network.hidden),
        "biases": network.biases,
        "first weights": None if trained.law is None else as_data(trained.law),
        **{name: made_with[name] for name in ("seeds", "key", "learning_rate", "steps")},
    }


def _of_data(named: NamedTask, run: Trajectory) -> tuple[str, ...]:
    """What is to mind of the examples; biases are a constant input."""
    task = named.task
    if run.problem is not None and run.problem.biases and BIAS not in task.inputs:
        task = Task({**task.inputs, BIAS: np.ones((len(task), 1))}, task.targets, task.weights)
    return cautions(task, named.labels)


def _off_the_gradient(run: Trajectory) -> tuple[str, ...]:
    """A training whose rule is not known and was not descent."""
    cosine = along_gradient(run)
    if cosine >= ALONG:
        return ()
    return (
        f"the weights did not move down the gradient of the squared error (cosine {cosine:.2f}; 1 is along it): "
        "another loss, an adaptive optimizer, a schedule, or examples that were prepared in another way (standardized, "
        "say) moved them; reconstructions descend that gradient, so they say little here",
    )


def _unfinished(run: Trajectory, capped: bool) -> tuple[str, ...]:
    """Networks that were still learning; where nobody says how a training ended, the loss does.

    capped: the steps were as many as are ever chosen.
    """
    running = int(np.sum(run.status == "running"))
    if not running:
        return ()
    mean, half = run.loss.mean(axis=0), int(np.searchsorted(run.time, run.time[-1] / 2))
    fall, late = mean[0] - mean[-1], mean[half] - mean[-1]
    how = "the loss did not fall"
    if fall > 0:
        brought = f"the later half of them brought {late / fall:.1%} of the fall"
        how = brought if late >= 0 else "in the later half of them the loss rose"
    still = f"{running} of {len(run.loss)} networks were still moving after {int(run.data['step'].values[-1])} steps"
    told = f"{still} ({how}): this explains them up to there"
    return (f"{told}. So many steps are the most that are chosen: give more if it matters" if capped else told,)
