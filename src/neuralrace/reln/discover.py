"""From ReLU networks to their modules, and to the gated network of these that learns like them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from neuralrace.analysis import Agreement
from neuralrace.axes import Edge, Weights
from neuralrace.errors import GateError, RangeError, require_count
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.reln.modules import (
    Modules,
    cluster,
    cut,
    examples_of,
    gated_problem,
    looks_at_run,
    network_of,
    recorded_weights,
)
from neuralrace.reln.replay import STRETCHES, Replay, fewest, replay
from neuralrace.theory import Forecast
from neuralrace.trajectory import Trajectory

ALIKE = 0.9  # of the examples: modules that agree for this part are the same


@dataclass(frozen=True, eq=False)
class Module:
    """One module: neurons of a hidden layer that one gate can replace.

    gate: (N,), from 0 to 1. members: (networks, neurons) of bool. neurons: how many they are, the mean over the
    networks. share: of all that the layer passes on. consistency: the share of what its neurons carry whose gate is on
    the side of one half that the module's is. written: (N, outputs), what it adds to the outputs at the end, the mean
    over the networks; None unless the outputs read its layer. size: (T,), the norm of what its neurons do together,
    outgoing times incoming weights, the mean over the networks; None where weights over time are not known.
    """

    name: str
    layer: str
    gate: np.ndarray = field(repr=False)
    members: np.ndarray = field(repr=False)
    neurons: float
    share: float
    consistency: float
    written: np.ndarray | None = field(default=None, repr=False)
    size: np.ndarray | None = field(default=None, repr=False)

    @property
    def pattern(self) -> np.ndarray:
        """(N,) of bool: the examples that the module is on for."""
        return np.asarray(self.gate > 0.5)


@dataclass(frozen=True, eq=False)
class Modular:
    """ReLU networks as the modules of their hidden layers.

    tried: replays of the networks with these gates imposed, for every number of modules and of stretches of time that
    was tried; chosen: the one whose modules, of its last stretch, these are. None and empty where the run does not say
    what a replay needs. forecast: of the loss, where the modules were predicted.
    """

    modules: tuple[Module, ...]
    network: Problem = field(repr=False)
    time: np.ndarray = field(repr=False)
    chosen: Replay | None = None
    tried: tuple[Replay, ...] = field(default=(), repr=False)
    forecast: Forecast | None = field(default=None, repr=False)

    @property
    def patterns(self) -> np.ndarray:
        """(modules, N) of bool: for which examples each module is on."""
        return np.reshape([module.pattern for module in self.modules], (-1, len(self.network.task)))

    @property
    def agreement(self) -> Agreement | None:
        """The distance of the chosen replay, in units of what the networks learned."""
        return None if self.chosen is None else self.chosen.agreement

    @property
    def problem(self) -> Problem:
        """The gated network of these modules, ready to train or to predict; as wide as the modules are on average."""
        layers = [[one for one in self.modules if one.layer == layer] for layer in self.network.architecture.hidden]
        patterns = [np.array([one.pattern for one in layer]) for layer in layers]
        widths = [[max(1, round(one.neurons)) for one in layer] for layer in layers]
        return gated_problem(examples_of(self.network), patterns, widths, self.network.biases)

    @property
    def gates(self) -> Gates:
        """The gates of that network: node -> pattern."""
        return self.problem.gates


def discover(
    run: Trajectory, modules: int | str = "auto", *, stretches: Sequence[int] = STRETCHES, key: int = 0
) -> Modular:
    """Find the modules of ReLU networks: the same that `explain` reports.

    run: of ReLU networks, with record=("gate_patterns", "weights"). From gate patterns alone, what neurons carry is
    known at the end only, and is used for all records. modules: how many in each hidden layer, fewer where there are
    fewer patterns, or "auto": the fewest whose replay explains the run. A replay trains the networks again, from their
    own initial weights, with the gates of the modules imposed. stretches: numbers of stretches of time with constant
    gates that are tried, each a divisor of the next; with several hidden layers gates never change.
    """
    count = check_modules(modules)
    network, settings = network_of(run), run.settings
    if settings["loss"] == "squared" and settings["learning_rate"] is not None and len(run.time) > 1:
        initial = [run.initial_weights(seed) for seed in range(len(run.loss))]
        steps, rate = np.asarray(run.data["step"].values), float(settings["learning_rate"])
        rows = replay(network, initial, looks_at_run(run), run, steps, rate, count, stretches, key)
        return modular(network, rows, run)
    if count is None:
        squared = settings["loss"] == "squared"
        wanted = "squared error" + " with one learning rate" * squared
        found = "had a schedule of it" if squared else f"descended the {settings['loss']} loss"
        raise GateError(
            f"modules='auto' compares learning curves, for which a run of the {wanted} is required; this one {found}: "
            "give a number of modules"
        )
    ((_, _, carried, passed),) = cut(looks_at_run(run), np.asarray(run.data["step"].values), (1,))[1]
    layers = {layer: cluster(carried[layer], passed[layer], count, key) for layer in carried}
    return Modular(describe(network, layers, *_weights_of(run)), network, run.time)


def check_modules(modules: int | str) -> int | None:
    """The number of modules, None for "auto"."""
    if not isinstance(modules, str):
        return require_count("modules", modules)
    if modules != "auto":
        raise RangeError(f"modules must be a whole number or 'auto'; it was {modules!r}")
    return None


def modular(network: Problem, rows: tuple[Replay, ...], run: Trajectory) -> Modular:
    """The modules of the fewest that explain a run."""
    chosen = fewest(rows)
    return Modular(describe(network, chosen.gatings[-1], *_weights_of(run)), network, run.time, chosen, rows)


def describe(
    network: Problem,
    layers: Mapping[str, Modules],
    final: Sequence[Weights],
    over_time: Mapping[Edge, np.ndarray] | None = None,
    each: float = 1.0,
) -> tuple[Module, ...]:
    """Describe the modules of every layer.

    final: the last weights of each network. over_time: (networks, T, target, source) each. each: neurons that one
    neuron represents.
    """
    graph, described = network.architecture, []
    for layer, found in layers.items():
        leaving, into = graph.outgoing[layer], {graph.edges[edge][1] for edge in graph.outgoing[layer]}
        active = [network.activity(weights)[layer] for weights in final] if into <= set(graph.outputs) else None
        for place in range(len(found)):
            inside, written, size = found.members == place, None, None
            if active is not None:
                sent = [np.vstack([weights[edge] for edge in leaving]) for weights in final]
                parts = [(rows * of) @ out.T for rows, of, out in zip(active, inside, sent, strict=True)]
                written = np.mean(parts, axis=0)
            if over_time is not None:
                norms = []
                for seed, of in enumerate(inside):
                    enter = np.concatenate([over_time[e][seed][:, of] for e in graph.incoming[layer]], axis=-1)
                    leave = np.concatenate([over_time[e][seed][..., of] for e in leaving], axis=-2)
                    norms.append(np.linalg.norm(leave @ enter, axis=(1, 2)))
                size = np.mean(norms, axis=0)
            name = f"{layer}_m{place}" if len(layers) > 1 else f"m{place}"
            neurons = each * float(np.mean(inside.sum(axis=1)))
            share, agree = float(found.share[place]), float(found.consistency[place])
            described.append(Module(name, layer, found.gates[place], inside, neurons, share, agree, written, size))
    return tuple(described)


class Match(NamedTuple):
    """A module of one description and the one of another that is most like it; None where none is left.

    alike: the share of examples for which both are on or both off. written: the correlation of what they write.
    """

    first: Module | None
    second: Module | None
    alike: float = 0.0
    written: float = 0.0

    @property
    def same(self) -> bool:
        """Whether they are one module."""
        return self.alike >= ALIKE


def match(first: Modular, second: Modular) -> tuple[Match, ...]:
    """Pair the modules of two descriptions of one task, layer by layer, so that their gates differ least in all."""
    amount, rows = second.network.task.weights, []
    if first.patterns.shape[1] != second.patterns.shape[1]:
        raise GateError(
            f"the same examples are required; there are {first.patterns.shape[1]} and {second.patterns.shape[1]}"
        )
    for layer in second.network.architecture.hidden:
        here, there = ([module for module in one.modules if module.layer == layer] for one in (first, second))
        apart = np.array([[np.abs(a.gate - b.gate).mean() for b in there] for a in here]).reshape(len(here), len(there))
        pairs = list(zip(*linear_sum_assignment(apart), strict=True))
        for one, other in pairs:
            alike = float(amount @ (here[one].pattern == there[other].pattern))
            rows.append(Match(here[one], there[other], alike, _correlation(here[one].written, there[other].written)))
        rows += [Match(one, None) for place, one in enumerate(here) if place not in {pair[0] for pair in pairs}]
        rows += [Match(None, one) for place, one in enumerate(there) if place not in {pair[1] for pair in pairs}]
    return tuple(rows)


def _correlation(first: np.ndarray | None, second: np.ndarray | None) -> float:
    """Of two arrays as they are, without their mean; zero where one is zero."""
    if first is None or second is None:
        return float("nan")
    size = np.linalg.norm(first) * np.linalg.norm(second)
    return float(np.sum(first * second) / size) if size > 0 else 0.0


def _weights_of(run: Trajectory) -> tuple[list[dict[Edge, np.ndarray]], dict[Edge, np.ndarray] | None]:
    return [run.weights(seed) for seed in range(len(run.loss))], recorded_weights(run)
