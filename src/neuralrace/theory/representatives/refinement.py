"""From grown neurons to points that stand for them, as many as it takes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import jax
import numpy as np

from neuralrace._engine.network import Stacks
from neuralrace.axes import Edge
from neuralrace.theory.activated.simulation import Simulation, without_modes
from neuralrace.theory.evolution import MatrixEvolution
from neuralrace.theory.representatives.simplex import simplices
from neuralrace.theory.representatives.spans import Spans

Weights = Mapping[Edge, np.ndarray]


@dataclass(frozen=True, eq=False)
class Representation:
    """Neurons before a time and what stands for them after it.

    losses: (draws, T) over all times. clusters: how many; 0 where the neurons went on themselves. gap: of half as many.
    """

    spans: Spans
    before: Simulation
    after: Simulation
    time: float
    losses: np.ndarray
    last: Stacks
    clusters: int
    gap: float

    @property
    def count(self) -> int:
        """The neurons that were drawn."""
        return self._size(self.before)

    @property
    def width(self) -> int:
        """A layer that has room for both."""
        return max(self._size(self.before), self._size(self.after))

    def evolution(self, draw: int) -> MatrixEvolution:
        """The weights of one draw, with silent neurons where there are fewer than room."""
        before, after = (part.evolution(draw, self._leave) for part in (self.before, self.after))

        def matrices(times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
            early = times < self.time
            yield from before.matrices(times[early])
            yield from after.matrices(times[~early] - self.time)

        return without_modes(matrices)

    def _leave(self, weights: Weights) -> dict[Edge, np.ndarray]:
        neurons = self.spans.neurons(weights)
        return self.spans.leave(self.spans.weights(_padded(neurons, self.width), weights))

    def _size(self, part: Simulation) -> int:
        return part.problem.architecture.nodes[self.spans.hidden]


def refined(spans: Spans, before: Simulation, time: float, clusters: int, enough: float) -> Representation:
    """Double the clusters until K and 2 K of the first draw agree; the grown neurons themselves if they never do."""
    request, points = before.request, spans.inputs + 1
    early = request.times < time
    first, last = before.follow(request.times[early], time)
    grown = before.weights(last)
    times, end = request.times[~early] - time, request.end - time
    coarse: np.ndarray | None = None
    while 2 * clusters * points < len(spans.neurons(grown[0])):
        fine = [_points(spans, weights, 2 * clusters, before, draw) for draw, weights in enumerate(grown)]
        half = [_points(spans, grown[0], clusters, before, 0, 2 * clusters * points)] if coarse is None else []
        network = spans.network(2 * clusters * points)
        losses, last = Simulation(network, [*half, *fine], request).follow(times, end)
        coarse = losses[0] if coarse is None else coarse
        losses = losses[len(half) :]
        gap = _apart(coarse, losses[0], times)
        if gap <= enough:
            after = Simulation(network, fine, request)
            return Representation(spans, before, after, time, np.hstack([first, losses]), last, 2 * clusters, gap)
        coarse, clusters = losses[0], 2 * clusters
    after = Simulation(before.problem, grown, request)
    losses, last = after.follow(times, end)
    return Representation(spans, before, after, time, np.hstack([first, losses]), last, 0, 0.0)


def _points(
    spans: Spans, weights: Weights, clusters: int, before: Simulation, draw: int, room: int = 0
) -> dict[Edge, np.ndarray]:
    """The points of one draw's clusters, turned by a stream of its own."""
    words = np.asarray(jax.random.key_data(jax.random.fold_in(before.request.stream, draw))).ravel().tolist()
    random = np.random.default_rng([*words, clusters])
    found = simplices(spans.neurons(weights), clusters, spans.inputs, random)
    return spans.weights(_padded(found, max(room, len(found))), weights)


def _padded(neurons: np.ndarray, count: int) -> np.ndarray:
    return np.vstack([neurons, np.zeros((count - len(neurons), neurons.shape[1]))])


def _apart(one: np.ndarray, other: np.ndarray, times: np.ndarray) -> float:
    """Normalised L1 between two losses."""
    gap, size = np.abs(one - other), np.abs(other)
    if len(times) > 1:
        gap, size = np.trapezoid(gap, times), np.trapezoid(size, times)
    return float(np.sum(gap) / max(float(np.sum(size)), np.finfo(float).tiny))
