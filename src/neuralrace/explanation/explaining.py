"""Foresee, train, play again, race: one call from a task, or from a run, to its explanation."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from neuralrace import reln
from neuralrace.analysis import agreement
from neuralrace.datafiles import as_path
from neuralrace.errors import ProblemError, RangeError, TaskError, UnknownNameError, nearest, require_count
from neuralrace.explanation.candidates import race_of
from neuralrace.explanation.cautions import warnings_of
from neuralrace.explanation.checkpoints import ALONG, along_gradient, from_elsewhere, law_like, run_of_folder
from neuralrace.explanation.explanation import Explanation
from neuralrace.explanation.foretold import Foretold, foretell, matches
from neuralrace.explanation.gating import Gating
from neuralrace.explanation.measures import describe_modules, growth, measure_assumptions, measure_selectivity, words_of
from neuralrace.explanation.pricing import Priced, fewest, prices
from neuralrace.explanation.recipe import Recipe, check_given, choose_recipe, choose_width, curvature, records_of
from neuralrace.explanation.resolve import resolve
from neuralrace.explanation.scores import measure_of, score_networks
from neuralrace.explanation.watched import Watched
from neuralrace.initial import Initialiser, as_data
from neuralrace.reln import Ranking
from neuralrace.reln.discovery import check_modules
from neuralrace.reln.foreseen import METHODS
from neuralrace.reln.recorded import again, can_repeat, law_of, network_of
from neuralrace.task import Task
from neuralrace.tasks import NamedTask
from neuralrace.theory import Forecast, predict
from neuralrace.training import ReLUNetwork, train
from neuralrace.training.schedule import check_size
from neuralrace.trajectory import Trajectory

SEEDS, QUICK_SEEDS = 5, 3

Groups = str | Sequence[Any] | np.ndarray | None
Said = Callable[[str], None]


class Trained(NamedTuple):
    """What there is to explain: what was foreseen, and networks that learned. forecast: None where no law is known."""

    named: NamedTask
    network: ReLUNetwork
    run: Trajectory
    law: Initialiser | None
    forecast: Forecast | None
    foretold: Foretold | None
    before: bool  # whether both were made before the training
    capped: bool = False


def explain(
    task: Task | NamedTask | Trajectory | str | os.PathLike[str],
    hidden: int | Sequence[int] | None = None,
    seeds: int | None = None,
    *,
    groups: Groups = None,
    modules: int | str = "auto",
    initial: Initialiser | None = None,
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
    asked = None if isinstance(modules, str) else modules
    said = _sayer(progress)
    if isinstance(task, Trajectory) or checkpoints is not None:
        own: dict[str, Any] = {"hidden": hidden, "seeds": seeds, "steps": steps}
        own |= {"learning_rate": learning_rate} if isinstance(task, Trajectory) else {}
        names = [name for name, value in own.items() if value is not None]
        if names:
            raise RangeError(f"the run that is explained has its own {' and '.join(names)}: leave that out")
        if isinstance(task, Trajectory):
            named, run = resolve(network_of(task).given), task
        else:
            named = resolve(task)
            folder = as_path("checkpoints", checkpoints, "a folder")
            said(f"reading the checkpoints in {folder}")
            run = run_of_folder(named.task, folder, learning_rate)
        labels = _groups(named, groups)
        trained = _of_run(named, run, initial, asked, quick, key, said)
    else:
        named = resolve(task)
        labels = _groups(named, groups)
        count = require_count("seeds", (QUICK_SEEDS if quick else SEEDS) if seeds is None else seeds)
        network = ReLUNetwork(named.task, choose_width(named.task, quick) if hidden is None else hidden)
        check_given(network, initial, learning_rate, steps, key)
        check_size(network, 0 if steps is None else steps, None, count)
        given = initial, learning_rate, steps
        trained = _train(named, network, given, count, asked, quick, key, progress, said)
    if (trained.run.status == "diverged").any():
        rate = trained.run.settings["settings"]["learning_rate"]
        raise RangeError(f"training diverged at learning_rate={rate}: give a smaller learning_rate")
    return _explained(trained, labels, asked, quick, key, said)


def _explained(
    trained: Trained, labels: np.ndarray | None, modules: int | None, quick: bool, key: int, said: Said
) -> Explanation:
    """Everything that follows training."""
    named, network, run, law, forecast, foretold = trained[:6]
    rate = run.settings["settings"]["learning_rate"]
    if len(network.hidden) == 1:
        watched = Watched.of(run, network)
        rows = prices(run, watched, rate, modules, key=key, said=said)
        chosen = fewest(rows)
        layers = {"h1": chosen.gatings[-1]}
        grown = {"h1": growth(watched, chosen.gatings[-1], run.time)}
    else:
        said("finding modules layer by layer")
        rows, layers = _deep(run, law, modules, key)
        chosen, grown = fewest(rows), {}
    race: Ranking | None = None
    entered: tuple[str, ...] = ()
    if law is not None and not quick:
        said("racing gatings")
        race, entered = race_of(named.task, network, run.time, law, layers, labels)
    inputs, outputs = _labels(named)
    measure = measure_of(network.targets, outputs, labels, network.task.weights)
    described = describe_modules(run, network, layers, grown, labels, (inputs, outputs))
    words = partial(words_of, groups=labels, rows=network.inputs, labels=inputs)
    parts = [
        (module.name, module.layer, layers[module.layer].members == index)
        for layer in layers
        for index, module in enumerate(m for m in described if m.layer == layer)
    ]
    weights = [run.weights(seed) for seed in range(len(run.loss))]
    return Explanation(
        name=named.name,
        settings=_settings(trained),
        groups=labels,
        outputs=tuple(outputs),
        run=_only_what_is_used(run),
        forecast=forecast,
        foreseen=None if forecast is None else agreement(forecast, run),
        foretold=foretold,
        matches=() if foretold is None else matches(foretold.layers(layers), layers, network.task.weights, words),
        prices=rows,
        chosen=chosen,
        layers=layers,
        race=race,
        entered=entered,
        modules=described,
        measure=measure,
        scores=score_networks(measure, network, weights, parts),
        selectivity=() if labels is None else measure_selectivity(run, list(layers), labels),
        assumptions=measure_assumptions(run, layers, curvature(network.task, len(network.hidden) + 1)),
        warnings=warnings_of(named, run, trained.capped),
        notes=named.notes,
        before=trained.before,
    )


def _train(
    named: NamedTask,
    network: ReLUNetwork,
    given: tuple[Initialiser | None, float | None, int | None],
    seeds: int,
    modules: int | None,
    quick: bool,
    key: int,
    progress: bool,
    said: Said,
) -> Trained:
    """Foresee, then train, with what was given and what a recipe has for the rest."""
    said(f"{named.name}: {len(named.task)} examples, {' and '.join(map(str, network.hidden))} neurons; choosing steps")
    recipe = choose_recipe(network, *given, key=key, quick=quick)
    records = records_of(recipe.steps)
    said(f"foreseeing {recipe.steps} steps")
    foreseen = _foresee(network, recipe, recipe.learning_rate * records, modules, quick, key)
    said(f"training {seeds} networks")
    run = train(
        network,
        recipe.law,
        recipe.learning_rate,
        recipe.steps,
        seeds=seeds,
        key=key,
        record=("gate_patterns", "weights") if len(network.hidden) == 1 else "gate_patterns",
        at=records.tolist(),
        progress=progress,
    )
    return Trained(named, network, run, recipe.law, *foreseen, True, recipe.capped)


def _foresee(
    network: ReLUNetwork, recipe: Recipe, times: np.ndarray, modules: int | None, quick: bool, key: int
) -> tuple[Forecast, Foretold]:
    """Loss and modules from the law of the weights, by the steps that are planned: for few neurons the cheapest way.

    The draws are never those of a training, whatever the key.
    """
    law, rate = recipe.law, recipe.learning_rate
    draws = 1 if quick else 2
    forecast = predict(network, law, times, METHODS, key, learning_rate=rate, dynamics="descent", draws=draws)
    if not np.isfinite(forecast.losses).all():
        raise RangeError(f"training diverges at learning_rate={rate:.3g}: give a smaller one")
    return forecast, foretell(network, forecast, rate, modules, key)


def _of_run(
    named: NamedTask,
    run: Trajectory,
    initial: Initialiser | None,
    modules: int | None,
    quick: bool,
    key: int,
    said: Said,
) -> Trained:
    """Networks that were trained before, here or elsewhere."""
    network, settings = network_of(run), run.settings["settings"]
    if settings["loss"] != "squared":
        raise ProblemError(f"networks that descended the squared error are required; these used {settings['loss']!r}")
    if settings["learning_rate"] is None:
        raise ProblemError("a run with one learning rate is required; this one had a schedule of it")
    law = law_of(run) if initial is None else initial
    if law is None and from_elsewhere(run):
        law = law_like(run)
    run = _with_weights(run, network, said)
    foreseen: tuple[Forecast | None, Foretold | None] = None, None
    if law is not None and along_gradient(run) >= ALONG:
        said("foreseeing what the run should have done")
        recipe = Recipe(law, float(settings["learning_rate"]), int(run.data["step"].values[-1]))
        foreseen = _foresee(network, recipe, run.time, modules, quick, key)
    return Trained(named, network, run, law, *foreseen, False)


def _with_weights(run: Trajectory, network: ReLUNetwork, said: Said) -> Trajectory:
    """The run with its weights at every record; where they were not kept, the networks are trained once more."""
    if len(network.hidden) > 1 or "weights[x->h1]" in run.data:
        return run
    if not can_repeat(run):
        raise ProblemError(
            "the weights over time are required and this run neither holds them nor can be repeated: train with "
            "record=('gate_patterns', 'weights')"
        )
    said("training the networks of the run once more, for their weights over time")
    steps = run.data["step"].values
    repeated = again(run, int(steps[-1]), record=("gate_patterns", "weights"), at=steps.tolist(), progress=False)
    return Trajectory(run.data.assign({name: repeated.data[name] for name in _weight_records(repeated)}))


def _only_what_is_used(run: Trajectory) -> Trajectory:
    """The run without weights over time where it can be repeated: they are most of a file."""
    return Trajectory(run.data.drop_vars(_weight_records(run))) if can_repeat(run) else run


def _weight_records(run: Trajectory) -> list[str]:
    return [str(name) for name in run.data.data_vars if str(name).startswith("weights[")]


def _deep(
    run: Trajectory, law: Initialiser | None, modules: int | None, key: int
) -> tuple[tuple[Priced, ...], dict[str, Gating]]:
    """Several hidden layers: as many modules in each, one constant gating, solved from the law of the first weights."""
    if law is None:
        raise ProblemError("with several hidden layers the law of the first weights is required: give initial=...")
    found = reln.discover(run, "auto" if modules is None else modules, draws=2, initial=law, key=key)
    layers = {layer.name: Gating.of_layer(layer) for layer in found.layers}
    assert found.agreement is not None
    assert found.reconstruction is not None
    most = max(len(layer) for layer in layers.values())
    chosen = Priced(most, 1, found.agreement, tuple(layers.values()), found.reconstruction.losses)
    others = [
        replace(chosen, modules=row.modules, agreement=replace(found.agreement, **_distances(row)), gatings=())
        for row in found.table
        if row.modules != most
    ]
    return tuple(sorted([chosen, *others], key=lambda row: row.modules)), layers


def _distances(row: Any) -> dict[str, float]:
    return {"normalised_l1": row.normalised_l1, "log10_gap": row.log10_gap, "max_gap": float("nan")}


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


def _sayer(progress: bool) -> Said:
    """Say on standard error what is being done, and after how long; also when that is piped."""
    began = time.monotonic()

    def say(text: str) -> None:
        if progress:
            print(f"[{time.monotonic() - began:4.0f} s] {text}", file=sys.stderr, flush=True)

    return say


def _settings(trained: Trained) -> dict[str, Any]:
    network, made_with = trained.network, trained.run.settings["settings"]
    return {
        "task": trained.named.name,
        "task settings": dict(trained.named.settings),
        "examples": len(trained.named.task),
        "inputs": network.inputs.shape[1],
        "outputs": network.targets.shape[1],
        "hidden": list(network.hidden),
        "biases": network.biases,
        "first weights": None if trained.law is None else as_data(trained.law),
        **{name: made_with[name] for name in ("seeds", "key", "learning_rate", "steps")},
    }
