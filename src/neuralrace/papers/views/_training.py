"""Many small trainings on views at once: conditions in, a dataset out."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray

from neuralrace import tasks
from neuralrace.axes import Array
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.training import Condition, Penalty, ReLUNetwork, train_together
from neuralrace.training.objectives import Squared
from neuralrace.training.rules import Momentum, Rule, RungeKutta
from neuralrace.trajectory import Trajectory

CLASSES = VIEWS = 3
# of class k and view m the row of the task that shows no other, (K, M): sets of views count down in binary, from all
LONE = CLASSES * (2**VIEWS - 1 - 2 ** np.arange(VIEWS)[::-1]) + np.arange(CLASSES)[:, None]
LOSSES = ("squared", "cross-entropy")
# gated networks keep every row, whatever its chance, so that all chances are one program
APART = Squared(compresses=False)
NEVER = 1e-30  # the weight of a row that cannot occur, which is lost in rounding
RULES = ("flow", "descent", "mini-batch", "momentum")

Outputs = TypeVar("Outputs", np.ndarray, jax.Array)


@dataclass(frozen=True, eq=False)
class Conditions:
    """A network, its data and how it is trained; seeds are the caller's.

    network: "gated", a pathway per view with weights of its own, or "relu", one network that reads all inputs. hidden:
    neurons per layer of a pathway, or of the ReLU network. probability: the chance of every view, 1 for all of them
    always. scale: the spread of initial weights times sqrt(hidden). rule: "flow" (fourth-order Runge-Kutta, the step of
    descent), "descent", "mini-batch" (`batch` examples drawn anew for each step) or "momentum" (heavy ball, its step
    times 1 - momentum, so that time runs alike; full batch). competition: lambda of the penalty lambda/K sum over
    classes and pairs of views of r_m^2 r_n^2, r the response to a lone view. targets: soft targets in place of the
    classes, (rows, K), in the order of the rows of `network_of`.
    """

    network: str = "gated"
    depth: int = 2
    hidden: int = 8
    probability: float = 1.0
    sizes: tuple[float, ...] = ()
    scale: float = 0.1
    loss: str = "squared"
    rule: str = "descent"
    learning_rate: float = 0.5
    momentum: float = 0.9
    batch: int = 16
    competition: float = 0.0
    targets: np.ndarray | None = field(default=None, repr=False)


def draw_weights(given: Conditions, seed: int) -> list[np.ndarray]:
    """(pathways, target, source) of every layer: normal with standard deviation scale / sqrt(hidden).

    A seed draws the same at any scale.
    """
    gated = given.network == "gated"
    enter = CLASSES * (1 if gated else VIEWS)
    sizes = [enter, *[given.hidden] * (given.depth - 1), CLASSES]
    random, std = np.random.default_rng(seed), given.scale / np.sqrt(given.hidden)
    paths = VIEWS if gated else 1
    return [std * random.standard_normal((paths, into, out)) for out, into in itertools.pairwise(sizes)]


def train_views(conditions: Sequence[Conditions], steps: int, seeds: int, looks: Sequence[int]) -> xarray.Dataset:
    """Train under all conditions, of one kind of network and one width, from every seed and look at the given steps.

    responses: to each view alone, the output of its class less the mean of the others, (training, seed, look, class,
    view). strengths: the length of the whole output to a view alone, P3's s_ym. loss: without the competition. time:
    learning_rate * step, (training, look). At the end, for every row of the task: outputs (training, seed, row, class)
    and, for ReLU networks, activity of the first layer (training, seed, row, unit); first_activity: that of the start.
    """
    kinds = [(c.depth, c.probability, c.sizes, id(c.targets)) for c in conditions]
    shared = {kind: network_of(c) for kind, c in dict(zip(kinds, conditions, strict=True)).items()}  # planned once
    networks = [shared[kind] for kind in kinds]
    prepared = [condition_of(c, network, seeds) for c, network in zip(conditions, networks, strict=True)]
    at = np.unique(looks)
    runs = train_together(prepared, steps, seeds=seeds, record="outputs", at=[*at, steps])
    return xarray.concat([_seen(one, run, len(at)) for one, run in zip(prepared, runs, strict=True)], "training")


def condition_of(given: Conditions, network: Problem, seeds: int) -> Condition:
    """The conditions as training takes them, with the drawn layers on the edges of each pathway."""
    places = {edge: (i, m) for m, path in enumerate(network.architecture.paths()) for i, edge in enumerate(path.edges)}
    drawn = [draw_weights(given, seed) for seed in range(seeds)]
    return Condition(
        network=network,
        initial=[{edge: layers[i][m] for edge, (i, m) in places.items()} for layers in drawn],
        rule=_rule(given),
        time=given.learning_rate,
        loss=APART if (given.network, given.loss) == ("gated", "squared") else given.loss,
        batch_size=given.batch if given.rule == "mini-batch" else None,
        drawn=given.rule == "mini-batch",
        penalty=Competition(np.asarray(given.competition)) if given.competition > 0 else None,
    )


def network_of(given: Conditions) -> Problem:
    """The network and all rows of its task: all classes for each set of views, from all of them to none.

    A row that cannot occur has no weight, or next to none; views that are absent are zero, so that no gates are needed.
    """
    # a chance of one half, which every set of views has a row for
    made = tasks.get(
        "views", classes=CLASSES, views=VIEWS, presence="chance", sizes=given.sizes or 1.0, depth=given.depth
    )
    present = np.stack([made.groups[f"view{m}"] for m in range(VIEWS)], axis=1)
    weights = np.where(present > 0, given.probability, 1 - given.probability).prod(axis=1)
    targets = made.task.targets if given.targets is None else {"y": given.targets}
    if given.network == "relu":
        return ReLUNetwork(Task(made.task.inputs, targets, weights), (given.hidden,) * (given.depth - 1))
    pathways = made.problem("views", given.hidden)
    return Problem(pathways.architecture, Task(pathways.task.inputs, targets, np.maximum(weights, NEVER)))


class Competition(Penalty):
    """lambda/K times the sum over classes and pairs of views of r_m^2 r_n^2."""

    strength: Array

    def __call__(self, outputs: Mapping[str, jax.Array]) -> jax.Array:
        """The penalty on the responses to lone views."""
        squares = responses(outputs["y"][LONE, :]) ** 2
        pairs = 0.5 * (squares.sum(axis=1) ** 2 - (squares**2).sum(axis=1))
        return jnp.asarray(self.strength) * pairs.mean()


def responses(alone: Outputs) -> Outputs:
    """The output for the class less the mean of the others, (..., K, M), of outputs to lone views (..., K, M, K)."""
    contrast = (CLASSES * np.eye(CLASSES) - 1) / (CLASSES - 1)
    return (alone * contrast[:, None, :]).sum(axis=-1)


def _rule(given: Conditions) -> Rule:
    if given.rule == "flow":
        return RungeKutta(np.asarray(given.learning_rate))
    # descent is a ball without weight, so that both are one program
    heavy = given.momentum if given.rule == "momentum" else 0.0
    return Momentum(np.asarray(given.learning_rate * (1 - heavy)), np.asarray(heavy))


def _seen(condition: Condition, run: Trajectory, looks: int) -> xarray.Dataset:
    """One training as `train_views` gives it."""
    outputs = run.values("outputs[y]")  # (seed, look, row, class)
    alone, each = outputs[:, :looks, LONE], ("seed", "look", "class", "view")
    data = xarray.Dataset()
    data["responses"] = (each, responses(alone))
    data["strengths"] = (each, np.linalg.norm(alone, axis=-1))
    data["loss"] = (each[:2], run.loss[:, :looks])
    data["outputs"] = (("seed", "row", "class"), outputs[:, -1])
    data["time"] = ("look", run.time[:looks])
    if isinstance(condition.network, ReLUNetwork):
        first: Any = condition.initial  # as `condition_of` draws it
        for name, ends in (("first_activity", first), ("activity", map(run.weights, range(len(outputs))))):
            received = [condition.network.inputs @ weights[run.edges[0]].T for weights in ends]
            data[name] = (("seed", "row", "unit"), np.maximum(received, 0.0))
    return data
