"""The modules of a ReLU network: sets of neurons that one gate can replace.

The gate g in place of a neuron's own changes what it passes on for an example by |w|^2 z^2 (1[z > 0] - g)^2, with w its
outgoing weights and z what it receives. Neurons are put into modules so that the sum over neurons, examples and records
is least. So a neuron counts by its strength, and hardly at all where it sits at its threshold. With samples that all
count the same this is k-means, and on gate patterns it is P2's Algorithm 1.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from neuralrace.activations import LeakyReLU
from neuralrace.architecture import Architecture, edge_name
from neuralrace.arrays import real_array, require_unmasked
from neuralrace.axes import Edge, Weights
from neuralrace.errors import (
    GateError,
    ProblemError,
    RangeError,
    TaskError,
    require_count,
    require_kind,
    shortened,
)
from neuralrace.gates import Gates
from neuralrace.initial import seed_words
from neuralrace.movement import ALONG
from neuralrace.problem import BIAS, Problem, side_by_side
from neuralrace.task import Task
from neuralrace.trajectory import Trajectory

TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class Modules:
    """The modules of one layer, the one that carries most first.

    gates: (modules, N), from 0 to 1. members: the module of each sample, -1 for one that is on for nothing.
    consistency: (modules,), the share of what its samples carry whose gate is on the same side of one half as the
    module's. share: (modules,), of all that is carried.
    """

    gates: np.ndarray = field(repr=False)
    members: np.ndarray = field(repr=False)
    consistency: np.ndarray
    share: np.ndarray

    def __len__(self) -> int:
        return len(self.gates)

    @property
    def patterns(self) -> np.ndarray:
        """(modules, N) of bool: for which examples each module is on."""
        return self.gates > 0.5


def find_modules(samples: Any, count: int, key: int = 0) -> Modules:
    """Put samples of gates into at most `count` modules, fewer where there are fewer patterns.

    samples: (..., N) from 0 to 1, the gates of neurons, at one record or at many. key: of the starts.
    """
    require_unmasked("gates", samples, GateError)
    gates, size = np.asarray(samples), require_count("modules", count)
    if gates.dtype.kind not in "fiub" or not gates.ndim or not gates.size:
        raise GateError(f"gates must be numbers, one for each example of each neuron; they were {shortened(samples)}")
    if gates.dtype != bool and not (gates.min() >= 0 and gates.max() <= 1):
        raise GateError(f"gates must lie between 0 and 1; they go from {gates.min():g} to {gates.max():g}")
    rows = gates.reshape(-1, gates.shape[-1])  # equal rows count as often as they occur
    packed = np.packbits(rows, axis=1) if rows.dtype == bool else rows
    _, first, inverse, times = np.unique(packed, axis=0, return_index=True, return_inverse=True, return_counts=True)
    carried = np.repeat(times[:, None].astype(float), rows.shape[1], axis=1)
    found = cluster(carried, carried * rows[first], size, key, most=1_500_000)  # patterns of many records
    return replace(found, members=found.members[inverse.ravel()].reshape(gates.shape[:-1]))


def cluster(carried: np.ndarray, passed: np.ndarray, count: int, key: int = 0, most: int = 300_000) -> Modules:
    """Find at most `count` modules. carried: what samples pass on if open; passed: the part with an open gate."""
    shape, examples = carried.shape[:-1], carried.shape[-1]
    active = passed.sum(axis=-1) > 0.01 * carried.sum(axis=-1)  # the others are on for hardly any example
    both = np.hstack([passed[active], carried[active]])
    members = np.full(shape, -1)
    if not len(both):
        return Modules(np.zeros((0, examples)), members, np.zeros(0), np.zeros(0))
    # the strongest samples, `most` numbers and at least 1024 samples, from six starts
    strong = np.argsort(-both[:, examples:].sum(axis=1), kind="stable")[: max(1024, most // examples)]
    random = np.random.default_rng([*seed_words(key), count])
    among = both[strong]
    own = among[:, :examples] / np.where(among[:, examples:] > 0, among[:, examples:], 1.0)
    tries = [_descend(among, own, count, random) for _ in range(6)]
    gates = min(tries, key=lambda found: found[0])[1]
    members[active] = np.argmin(_changes(both, gates), axis=1)
    # where a module carries less than a hundredth of what it would if it treated all examples alike, its neurons sit at
    # their threshold and its gate is the sign of negligible values: it counts as closed
    amount = np.array([carried[members == m].sum(axis=0) for m in range(len(gates))])
    whole = amount.sum(axis=1)
    gates = np.where(amount > 0.01 * np.outer(whole, amount.sum(axis=0)) / max(whole.sum(), TINY), gates, 0.0)
    kept = [m for m in np.argsort(-whole, kind="stable") if whole[m] > 0 and (gates[m] > 0.5).any()]
    numbers = np.full(len(gates) + 1, -1)
    numbers[kept] = np.arange(len(kept))
    through = [passed[members == m].sum(axis=0) for m in kept]
    agree = [np.where(gates[m] > 0.5, p, amount[m] - p).sum() / whole[m] for m, p in zip(kept, through, strict=True)]
    return Modules(gates[kept], numbers[members], np.array(agree), whole[kept] / max(whole[kept].sum(), TINY))


def _descend(both: np.ndarray, own: np.ndarray, count: int, random: np.random.Generator) -> tuple[float, np.ndarray]:
    """Descend from the gates of single samples, initialized as in k-means++.

    both: what samples pass on and what they carry, side by side, (samples, 2 N). own: their gates, (samples, N).
    """
    passed, carried = np.split(both, 2, axis=1)
    on, whole = float(passed.sum()), carried.sum(axis=1)
    least = -np.einsum("sn,sn->s", passed, own)  # of a sample under its own gate
    chosen = [int(random.choice(len(own), p=whole / whole.sum()))]
    left = np.full(len(own), np.inf)
    while len(chosen) < count:
        left = np.minimum(left, _changes(both, own[chosen[-1:]])[:, 0] - least)
        left[left <= 1e-9 * whole] = 0.0
        if not left.any():  # there are no more patterns
            break
        chosen.append(int(random.choice(len(own), p=left / left.sum())))
    gates, before = own[chosen], np.inf
    for _ in range(100):
        changes = _changes(both, gates)
        nearest, total = changes.argmin(axis=1), on + float(changes.min(axis=1).sum())
        if total >= before * (1 - 1e-9):
            break
        before = total
        through, amount = np.split(np.eye(len(gates))[:, nearest] @ both, 2, axis=1)
        gates = through / np.where(amount > 0, amount, 1.0)
    return before, gates


def _changes(both: np.ndarray, gates: np.ndarray) -> np.ndarray:
    """(samples, modules): how much of what is passed on would change, less what is passed on."""
    return np.asarray(both @ np.hstack([-2 * gates, gates**2]).T)


def require_relu_chain(network: Any) -> None:
    """Require a chain of ReLU layers of one slope, from one input to one output."""
    require_kind("network", network, Problem, ProblemError)
    graph, kinds, gates = network.architecture, network.activations, network.gates
    nodes = [node for node in graph.nodes if not (network.biases and node == BIAS)]
    inner = [ends for ends in graph.edges.values() if ends[0] in nodes]
    order = [ends[0] for ends in inner[:1]] + [ends[1] for ends in inner]
    chain = inner == list(itertools.pairwise(order)) and sorted(order) == sorted(nodes)
    alike = set(kinds) == set(order[1:-1]) and len(set(kinds.values())) == 1
    if not (chain and alike and isinstance(kinds[order[1]], LeakyReLU)) or gates.nodes or gates.edges or graph.weights:
        raise ProblemError(
            "a chain of ReLU layers of one slope without gates is required, its edges listed from input to output; "
            "this problem is another: make one with ReLUNetwork(task, hidden=...)"
        )


def examples_of(network: Problem) -> Task:
    """Return the task without the constant input that biases are the weights of."""
    inputs = {node: rows for node, rows in network.task.inputs.items() if not (network.biases and node == BIAS)}
    return Task(inputs, network.task.targets, network.task.weights, names=network.task.names)


def network_of(run: Any) -> Problem:
    """Return the ReLU network of a run, or raise an error that names what is missing."""
    require_kind("run", run, Trajectory, ProblemError)
    if not any(str(name).startswith("gate_patterns[") for name in run.data):
        raise GateError(
            "the run must hold gate patterns of a ReLU network; it does not: train with "
            "record=('gate_patterns', 'weights')"
        )
    require_relu_chain(run.problem)
    lost = int(np.sum(run.status == "diverged"))
    if lost:
        raise RangeError(
            f"networks that learned are required; {lost} of {len(run.status)} diverged: train with a smaller "
            "learning rate"
        )
    network: Problem = run.problem
    return network


def measured(run: Trajectory) -> Trajectory:
    """Measure the pace of a run by another rule than descent, as for checkpoints, where its weights were recorded.

    The learning rate of such a run is only a unit of time.
    """
    steps, known = run.data["step"].values.tolist(), run.settings["rule"]["rule"] in ("descent", "checkpoints")
    if known or recorded_weights(run) is None or steps[0] > 0 or len(steps) < 2:
        return run
    weights = [[run.weights(seed, record) for record in range(len(steps))] for seed in range(len(run.loss))]
    return Trajectory.from_checkpoints(network_of(run), steps, weights)


def replayable(run: Trajectory) -> bool:
    """Whether the run went down the gradient of the squared error at one known pace, so that it can be made again."""
    settings, rule = run.settings, run.settings["rule"]
    along = rule["rule"] == "descent" or rule.get("cosine", 0.0) >= ALONG
    return along and settings["loss"] == "squared" and settings["learning_rate"] is not None and len(run.time) > 1


def small_steps(run: Trajectory) -> int:
    """How many steps of descent follow one of the run: more than one if its pace is too fast for plain descent."""
    return int(run.settings["rule"].get("small_steps", 1))


def gate_samples(run: Trajectory, layer: str = "h1", every: int = 1) -> np.ndarray:
    """Return the gate pattern of each neuron at every `every`-th record of each seed, (seeds, records, neurons, N)."""
    recorded = run.values(f"gate_patterns[{layer}]")
    return recorded[:, :: require_count("every", every)].swapaxes(-1, -2)


def recorded_weights(run: Trajectory) -> dict[Edge, np.ndarray] | None:
    """Return the weights at every record, (seeds, records, target, source) each; None where they were not recorded."""
    names = {edge: f"weights[{edge_name(edge)}]" for edge in run.edges}
    held = all(name in run.data for name in names.values())
    return {edge: run.values(name) for edge, name in names.items()} if held else None


Samples = dict[str, tuple[np.ndarray, np.ndarray]]  # layer -> what neurons carry if open, and where they are on


def neuron_samples(network: Problem, weights: Weights) -> Samples:
    """Sample the neurons at every record, (records, seeds, neurons, N); weights: (seeds, records, target, source).

    What is carried is squared and a share of all that is carried in a layer at that record, so that early records
    count as much as late ones.
    """
    graph, amount = network.architecture, network.task.weights
    seeds, records = next(iter(weights.values())).shape[:2]
    shapes = {layer: (records, seeds, graph.nodes[layer], len(amount)) for layer in graph.hidden}
    samples = {layer: (np.empty(shape), np.empty(shape, dtype=bool)) for layer, shape in shapes.items()}
    for record, seed in np.ndindex(records, seeds):
        now = {edge: matrix[seed, record] for edge, matrix in weights.items()}
        received = network.preactivations(now)
        for layer, (carried, on) in samples.items():
            (leaving,) = graph.outgoing[layer]
            carried[record, seed] = (now[leaving] ** 2).sum(axis=0)[:, None] * received[layer].T ** 2 * amount
            on[record, seed] = received[layer].T > 0
    for carried, _ in samples.values():
        carried /= np.maximum(carried.sum(axis=(1, 2, 3), keepdims=True), TINY)
    return samples


def samples_of_run(network: Problem, run: Trajectory) -> Samples:
    """Sample the neurons of a run; without weights over time, they carry at every record what they carry at the end."""
    weights = recorded_weights(run)
    if weights is not None:
        return neuron_samples(network, weights)
    final = {edge: run.values(f"final_weights[{edge_name(edge)}]")[:, None] for edge in run.edges}
    gates = {layer: gate_samples(run, layer).swapaxes(0, 1) for layer in network.architecture.hidden}
    last = neuron_samples(network, final)
    return {layer: (np.broadcast_to(last[layer][0], on.shape), on) for layer, on in gates.items()}


def gated_problem(task: Task, patterns: Any, widths: Any, biases: bool = False) -> Problem:
    """The gated network with one node for each pattern, m0, m1, ...; the first nodes read all inputs.

    patterns: (k, N), or a list of these, one for each hidden layer: then nodes are named h1_m0, ..., h2_m0, ... and
    every node sends to all nodes of the next layer. widths: neurons of each node, one number or one for each, for each
    layer. Several inputs or outputs of the task are concatenated, as in a ReLUNetwork. biases: as there.
    """
    require_kind("task", task, Task, TaskError)
    several = isinstance(patterns, list) and all(np.ndim(layer) == 2 for layer in patterns)
    layers = patterns if several else [patterns]
    each = several and isinstance(widths, Sequence | np.ndarray)
    sizes = widths if each else [widths] * len(layers)
    if len(sizes) != len(layers):
        raise RangeError(f"widths must have one entry for each of {len(layers)} hidden layers; it has {len(sizes)}")
    rows, wanted = side_by_side(task.inputs), side_by_side(task.targets)
    nodes, sources = {"x": rows.shape[1]}, ["x"]
    edges: list[tuple[str, str]] = []
    gates: dict[str, np.ndarray] = {}
    for place, (layer, width) in enumerate(zip(layers, sizes, strict=True), start=1):
        open_for = np.atleast_2d(real_array("patterns", layer, GateError))
        prefix = f"h{place}_" if len(layers) > 1 else ""
        names = [f"{prefix}m{module}" for module in range(len(open_for))]
        nodes |= dict(zip(names, map(int, np.broadcast_to(np.asarray(width), (len(open_for),))), strict=True))
        gates |= dict(zip(names, open_for, strict=True))
        edges += itertools.product(sources, names)
        sources = names
    edges += [(source, "y") for source in sources]
    architecture = Architecture(nodes | {"y": wanted.shape[1]}, edges)
    examples = Task({"x": rows}, {"y": wanted}, task.weights)
    return Problem(architecture, examples, Gates(nodes=gates), biases=biases)
