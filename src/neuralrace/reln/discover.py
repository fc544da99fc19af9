"""The modules of ReLU networks, found in a run or predicted, and the gated network of these that learns like them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from neuralrace.analysis import Agreement, Line
from neuralrace.axes import Edge, Weights
from neuralrace.errors import GateError, RangeError, WeightError, require_count, shortened
from neuralrace.gates import Gates
from neuralrace.initial import Initializer
from neuralrace.problem import Problem, side_by_side
from neuralrace.progress import Meter
from neuralrace.reln.modules import (
    Modules,
    examples_of,
    gated_problem,
    network_of,
    neuron_samples,
    recorded_weights,
    require_relu_chain,
    samples_of_run,
)
from neuralrace.reln.replay import STRETCHES, Replay, fewest, replay
from neuralrace.task import Task
from neuralrace.theory import Forecast, NetworkFlow, Representatives, predict
from neuralrace.trajectory import Trajectory

ALIKE = 0.9  # of the examples: modules that agree for this part are the same
RECORDS = 121  # of a forecast, evenly over its times, at which gates are sampled


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
    was tried; chosen: the one whose modules, of its last stretch, these are. forecast: of the loss, where the modules
    were predicted.
    """

    modules: tuple[Module, ...]
    network: Problem = field(repr=False)
    time: np.ndarray = field(repr=False)
    chosen: Replay
    tried: tuple[Replay, ...] = field(repr=False)
    forecast: Forecast | None = field(default=None, repr=False)

    @property
    def patterns(self) -> np.ndarray:
        """(modules, N) of bool: for which examples each module is on."""
        return np.reshape([module.pattern for module in self.modules], (-1, len(self.network.task)))

    @property
    def agreement(self) -> Agreement:
        """The distance of the chosen replay, in units of what the networks learned."""
        return self.chosen.agreement

    @property
    def problem(self) -> Problem:
        """The gated network of these modules, ready to train or to predict; as wide as the modules are on average."""
        layers = [[one for one in self.modules if one.layer == layer] for layer in self.network.architecture.hidden]
        patterns = [np.array([one.pattern for one in layer]) for layer in layers]
        widths = [[max(1, round(one.neurons)) for one in layer] for layer in layers]
        return gated_problem(examples_of(self.network), patterns, widths, self.network.biases)

    @property
    def gates(self) -> Gates:
        """The modules as gates: switches by example, one node for each module."""
        return self.problem.gates


def discover(
    run: Trajectory,
    modules: int | str = "auto",
    *,
    stretches: Sequence[int] = STRETCHES,
    key: int = 0,
    progress: bool = True,
) -> Modular:
    """Find the modules of ReLU networks: the same that `explain` reports.

    run: of ReLU networks that descended the squared error at one learning rate, with record=("gate_patterns",
    "weights"). From gate patterns alone, what neurons carry is known at the end only, and is used for all records.
    modules: how many in each hidden layer, fewer where there are fewer patterns, or "auto": the fewest whose replay
    explains the run. A replay trains the networks again, from their own initial weights, with the gates of the modules
    imposed. stretches: numbers of stretches of time with constant gates that are tried, each a divisor of the next;
    with several hidden layers gates never change. progress: as in `train`.
    """
    count, network, rate = check_modules(modules), network_of(run), run.settings["learning_rate"]
    steps, seeds = np.asarray(run.data["step"].values), range(len(run.loss))
    initial, final = [run.initial_weights(seed) for seed in seeds], [run.weights(seed) for seed in seeds]
    with Meter("replaying modules", shown=progress):
        rows = replay(network, initial, samples_of_run(network, run), run, steps, float(rate), count, stretches, key)
    chosen = fewest(rows)
    found = _describe(network, chosen.gatings[-1], final, recorded_weights(run))
    return Modular(found, network, run.time, chosen, rows)


