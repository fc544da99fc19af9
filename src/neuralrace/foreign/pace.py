"""How fast a training went, and whether it went down the gradient, from its weights alone."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neuralrace.axes import Edge
from neuralrace.errors import WeightError

if TYPE_CHECKING:
    from neuralrace.problem import Problem

MOST_STEPS = 500  # between two checkpoints, that are taken again to measure the rate
ROUNDS, CLOSE = 5, 1e-3  # of the adjustment, and where it ends
FAR = 1e3  # times the way of the weights: descent by such steps diverges, so it is not what moved them


class Pace(NamedTuple):
    """learning_rate: what the weights moved in a step, over the gradient. cosine: 1 where they moved down it."""

    learning_rate: float
    cosine: float


def measure_pace(network: "Problem", steps: Sequence[int], weights: Sequence[Mapping[Edge, np.ndarray]]) -> Pace:
    """Find the learning rate whose steps lead from one checkpoint to the next.

    First from how the weights moved over the mean gradient of both ends, where the gradient changes least. From there
    by steps of descent between these two checkpoints, until they come as far as the weights did.
    """
    slopes = [_flat(network.gradient(one)) for one in weights]
    places = [_flat(one) for one in weights]
    found: list[tuple[float, int, float, float]] = []
    for i in range(len(steps) - 1):
        moved, slope = places[i + 1] - places[i], 0.5 * (slopes[i] + slopes[i + 1])
        length, size = float(np.linalg.norm(moved)), float(np.linalg.norm(slope))
        if length == 0 or size == 0:
            continue
        along, change = -float(moved @ slope), float(np.linalg.norm(slopes[i + 1] - slopes[i]))
        rate = along / (size**2 * (steps[i + 1] - steps[i]))
        found.append((change / size, i, rate, along / (length * size)))
    if not found:
        raise WeightError("the weights must move between checkpoints; these are the same at every step")
    _, place, rate, cosine = min(found)
    count = steps[place + 1] - steps[place]
    if rate <= 0 or count > MOST_STEPS:
        return Pace(rate, cosine)
    return _refined(network, weights[place], places[place + 1] - places[place], count, rate)


def _refined(network: "Problem", start: Mapping[Edge, np.ndarray], moved: np.ndarray, count: int, rate: float) -> Pace:
    """Adjust a rate until so many steps of descent lead as far along the way that the weights took."""
    first, length, cosine = _flat(start), float(np.linalg.norm(moved)), 0.0
    for _ in range(ROUNDS):
        at, far = dict(start), 0.0
        for _ in range(count):
            slope = network.gradient(at)
            at = {edge: matrix - rate * slope[edge] for edge, matrix in at.items()}
            went = _flat(at) - first
            far = float(np.linalg.norm(went))
            if far > FAR * length:
                return Pace(rate, cosine)
        if far == 0:
            break
        cosine = float(went @ moved) / (far * length)
        part = float(went @ moved) / length**2
        if part <= 0 or abs(part - 1) < CLOSE:
            break
        rate /= part
    return Pace(rate, cosine)


def _flat(by_edge: Mapping[Edge, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(by_edge[edge]) for edge in sorted(by_edge, key=str)])
