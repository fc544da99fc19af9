"""How modules fare over time: how strong they are, how many neurons they have, when they part, what they write."""

from dataclasses import dataclass, field

import numpy as np

from neuralrace.activations import LeakyReLU
from neuralrace.axes import Weights
from neuralrace.errors import GateError
from neuralrace.problem import Problem
from neuralrace.reln.chains import as_relu_run
from neuralrace.reln.modular import Layer, Modular
from neuralrace.reln.passing import evenly, how_open, received_by, strengths
from neuralrace.reln.recorded import ASK_WEIGHTS, network_of, weights_over_time
from neuralrace.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class Course:
    """The modules of one layer over time, the mean over seeds or draws.

    time: (T,). strength: (k, T), the sum over their neurons. neurons: (k, T), how many. written: (k, N, outputs), what
    each adds to the outputs for every example at the end; empty where the layer does not lead to outputs only.
    """

    time: np.ndarray
    strength: np.ndarray = field(repr=False)
    neurons: np.ndarray = field(repr=False)
    written: np.ndarray = field(repr=False)

    @property
    def share(self) -> np.ndarray:
        """(k, T): the part of all strength that each module has."""
        whole = self.strength.sum(axis=0)
        return np.divide(self.strength, whole, out=np.zeros_like(self.strength), where=whole > 0)

    @property
    def parted(self) -> np.ndarray:
        """(k,): when each module came to half of its last share of the strength, for good; the first time if always."""
        found = []
        for share in self.share:
            short = np.flatnonzero(share < 0.5 * share[-1])
            if not len(short):
                found.append(self.time[0])
                continue
            before = int(short[-1])
            rest = (0.5 * share[-1] - share[before]) / (share[before + 1] - share[before])
            found.append(self.time[before] + rest * (self.time[before + 1] - self.time[before]))
        return np.array(found)

    @property
    def serves(self) -> np.ndarray:
        """(k, outputs): the root mean square of what each module writes to every output."""
        return np.asarray(np.sqrt(np.mean(self.written**2, axis=1)))


def course_of_weights(network: Problem, weights: Weights, time: np.ndarray, layer: Layer) -> Course:
    """The course of the modules of a layer; weights: (seeds, T, target, source) each."""
    amount, places = strengths(network, weights, layer.name), np.arange(len(layer.modules))
    strength, neurons = [], []
    for moment in range(len(time)):
        received = received_by(network, {edge: part[:, moment] for edge, part in weights.items()}, layer.name)
        member = layer.modules.nearest(how_open(received))[..., None] == places
        strength.append((member * amount[:, moment, :, None]).sum(axis=1).mean(axis=0))
        neurons.append(layer.each * member.sum(axis=1).mean(axis=0))
    last = {edge: part[:, -1] for edge, part in weights.items()}
    written = written_by(network, last, layer.name, received, member).mean(axis=1)
    return Course(time, np.array(strength).T, np.array(neurons).T, written)


def course(run: Trajectory, found: Modular) -> tuple[Course, ...]:
    """How the modules found in a run fared in it, layer by layer; the run must hold its weights over time."""
    run = as_relu_run(run)
    weights, moments = weights_over_time(run), evenly(len(run.time))
    if weights is None:
        raise GateError(f"the run must hold its weights over time; it does not: {ASK_WEIGHTS}")
    taken = {edge: part[:, moments] for edge, part in weights.items()}
    return tuple(course_of_weights(network_of(run), taken, run.time[moments], layer) for layer in found.layers)


def written_by(network: Problem, weights: Weights, layer: str, received: np.ndarray, member: np.ndarray) -> np.ndarray:
    """What each module adds to the outputs, (k, seeds, N, outputs); weights of all seeds at one moment.

    received: (seeds, neurons, N). member: (seeds, neurons, k), which neurons each module has.
    """
    architecture, kind = network.architecture, network.activations[layer]
    outgoing = architecture.outgoing[layer]
    if not isinstance(kind, LeakyReLU) or {architecture.edges[e][1] for e in outgoing} - set(architecture.outputs):
        return np.zeros((member.shape[-1], len(member), len(network.task), 0))
    active = np.where(received > 0, received, kind.slope * received)
    sent = np.concatenate([weights[edge] for edge in outgoing], axis=1)
    added = np.zeros((member.shape[-1], len(member), len(network.task), sent.shape[1]))
    for module, inside in enumerate(np.moveaxis(member, -1, 0)):
        added[module] = np.swapaxes(active * inside[..., None], 1, 2) @ sent.swapaxes(1, 2)
    return added