def predict_modules(
    network: Problem,
    initial: Initializer,
    times: Sequence[float] | np.ndarray,
    modules: int | str = "auto",
    *,
    learning_rate: float | None = None,
    draws: int = 2,
    key: Any = None,
    evaluate: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> Modular:
    """Predict which modules a ReLU network will form, how large they become, and what each writes.

    Nothing is trained: neurons are drawn from the initializer, by a stream that no training has, and followed by
    `predict`; in a wide hidden layer a subsample represents all. They are put into modules like those of a run.
    modules: how many in each layer, or "auto": the fewest whose replay explains the forecast. learning_rate: of the
    training that is predicted, step by step (default: the gradient flow). evaluate: see `predict`.
    """
    if not callable(initial):
        raise WeightError(f"initial must be an initializer such as initial.gaussian(std); it was {shortened(initial)}")
    require_relu_chain(network)
    count, dynamics = check_modules(modules), "flow" if learning_rate is None else "descent"
    methods = Representatives(), NetworkFlow()
    how: dict[str, Any] = {"learning_rate": learning_rate, "dynamics": dynamics, "draws": draws, "progress": progress}
    forecast = predict(network, initial, times, methods, key, evaluate=evaluate, **how)
    if not np.isfinite(forecast.losses).all():
        raise RangeError(f"the forecast diverges at learning_rate={learning_rate:.3g}: give a smaller one")
    graph, rate = network.architecture, learning_rate
    if rate is None:  # a replay of a flow takes steps of a tenth of the inverse of a bound on the curvature
        rate = min(0.1 / largest_curvature(network.task, len(graph.hidden) + 1), forecast.time[-1] / RECORDS)
    moments = forecast.time[np.unique(np.linspace(0, len(forecast.time) - 1, RECORDS).astype(int))]
    moments = np.unique(np.append(0.0, moments))
    steps, first = np.unique(np.rint(moments / rate).astype(int), return_index=True)
    moments = moments[first]
    sets = [forecast.weights_at(moments, draw) for draw in range(len(forecast.losses))]
    weights = {edge: np.array([[at[edge] for at in draw] for draw in sets]) for edge in graph.edges}
    followed = network if forecast.simulated is None else forecast.simulated
    each = graph.nodes[graph.hidden[0]] / followed.architecture.nodes[graph.hidden[0]]
    curve = Line(moments, np.interp(moments, forecast.time, forecast.loss))
    with Meter("replaying modules", shown=progress):
        begin = [draw[0] for draw in sets]
        rows = replay(followed, begin, neuron_samples(followed, weights), curve, steps, rate, count)
    chosen = fewest(rows)
    described = _describe(followed, chosen.gatings[-1], [draw[-1] for draw in sets], weights, each)
    return Modular(described, network, moments, chosen, rows, forecast)


def check_modules(modules: int | str) -> int | None:
    """The number of modules, None for "auto"."""
    if isinstance(modules, str) and modules != "auto":
        raise RangeError(f"modules must be a whole number or 'auto'; it was {modules!r}")
    return None if isinstance(modules, str) else require_count("modules", modules)


def largest_curvature(task: Task, layers: int) -> float:
    """Bound the curvature that a linear network of L layers reaches: L d p^(2 - 2/L) with p = s / d.

    d is the largest variance of the inputs, and s, the largest singular value that an input-output correlation of any
    of the examples can have, at most the root of d times the mean squared length of the targets.
    """
    rows, wanted = side_by_side(task.inputs), side_by_side(task.targets)
    spread = float(np.linalg.eigvalsh(rows.T @ (rows * task.weights[:, None]))[-1])
    energy = float(task.weights @ np.sum(wanted**2, axis=1))
    if spread <= 0 or energy <= 0:
        raise RangeError("a task to learn has inputs and targets that are not all zero; here they are: check the file")
    return float(layers * spread * np.sqrt(energy / spread) ** (2 - 2 / layers))


def _describe(
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
    activity = [network.activity(weights) for weights in final]
    for layer, found in layers.items():
        entering, (leaving,) = graph.incoming[layer], graph.outgoing[layer]
        for place, gate in enumerate(found.gates):
            inside, written, size = found.members == place, None, None
            if graph.target(leaving) in graph.outputs:
                sent = zip(activity, inside, final, strict=True)
                written = np.mean([(one[layer] * of) @ weights[leaving].T for one, of, weights in sent], axis=0)
            if over_time is not None:
                norms = []
                for seed, of in enumerate(inside):
                    enter = np.concatenate([over_time[e][seed][:, of] for e in entering], axis=-1)
                    norms.append(np.linalg.norm(over_time[leaving][seed][..., of] @ enter, axis=(1, 2)))
                size = np.mean(norms, axis=0)
            name = f"{layer}_m{place}" if len(layers) > 1 else f"m{place}"
            neurons = each * float(np.mean(inside.sum(axis=1)))
            share, agree = float(found.share[place]), float(found.consistency[place])
            described.append(Module(name, layer, gate, inside, neurons, share, agree, written, size))
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
        ours, theirs = linear_sum_assignment(apart)
        for a, b in ((here[one], there[other]) for one, other in zip(ours, theirs, strict=True)):
            written = float("nan")
            if a.written is not None and b.written is not None:
                size = np.linalg.norm(a.written) * np.linalg.norm(b.written)
                written = float(np.sum(a.written * b.written) / size) if size > 0 else 0.0
            rows.append(Match(a, b, float(amount @ (a.pattern == b.pattern)), written))
        rows += [Match(one, None) for place, one in enumerate(here) if place not in ours]
        rows += [Match(None, one) for place, one in enumerate(there) if place not in theirs]
    return tuple(rows)
