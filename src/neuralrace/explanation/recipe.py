"""How to train a network that nobody has tuned: small weights, small steps, until it has learned."""

from typing import NamedTuple

import numpy as np

from neuralrace import initial
from neuralrace.errors import RangeError, WeightError, require_count, require_number
from neuralrace.initial import Initialiser
from neuralrace.task import Task
from neuralrace.training import ReLUNetwork, train

SHALLOW, DEEP = 0.005, 0.25  # first weights times the width: P2 Figs 4-5, and P2 Fig 6 with two hidden layers
STEP = 0.1  # of the inverse of the largest curvature
LEARNED = 0.01  # of the first loss
MARGIN = 1.5  # how much longer than until then
SETTLED = 1e-3  # of all that the loss fell, over the later half: nothing more to come, or a long plateau
FIRST_STEPS, MOST_STEPS = 500, 64_000
LOOKS = 200


class Recipe(NamedTuple):
    """What a network is trained with."""

    law: Initialiser
    learning_rate: float
    steps: int


def choose_recipe(
    network: ReLUNetwork,
    law: Initialiser | None,
    learning_rate: float | None,
    steps: int | None,
    *,
    key: int,
    progress: bool,
) -> Recipe:
    """Fill in what is not given; the number of steps by training one network of its own."""
    if law is not None and not callable(law):
        raise WeightError(
            "initial must be a law such as initial.gaussian(std), from which networks and forecasts are drawn; "
            f"{type(law).__name__} came"
        )
    layers = len(network.hidden) + 1
    scale = (SHALLOW if layers == 2 else DEEP) / max(network.hidden)
    start = initial.gaussian(scale) if law is None else law
    rate = STEP / curvature(network.task, layers) if learning_rate is None else learning_rate
    require_number("learning_rate", rate, above=0)
    if steps is not None:
        return Recipe(start, rate, require_count("steps", steps))
    return Recipe(start, rate, _steps_to_learn(network, start, rate, key, progress))


def curvature(task: Task, layers: int) -> float:
    """A bound on the curvature that a linear network of so many layers comes to: L d p^(2 - 2/L) with p = s / d.

    d is the largest variance of the inputs, and s, the largest singular value that an input-output correlation of any
    of the examples can have, at most the root of d times the mean squared length of the targets.
    """
    rows, wanted = np.hstack(list(task.inputs.values())), np.hstack(list(task.targets.values()))
    spread = float(np.linalg.eigvalsh(rows.T @ (rows * task.weights[:, None]))[-1])
    energy = float(task.weights @ np.sum(wanted**2, axis=1))
    if spread <= 0 or energy <= 0:
        raise RangeError("a task to learn has inputs and targets that are not all zero; here they are: check the file")
    return float(layers * spread * np.sqrt(energy / spread) ** (2 - 2 / layers))


def _steps_to_learn(network: ReLUNetwork, law: Initialiser, rate: float, key: int, progress: bool) -> int:
    """Train one network for longer and longer until it has learned or does not move any more."""
    weights = law(network, key)
    losses, ends, block, done = [np.array([network.loss(weights)])], [np.array([0])], FIRST_STEPS, 0
    while done < MOST_STEPS:
        part = train(network, weights, rate, block, every=max(1, block // LOOKS), progress=progress)
        if part.status[0] == "diverged":
            raise RangeError(f"training diverged at learning_rate={rate:.3g} after step {done}: give a smaller one")
        losses.append(part.loss[0, 1:])
        ends.append(done + part.data["step"].values[1:])
        weights, done, block = part.weights(0), done + block, done + block
        loss, step = np.concatenate(losses), np.concatenate(ends)
        below = np.flatnonzero(loss <= LEARNED * loss[0])
        if len(below):
            return int(min(MOST_STEPS, np.ceil(MARGIN * step[below[0]])))
        late = loss[step >= done / 2]
        fallen = loss[0] - loss[-1]
        if fallen > LEARNED * loss[0] and late.max() - late.min() < SETTLED * fallen:
            return int(done)
    return MOST_STEPS
