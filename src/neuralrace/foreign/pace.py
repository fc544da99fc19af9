"""How fast a training went, and whether it went down the gradient, from its weights alone."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neuralrace.arrays import float64
from neuralrace.axes import Edge
from neuralrace.errors import WeightError

if TYPE_CHECKING:
    from neuralrace.problem import Problem

MOST_STEPS = 500  # between two checkpoints, that are taken again to measure the rate
ROUNDS, CLOSE = 5, 1e-3  # of the adjustment, and where it ends
ROUNDED = 1e-4  # of the weights: in single precision a difference as small is good to a thousandth
FAR = 1e3  # times the way of the weights: descent by such steps diverges, so it is not what moved them


class Pace(NamedTuple):
    """learning_rate: what the weights moved in a step, over the gradient. cosine: 1 where they moved down it."""

    learning_rate: float
    cosine: float


def measure_pace(network: "Problem", steps: Sequence[int], weights: Sequence[Mapping[Edge, np.ndarray]]) -> Pace:
    """Find the learning rate whose steps lead from one checkpoint to the next.

    First from how the weights moved over the mean gradient of both ends, where the gradient changes least among those
    that moved by more than rounding. From there by steps of descent between these two checkpoints, until they come as
    far as the weights did.
    """
    slopes = [_flat(network.gradient(one)) for one in weights]
    places = [_flat(one) for one in weights]
    found: list[tuple[bool, float, int, float, float]] = []
    for i in range(len(steps) - 1):
        moved, slope = places[i + 1] - places[i], 0.5 * (slopes[i] + slopes[i + 1])
        length, size = float(np.linalg.norm(moved)), float(np.linalg.norm(slope))
        if length == 0 or size == 0:
            continue
        along, change = -float(moved @ slope), float(np.linalg.norm(slopes[i + 1] - slopes[i]))
        rate = along / (size**2 * (steps[i + 1] - steps[i]))
        still = length < ROUNDED * float(np.linalg.norm(places[i]))
        found.append((still, change / size, i, rate, along / (length * size)))
    if not found:
        raise WeightError("the weights must move between checkpoints; these are the same at every step")
    _, _, place, rate, cosine = min(found)
    count = steps[place + 1] - steps[place]
    if rate <= 0 or count > MOST_STEPS:
        return Pace(rate, cosine)
    return _refined(network, weights[place], places[place + 1] - places[place], count, rate)


@float64
def _refined(problem: "Problem", start: Mapping[Edge, np.ndarray], moved: np.ndarray, count: int, rate: float) -> Pace:
    """Adjust a rate until so many steps of descent lead as far along the way that the weights took."""
    from neuralrace._engine.network import as_numpy, compiled_descent  # a third of a second of imports

    network, first, length, cosine = problem.network, _flat(start), float(np.linalg.norm(moved)), 0.0
    stacks = network.stack(start)
    for _ in range(ROUNDS):
        ended = compiled_descent(network, stacks, np.asarray(rate), np.asarray(count))
        went = _flat(network.unstack(as_numpy(ended))) - first
        far = float(np.linalg.norm(went))
        if far == 0 or not far <= FAR * length:
            break
        cosine = float(went @ moved) / (far * length)
        part = float(went @ moved) / length**2
        if part <= 0 or abs(part - 1) < CLOSE:
            break
        rate /= part
    return Pace(rate, cosine)


def _flat(by_edge: Mapping[Edge, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(by_edge[edge]) for edge in sorted(by_edge, key=str)])
