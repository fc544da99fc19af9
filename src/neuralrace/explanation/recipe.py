"""How to train a network that has not been tuned: its width, small weights, small steps, until little is learned."""

from typing import NamedTuple

import numpy as np

from neuralrace import initial
from neuralrace.errors import RangeError, WeightError, require_count, require_number
from neuralrace.initial import Initializer
from neuralrace.problem import ReLUNetwork, side_by_side
from neuralrace.reln.predict_modules import largest_curvature
from neuralrace.task import Task
from neuralrace.theory import predict

WIDTH, LEAST_WIDTH = 700, 64  # of a hidden layer: P2's, and the least
NUMBERS = 600_000  # neurons times numbers in the data, at most, unless that leaves fewer than LEAST_WIDTH
SHALLOW, DEEP = 0.005, 0.25  # initial weights times the width: P2 Figs 4-5, and P2 Fig 6 with two hidden layers
STEP = 0.3  # of the inverse of a bound on the curvature
LEARNED, MARGIN = 0.01, 1.5  # of the initial loss, and how much longer than until then
SETTLED = 0.02  # of all that the loss fell: if the later half of the time brings less, it has settled ...
AHEAD = 16  # ... unless this many times as many steps bring more: then it is on a plateau
FIRST_STEPS, LEAST_MOST, MOST_STEPS = 500, 1000, 32_000
WORK, QUICK_WORK = 2e10, 5e9  # steps, neurons and numbers in the data, times each other, unless that leaves under 1000
PILOT = 64  # neurons that find out how long it takes
LARGE = 1e3  # inputs for which initial weights of this size may be too large, whatever the rate
QUICK = 3  # by how much a quick look has fewer neurons


class Recipe(NamedTuple):
    """What a network is trained with.

    capped: whether there would be more to learn after these steps. drop: when the loss is expected to fall again,
    where that is later than the last step; None where it is not.
    """

    initial: Initializer
    learning_rate: float
    steps: int
    capped: bool = False
    drop: float | None = None


def choose_width(task: Task, quick: bool = False) -> int:
    """700 neurons, fewer for a large table: neurons times numbers in the data at most 600,000, but at least 64.

    A quick look has a third of that, and at least 32.
    """
    numbers = len(task) * sum(rows.shape[1] for rows in (*task.inputs.values(), *task.targets.values()))
    share = QUICK if quick else 1
    return int(np.clip(NUMBERS // share // numbers, LEAST_WIDTH // (2 if quick else 1), WIDTH // share))


def check_given(
    network: ReLUNetwork, given: Initializer | None, learning_rate: float | None, steps: int | None, key: int
) -> None:
    """Refuse what cannot be trained with, before anything is done with it."""
    if given is not None and not callable(given):
        raise WeightError(
            "initial must be an initializer such as initial.gaussian(std), from which networks and forecasts are "
            f"drawn; {type(given).__name__} came"
        )
    largest_curvature(network.task, len(network.hidden) + 1)
    if learning_rate is not None:
        require_number("learning_rate", learning_rate, above=0)
    if steps is not None:
        require_count("steps", steps)
    initial.draw(small_weights(network) if given is None else given, network, key)


def choose_recipe(
    network: ReLUNetwork,
    given: Initializer | None,
    learning_rate: float | None,
    steps: int | None,
    *,
    key: int,
    quick: bool = False,
) -> Recipe:
    """Fill in what is not given; the number of steps from a few simulated neurons, before anything is trained.

    One draw is simulated for longer and longer until it has learned or gains little. A loss that has settled may
    be on a plateau between two drops, so it is followed AHEAD times as long before it counts as settled.
    """
    layers = len(network.hidden) + 1
    start = small_weights(network) if given is None else given
    rate = STEP / largest_curvature(network.task, layers) if learning_rate is None else learning_rate
    if steps is not None:
        return Recipe(start, rate, steps)
    pilot, own = network, start
    if given is None and layers == 2 and network.hidden[0] > PILOT:
        pilot = ReLUNetwork(network.given, (PILOT,), network.slope, network.biases)
        own = small_weights(pilot)

    def simulated(steps: int) -> tuple[np.ndarray, np.ndarray]:
        moments = np.round(np.linspace(0, steps, 101)).astype(int)
        times = rate * moments
        loss = predict(pilot, own, times, learning_rate=rate, dynamics="descent", draws=1, key=key).losses[0]
        if not np.isfinite(loss).all() or loss[-1] > 2 * loss[0]:
            raise divergence(network.task, rate)
        return moments, loss

    one = network.inputs.size * network.hidden[0] + network.targets.size * network.hidden[-1]
    most, steps = int(np.clip((QUICK_WORK if quick else WORK) / one, LEAST_MOST, MOST_STEPS)), FIRST_STEPS
    while True:
        moments, loss = simulated(steps)
        below = np.flatnonzero(loss <= LEARNED * loss[0])
        if len(below):
            return Recipe(start, rate, min(most, int(np.ceil(MARGIN * moments[below[0]]))))
        fallen, late = loss[0] - loss[-1], loss[moments >= steps / 2]
        if fallen > LEARNED * loss[0] and late[0] - late[-1] < SETTLED * fallen:
            ahead, later = simulated(min(AHEAD * steps, max(2 * most, steps)))
            drops = np.flatnonzero(later < loss[-1] - SETTLED * fallen)
            if not len(drops):
                return Recipe(start, rate, steps)
            if ahead[drops[0]] > most:
                return Recipe(start, rate, steps, True, rate * float(ahead[drops[0]]))
            while 4 * steps <= min(most, ahead[drops[0]]):  # the drop is ahead: no need to look from here to there
                steps *= 2
        if 2 * steps > most:
            return Recipe(start, rate, steps, True)
        steps *= 2


def small_weights(network: ReLUNetwork) -> Initializer:
    """The initializer unless another is given."""
    return initial.gaussian((SHALLOW if len(network.hidden) == 1 else DEEP) / max(network.hidden))


def divergence(task: Task, rate: float) -> RangeError:
    """The error of a training that diverges; initial weights may be too large for large inputs at any rate."""
    largest = max(float(np.abs(rows).max()) for rows in task.inputs.values())
    large = f"standardize the inputs, which are as large as {largest:.3g}, or " if largest > LARGE else ""
    return RangeError(f"training diverges at learning_rate={rate:.3g}: {large}give a smaller one")


def records_of(steps: int) -> np.ndarray:
    """The steps at which networks are looked at: evenly, and as densely in the beginning, where gates turn first."""
    even, early = np.linspace(0, steps, 61), np.geomspace(1, max(steps, 1), 60)
    return np.unique(np.round(np.concatenate([even, early])).astype(int))


def linear_fit(task: Task) -> float:
    """The loss of the best linear function of the inputs."""
    root, wanted = np.sqrt(task.weights)[:, None], side_by_side(task.targets)
    rows = side_by_side(task.inputs)
    slopes = np.linalg.lstsq(root * rows, root * wanted, rcond=None)[0]
    return 0.5 * float(np.sum((root * (wanted - rows @ slopes)) ** 2))
