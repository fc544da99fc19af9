"""What passes through a neuron: how open it is for each example, and how much it carries.

A bare gate says of a neuron that sits at its threshold for an example that it is on or off, by the sign of next to
nothing. Here it counts by what it lets through: a neuron is open for an example in proportion to its activity, up to
a small part of what it receives on the whole, and wholly from there on.
"""

from typing import NamedTuple

import numpy as np

from neuralrace.activations import LeakyReLU
from neuralrace.axes import Edge, Weights
from neuralrace.errors import ProblemError, require_known
from neuralrace.problem import Problem
from neuralrace.reln.modules import RESTARTS, distinct_rows
from neuralrace.reln.recorded import gate_samples, network_of, weights_over_time
from neuralrace.trajectory import Trajectory

OPEN = 0.1  # of the root mean square of what a neuron receives; from so much on it is wholly open
LEVELS = 8  # in which it is told how open a neuron is
SAMPLES = 81  # records that are looked at, evenly over the run
THOROUGH = 12  # restarts of k-means: of fewer, two groups of networks may come to different optima
MOST = 8192  # samples that are clustered; of more, so many are taken by their strength


class Passing(NamedTuple):
    """Neurons at moments of a run or of a forecast.

    open: (samples, N) from 0 to 1. strength: (samples,), what each counts, as a share of all strength at its moment:
    the early ones, when all is small, are seen too. last: (seeds, neurons, N), how open every neuron is at the end.
    """

    open: np.ndarray
    strength: np.ndarray
    last: np.ndarray
    restarts: int = THOROUGH  # of the clustering

    @property
    def distinct(self) -> int:
        """How many patterns there are, the silent one apart."""
        rows = self.open[self.open.any(axis=1) & (self.strength > 0)]
        return len(distinct_rows(rows)[0])


def how_open(received: np.ndarray) -> np.ndarray:
    """How open neurons are, from 0 to 1, given what they receive for every example, (..., N)."""
    size = np.sqrt(np.mean(received**2, axis=-1, keepdims=True))
    share = np.divide(np.maximum(received, 0), OPEN * size, out=np.zeros_like(received), where=size > 0)
    return np.asarray(np.round(LEVELS * np.minimum(share, 1)) / LEVELS)


def strengths(network: Problem, weights: Weights, layer: str) -> np.ndarray:
    """What each neuron carries: the norm of its incoming times that of its outgoing weights, (..., neurons)."""
    architecture = network.architecture
    incoming = sum((weights[edge] ** 2).sum(axis=-1) for edge in architecture.incoming[layer])
    outgoing = sum((weights[edge] ** 2).sum(axis=-2) for edge in architecture.outgoing[layer])
    return np.asarray(np.sqrt(incoming * outgoing))


def received_by(network: Problem, weights: Weights, layer: str) -> np.ndarray:
    """What each neuron of a layer receives for every example, (..., neurons, N), at any number of sets of weights."""
    architecture, activity = network.architecture, dict(network.task.inputs)
    for node in architecture.order:
        if node in activity:
            continue
        ends = architecture.edges
        got = sum(activity[ends[edge][0]] @ weights[edge].swapaxes(-1, -2) for edge in architecture.incoming[node])
        if node == layer:
            return np.asarray(got).swapaxes(-1, -2)
        kind = network.activations.get(node, LeakyReLU(1.0))
        if not isinstance(kind, LeakyReLU):
            raise ProblemError(f"rectifiers are required; node {node!r} has the activation {kind!r}")
        activity[node] = np.where(got > 0, got, kind.slope * got)
    raise ProblemError(f"there is no layer {layer!r}")


def passing_of_weights(network: Problem, weights: Weights, layer: str) -> Passing:
    """What passes through a layer at moments for which all weights are known, (seeds, moments, target, source)."""
    amount = strengths(network, weights, layer)
    seeds, moments, neurons, count = _chosen(_shares(amount))
    rows = np.zeros((len(seeds), len(network.task)))
    for moment in range(amount.shape[1]):  # one after the other: all at once may not fit
        found = how_open(received_by(network, {edge: part[:, moment] for edge, part in weights.items()}, layer))
        here = moments == moment
        rows[here] = found[seeds[here], neurons[here]]
    return Passing(rows, count, found)


def passing_of_run(run: Trajectory, layer: str) -> Passing:
    """What passed through a layer over a run: from its weights, where they were recorded beside the gates.

    From gate patterns alone only the end is known so well. Then strengths are those of the end, and a gate counts less
    by as much as its neuron sits at the threshold of that example in the end.
    """
    network, weights = network_of(run), weights_over_time(run)
    if weights is not None:
        moments = evenly(len(run.time))
        return passing_of_weights(network, {edge: part[:, moments] for edge, part in weights.items()}, layer)
    bits = gate_samples(run, layer)
    bits = bits[:, evenly(bits.shape[1])]
    final = final_weights(run)
    last = received_by(network, final, layer)
    away = np.maximum(how_open(last), how_open(-last))
    amount = np.broadcast_to(strengths(network, final, layer)[:, None], bits.shape[:-1])
    seeds, moments, neurons, count = _chosen(_shares(amount))
    return Passing(bits[seeds, moments, neurons] * away[seeds, neurons], count, how_open(last))


def bare_gates(run: Trajectory, layer: str) -> Passing:
    """Gates as they are, on or off, every neuron counting the same: what P2's Algorithm 1 clusters."""
    bits = gate_samples(run, layer)
    bits = bits[:, evenly(bits.shape[1])]
    rows = bits.reshape(-1, bits.shape[-1])
    return Passing(rows, np.ones(len(rows)), bits[:, -1], RESTARTS)


def neuron_strengths(run: Trajectory, layer: str) -> np.ndarray:
    """What each neuron of a run carries at the end, (seeds, neurons)."""
    network = network_of(run)
    require_known(layer, network.architecture.hidden, f"there is no hidden layer {layer!r}")
    return strengths(network, final_weights(run), layer)


def final_weights(run: Trajectory) -> dict[Edge, np.ndarray]:
    """The last weights of all seeds, (seeds, target, source) each."""
    every = [run.weights(seed) for seed in range(len(run.loss))]
    return {edge: np.stack([weights[edge] for weights in every]) for edge in run.edges}


def evenly(count: int, most: int = SAMPLES) -> np.ndarray:
    """Places evenly over so many, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(int))


def _shares(amount: np.ndarray) -> np.ndarray:
    """Strengths (seeds, moments, neurons) as shares of those of their seed at their moment."""
    whole = amount.sum(axis=-1, keepdims=True)
    return np.divide(amount, whole, out=np.zeros(amount.shape), where=whole > 0)


def _chosen(amount: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Seed, moment and neuron of the samples that are looked at, and how much each counts.

    All of them, by their strength; of more than MOST, those at even steps of the summed strength, as often as hit.
    """
    flat = amount.reshape(-1)
    grown = np.cumsum(flat)
    if len(flat) <= MOST or not grown[-1] > 0:
        taken, count = np.arange(len(flat)), flat.astype(float)
    else:
        hits = np.searchsorted(grown, (np.arange(MOST) + 0.5) / MOST * grown[-1])
        taken, times = np.unique(hits, return_counts=True)
        count = times * grown[-1] / MOST
    seeds, moments, neurons = np.unravel_index(taken, amount.shape)
    return seeds, moments, neurons, count
