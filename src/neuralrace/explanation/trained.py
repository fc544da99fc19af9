"""Networks to explain: trained here, after they were foreseen, or before, here or elsewhere, as checkpoints tell it."""

import json
import os
import sys
import time
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from neuralrace import initial
from neuralrace.errors import ProblemError, WeightError
from neuralrace.explanation.foretold import Foretold, foretell
from neuralrace.explanation.recipe import Recipe, divergence, records_of
from neuralrace.initial import Initializer
from neuralrace.interop import layers_of, read_folder
from neuralrace.problem import side_by_side
from neuralrace.reln.foreseen import METHODS
from neuralrace.reln.recorded import can_repeat, law_of, network_of, refuse_diverged, weight_records, with_weights
from neuralrace.task import Task
from neuralrace.theory import Forecast, predict
from neuralrace.training import ReLUNetwork, train
from neuralrace.trajectory import Trajectory

ALONG = 0.9  # the cosine of a training that went down the gradient, at least


@dataclass(frozen=True)
class Asked:
    """How a task is explained. modules: how many; None: the fewest that explain. progress: whether it is told."""

    modules: int | None
    quick: bool
    key: int
    progress: bool
    began: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """Say on standard error what is being done, and after how long; also when that is piped."""
        if self.progress:
            print(f"[{time.monotonic() - self.began:4.0f} s] {text}", file=sys.stderr, flush=True)


class Trained(NamedTuple):
    """Networks that learned, and what was foreseen of them: nothing where no law is known.

    before: whether it was foreseen before the training. capped, drop: see Recipe.
    """

    network: ReLUNetwork
    run: Trajectory
    law: Initializer | None
    forecast: Forecast | None
    foretold: Foretold | None
    before: bool
    capped: bool = False
    drop: float | None = None


def foresee_and_train(network: ReLUNetwork, recipe: Recipe, seeds: int, asked: Asked) -> Trained:
    """Foresee, then train."""
    records = records_of(recipe.steps)
    asked.say(f"foreseeing {recipe.steps} steps")
    foreseen = _foresee(network, recipe.law, recipe.learning_rate, recipe.learning_rate * records, asked)
    asked.say(f"training {seeds} networks")
    run = train(
        network,
        recipe.law,
        recipe.learning_rate,
        recipe.steps,
        seeds=seeds,
        key=asked.key,
        record=("gate_patterns", "weights") if len(network.hidden) == 1 else "gate_patterns",
        at=records.tolist(),
        progress=asked.progress,
    )
    if (run.status == "diverged").any():
        raise divergence(network.task, recipe.learning_rate)
    return Trained(network, run, recipe.law, *foreseen, True, recipe.capped, recipe.drop)


def trained_before(run: Trajectory, initial: Initializer | None, asked: Asked) -> Trained:
    """Networks that were trained before, here or elsewhere."""
    network, settings = network_of(run), run.settings
    refuse_diverged(run)
    if settings["loss"] != "squared":
        raise ProblemError(f"networks that descended the squared error are required; these used {settings['loss']!r}")
    if settings["learning_rate"] is None:
        raise ProblemError("a run with one learning rate is required; this one had a schedule of it")
    if len(run.time) < 2:
        raise ProblemError("a run with two records or more is required; this one has 1: train for some steps")
    law, rule = law_of(run) if initial is None else initial, settings["rule"]["rule"]
    if law is None and rule == "checkpoints":
        law = law_like(run)
    # of several layers they serve only to measure what an optimizer did
    if not weight_records(run) and (len(network.hidden) == 1 or rule == "optax"):
        if can_repeat(run):
            asked.say("training the networks of the run once more, for their weights over time")
        run = with_weights(run)
    if rule == "optax":
        run = _as_from_elsewhere(run, network)
    if law is None or along_gradient(run) < ALONG:
        return Trained(network, run, law, None, None, False)
    asked.say("foreseeing what the run should have done")
    foreseen = _foresee(network, law, float(run.settings["learning_rate"]), run.time, asked)
    return Trained(network, run, law, *foreseen, False)


def _as_from_elsewhere(run: Trajectory, network: ReLUNetwork) -> Trajectory:
    """The run of an optimizer that may or may not descend: that is measured, as it is of checkpoints.

    Where it descends the rate that is measured counts: the run's own is a unit of time, and not what the optimizer was
    given.
    """
    steps = run.data["step"].values
    weights = [[run.weights(seed, record) for record in range(len(steps))] for seed in range(len(run.loss))]
    rate = run.settings["learning_rate"]
    found = Trajectory.from_checkpoints(network, steps.tolist(), weights, learning_rate=rate)
    if along_gradient(found) < ALONG:
        return found
    measured = found.settings["rule"]["measured_rate"]
    settings = json.dumps(found.settings | {"learning_rate": measured})
    return replace(found, data=found.data.assign_coords(time=measured * steps).assign_attrs(settings=settings))


def _foresee(
    network: ReLUNetwork, law: Initializer, rate: float, times: np.ndarray, asked: Asked
) -> tuple[Forecast, Foretold]:
    """Loss and modules from the law of the weights, by the steps that are planned: for few neurons the cheapest way.

    The draws are never those of a training, whatever the key.
    """
    draws = 1 if asked.quick else 2
    forecast = predict(network, law, times, METHODS, asked.key, learning_rate=rate, dynamics="descent", draws=draws)
    if not np.isfinite(forecast.losses).all():
        raise divergence(network.task, rate)
    return forecast, foretell(network, forecast, rate, asked.modules, asked.key)


def run_of_folder(task: Task, folder: str | os.PathLike[str], learning_rate: float | None = None) -> Trajectory:
    """Read the checkpoints of a folder as a run on some examples; widths and biases are those of the first file."""
    saved = read_folder(folder)
    steps, arrays = saved[0]
    for others, _ in saved[1:]:
        if others != steps:
            missing = sorted(set(steps) ^ set(others))
            raise WeightError(f"all networks must be saved at the same steps; step {missing[0]} is not there for all")
    sizes = side_by_side(task.inputs).shape[1], side_by_side(task.targets).shape[1]
    layers = layers_of(arrays[0], *sizes)
    if len(layers) < 2:
        raise WeightError("a network with a hidden layer is required; the checkpoints have one linear layer")
    hidden = [len(matrix) for _, matrix, _ in layers[:-1]]
    network = ReLUNetwork(task, hidden, biases=layers[0][2] is not None)
    return Trajectory.from_checkpoints(network, steps, [arrays for _, arrays in saved], learning_rate=learning_rate)


def along_gradient(run: Trajectory) -> float:
    """The cosine between how the weights moved and the gradient; 1 for a training by a rule of ours."""
    return float(run.settings["rule"].get("cosine", 1.0))


def law_like(run: Trajectory) -> Initializer:
    """Independent normal weights of the sizes that the first ones have, edge by edge; nothing later is looked at."""
    network = network_of(run)
    sizes = {}
    for edge in network.architecture.edges:
        first = np.array([run.initial_weights(seed)[edge] for seed in range(len(run.loss))])
        sizes[edge] = float(np.sqrt(np.mean(first**2)))
    return initial.gaussian(sizes)
