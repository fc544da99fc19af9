"""How fast a training went, and whether it went down the gradient, from its weights alone."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from neuralrace.axes import Edge
from neuralrace.errors import WeightError

CALM = 0.2  # change of the gradient between two checkpoints, relative: below it the mean of its ends is good to 1 %


class HasGradient(Protocol):
    """A network on its examples."""

    def gradient(self, weights: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """The derivative of the loss with respect to every weight matrix."""


class Pace(NamedTuple):
    """learning_rate: what the weights moved in a step, over the gradient. cosine: 1 where they moved down it."""

    learning_rate: float
    cosine: float


def measure_pace(network: HasGradient, steps: Sequence[int], weights: Sequence[Mapping[Edge, np.ndarray]]) -> Pace:
    """Compare how the weights moved between checkpoints with the gradient there, the mean of its two ends.

    Where the gradient hardly changes between two checkpoints; where it always does, between the two that differ least.
    """
    slopes = [_flat(network.gradient(one)) for one in weights]
    places = [_flat(one) for one in weights]
    rates, cosines, changes, lengths = [], [], [], []
    for i in range(len(steps) - 1):
        moved, slope = places[i + 1] - places[i], 0.5 * (slopes[i] + slopes[i + 1])
        length, size = float(np.linalg.norm(moved)), float(np.linalg.norm(slope))
        if length == 0 or size == 0:
            continue
        along = -float(moved @ slope)
        rates.append(along / (size**2 * (steps[i + 1] - steps[i])))
        cosines.append(along / (length * size))
        changes.append(float(np.linalg.norm(slopes[i + 1] - slopes[i])) / size)
        lengths.append(length)
    if not rates:
        raise WeightError("the weights must move between checkpoints; these are the same at every step")
    calm = np.array(changes) <= max(CALM, min(changes))
    rate = float(np.median(np.array(rates)[calm]))
    cosine = float(np.average(np.array(cosines)[calm], weights=np.array(lengths)[calm]))
    return Pace(rate, cosine)


def _flat(by_edge: Mapping[Edge, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(by_edge[edge]) for edge in sorted(by_edge, key=str)])
