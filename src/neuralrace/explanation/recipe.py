"""Default settings of a training: the width, small weights, small steps, and steps until little is learned."""

from typing import Any

import numpy as np

from neuralrace import initial
from neuralrace.errors import RangeError, WeightError
from neuralrace.initial import Initializer
from neuralrace.problem import Problem, ReLUNetwork, side_by_side
from neuralrace.reln.discover import largest_curvature
from neuralrace.reln.modules import examples_of
from neuralrace.task import Task
from neuralrace.theory import NetworkFlow, Representatives, predict

PILOT = 64  # neurons that are simulated
LEARNED = 0.01  # of the initial loss
SETTLED = 0.02  # of all that the loss fell: if the later half of the time brings less, it has settled ...
AHEAD = 16  # ... unless this many times as many steps bring more: then it is on a plateau


def choose_width(task: Task, quick: bool = False) -> int:
    """Choose 700 neurons (P2), fewer for a large table: neurons times numbers in the data at most 600,000, at least 64.

    quick: a third of that, at least 32.
    """
    numbers = len(task) * sum(rows.shape[1] for rows in (*task.inputs.values(), *task.targets.values()))
    share, least = (3, 32) if quick else (1, 64)
    return int(np.clip(600_000 // share // numbers, least, 700 // share))


def choose_recipe(
    network: Problem,
    given: Initializer | None,
    learning_rate: float | None,
    steps: int | None,
    *,
    key: int,
    quick: bool = False,
) -> tuple[Initializer, float, int, str]:
    """Fill in the initializer, the learning rate and the steps that are not given, before anything is trained.

    One draw of a few neurons is simulated for longer and longer until it has learned or gains little. A loss that has
    settled may be on a plateau between two drops, so it is followed AHEAD times as long before it counts as settled.
    The last entry is a warning if more steps would reduce the loss further, otherwise empty.
    """
    if given is not None and not callable(given):
        raise WeightError(
            "initial must be an initializer such as initial.gaussian(std), from which networks and forecasts are "
            f"drawn; got {type(given).__name__}"
        )
    graph, task = network.architecture, network.task
    widths = [graph.nodes[layer] for layer in graph.hidden]
    bound = largest_curvature(task, len(widths) + 1)
    rate = 0.3 / bound if learning_rate is None else float(learning_rate)
    start = small_weights(network) if given is None else given
    initial.draw(start, network, key)  # an initializer that does not fit is refused here
    if steps is not None:
        return start, rate, steps, plateau(network, start, rate, steps, key=key)
    pilot, own = network, start
    if given is None and len(widths) == 1 and widths[0] > PILOT:
        pilot = ReLUNetwork(examples_of(network), PILOT, biases=network.biases)
        own = small_weights(pilot)
    most, steps = most_steps(network, quick), 500
    while True:
        moments, loss = simulated(pilot, own, rate, steps, key)
        below = np.flatnonzero(loss <= LEARNED * loss[0])
        if len(below):
            return start, rate, min(most, int(np.ceil(1.5 * moments[below[0]]))), ""
        if settled(moments, loss):
            drop = next_drop(pilot, own, rate, steps, max(2 * most, steps), loss, key)
            if drop is None:
                return start, rate, steps, ""
            if drop > most:
                return start, rate, steps, still_on_a_plateau(rate, drop)
            while 4 * steps <= min(most, drop):  # the drop is ahead: skip the plateau in between
                steps *= 2
        if 2 * steps > most:
            return start, rate, steps, f"{steps:,} steps are the most that are chosen: give more if it matters"
        steps *= 2


def most_steps(network: Problem, quick: bool = False) -> int:
    """Bound steps times neurons times numbers in the data, unless that leaves under 1,000 steps."""
    widths = [network.architecture.nodes[layer] for layer in network.architecture.hidden]
    one = side_by_side(network.task.inputs).size * widths[0] + side_by_side(network.task.targets).size * widths[-1]
    return int(np.clip((5e9 if quick else 2e10) / one, 1000, 32_000))


def plateau(network: Problem, start: Initializer, rate: float, steps: int, *, key: int) -> str:
    """Warn if a training of a given length ends on a plateau, by a simulation of a few neurons; empty if not."""
    if not steps:
        return ""
    moments, loss = simulated(network, start, rate, steps, key)
    if loss[-1] <= LEARNED * loss[0] or not settled(moments, loss):
        return ""
    drop = next_drop(network, start, rate, steps, max(2 * most_steps(network), steps), loss, key)
    return "" if drop is None else still_on_a_plateau(rate, drop)


def simulated(network: Problem, start: Initializer, rate: float, steps: int, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulate one draw; a few neurons represent a wide hidden layer. Returns steps, and the loss there."""
    moments = np.unique(np.round(np.linspace(0, steps, 101)).astype(int))
    methods = Representatives(most=PILOT), NetworkFlow()
    options: dict[str, Any] = {"learning_rate": rate, "dynamics": "descent", "draws": 1, "progress": False}
    forecast = predict(network, start, rate * moments, methods, key, **options)
    loss = forecast.losses[0]
    if not np.isfinite(loss).all() or loss[-1] > 2 * loss[0]:
        raise divergence(network.task, rate)
    return moments, loss


def settled(moments: np.ndarray, loss: np.ndarray) -> bool:
    """Whether the loss has fallen, and the later half of the time brought little of it."""
    fallen, late = loss[0] - loss[-1], loss[moments >= moments[-1] / 2]
    return bool(fallen > LEARNED * loss[0] and late[0] - late[-1] < SETTLED * fallen)


def next_drop(
    network: Problem, start: Initializer, rate: float, steps: int, most: int, loss: np.ndarray, key: int
) -> int | None:
    """The step at which a settled loss drops again, up to AHEAD times as many steps or `most`; None if it does not."""
    ahead, later = simulated(network, start, rate, min(AHEAD * steps, most), key)
    drops = ahead[later < loss[-1] - SETTLED * (loss[0] - loss[-1])]
    return int(drops[0]) if len(drops) else None


def still_on_a_plateau(rate: float, drop: int) -> str:
    """Say when the next drop is expected."""
    return (
        f"still on a plateau: the next drop of the loss is expected near t = {rate * drop:.3g}, after about {drop:,} "
        "steps, by a simulation of a few neurons; give more steps to see it"
    )


def small_weights(network: Problem) -> Initializer:
    """Return the default initializer: P2 Figs 4-5, and P2 Fig 6 with two hidden layers."""
    widths = [network.architecture.nodes[layer] for layer in network.architecture.hidden]
    return initial.gaussian((0.005 if len(widths) == 1 else 0.25) / max(widths))


def divergence(task: Task, rate: float) -> RangeError:
    """Describe a training that diverges; initial weights may be too large for large inputs at any rate."""
    largest = max(float(np.abs(rows).max()) for rows in task.inputs.values())
    large = f"standardize the inputs, which are as large as {largest:.3g}, or " if largest > 1e3 else ""
    return RangeError(f"training diverges at learning_rate={rate:.3g}: {large}give a smaller one")
