"""Train the networks of a run again, from their own initial weights, under the gates of modules.

The distance of a replay measures what the modules leave out. The gates are taken from the run, so it is a
reconstruction: it describes the run and predicts nothing.

With one hidden layer the examples are seen through moments alone: of pairs of modules, S_mn = <g_m g_n x x^T>, and of
modules with the targets, C_m = <g_m y x^T>. And the neurons of a module are a linear layer: what they span, at most
inputs + outputs directions, is all that ever moves, so that a module of any width is one matrix R, (directions,
inputs + outputs), the triangle of its incoming and outgoing weights side by side. Many gatings are one small
program. With several hidden layers the networks are trained again with a gate for every neuron.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled
from neuralrace.activations import LeakyReLU
from neuralrace.analysis import Agreement, Line, agreement
from neuralrace.arrays import float64
from neuralrace.axes import Array, Weights
from neuralrace.gates import Gates
from neuralrace.problem import BIAS, Problem, side_by_side
from neuralrace.reln.modules import Modules, Samples, cluster
from neuralrace.training import train

# A replay within these explains the networks: twice what P2's mixed task, with four modules, is held to.
NEAR_L1, NEAR_LOG = 0.1, 0.3
STRETCHES = (1, 2, 4)
MOST_DEEP = 6  # modules in each layer that are tried with several hidden layers

Gating = dict[str, Modules]  # layer -> its modules
Stretch = tuple[int, int, dict[str, tuple[np.ndarray, np.ndarray]]]  # first, last record; layer -> carried, passed
State = tuple[Array, Array]  # weights of modules, (..., networks, modules, directions, inputs + outputs); output biases


@dataclass(frozen=True, eq=False)
class Replay:
    """Networks trained again with at most `modules` modules in each layer, in stretches of constant gates.

    agreement: the distance of the loss from the run's, see `distance_learned`. gatings: layer -> modules, for
    each stretch. loss: (records,), the mean over the networks. outputs: (networks, N, outputs), at the end.
    """

    modules: int
    stretches: int
    agreement: Agreement
    gatings: tuple[Gating, ...] = field(repr=False)
    loss: np.ndarray = field(repr=False)
    outputs: np.ndarray = field(repr=False)

    @property
    def explains(self) -> bool:
        """Whether it is within NEAR_L1 and NEAR_LOG of the run."""
        return near(self.agreement)


def near(apart: Agreement) -> bool:
    """Whether a curve is within NEAR_L1 and NEAR_LOG of training, by `distance_learned`."""
    return apart.normalized_l1 <= NEAR_L1 and apart.log10_gap <= NEAR_LOG


def distance_learned(curve: Any, run: Any) -> Agreement:
    """Compare a curve with a run, in units of what the run learned.

    The area between the curves is divided by the area between the run and the lowest loss that it reaches, and the
    largest gap by the fall of the run, so that a loss that no network can remove does not make curves look alike.
    """
    plain = agreement(curve, run)
    if not np.isfinite(plain.normalized_l1):
        return plain
    measured, predicted = (np.atleast_2d(one.loss).mean(axis=0) for one in (run, curve))
    floor = float(measured.min())
    above = agreement(Line(run.time, predicted - floor), Line(run.time, measured - floor))
    return replace(above, log10_gap=plain.log10_gap)


def fewest(rows: Sequence[Replay]) -> Replay:
    """The fewest modules that explain, with as few stretches as any that does; the nearest where none does."""
    good = [row for row in rows if row.explains]
    if good:
        return min(good, key=lambda row: (row.stretches, row.modules))
    return min(rows, key=lambda row: (np.nan_to_num(row.agreement.normalized_l1, nan=np.inf), row.modules))


def cut(samples: Samples, steps: np.ndarray, counts: Sequence[int]) -> dict[int, list[Stretch]]:
    """Cut the records into stretches in which equal parts of the gating change; for each count of stretches.

    The change from record to record is the share of what is carried whose gates turn. Each count divides the next, so
    that the cuts of one are among those of the next; counts beyond the number of records are left out.
    """
    last = len(steps) - 1
    turned = [np.einsum("rsni,rsni->r", carried[1:], on[1:] != on[:-1]) for carried, on in samples.values()]
    grown = np.append(0.0, np.cumsum(np.mean(turned, axis=0) + 1e-9))  # where nothing changes, equal lengths
    finest = min(max(counts), max(last, 1))
    bounds = [0]
    for place, record in enumerate(np.searchsorted(grown, np.linspace(0, grown[-1], finest + 1)[1:-1]), start=1):
        bounds.append(int(np.clip(record, bounds[-1] + 1, last - (finest - place))))
    bounds.append(last)
    length = np.gradient(steps.astype(float)) if last else np.ones(1)  # how long the gates of a record last
    found: dict[int, list[Stretch]] = {}
    for count in (count for count in counts if count <= finest):
        size = finest // count
        found[count] = []
        for first, end in itertools.pairwise([*bounds[: size * count : size], last]):
            inside = slice(first, end + (end == last))
            parts = {}
            for layer, (carried, on) in samples.items():
                passed = np.einsum("r,rsni,rsni->sni", length[inside], carried[inside], on[inside])
                parts[layer] = np.tensordot(length[inside], carried[inside], 1), passed
            found[count].append((first, end, parts))
    return found


def replay(
    network: Problem,
    initial: Sequence[Weights],
    samples: Samples,
    run: Any,
    steps: np.ndarray,
    rate: float,
    modules: int | None = None,
    stretches: Sequence[int] = STRETCHES,
    key: int = 0,
) -> tuple[Replay, ...]:
    """Replay networks with more and more modules, until some number explains them.

    initial: the initial weights of each network. samples: see `neuron_samples`. run: the loss to be met, at the times
    of the records; steps: their steps of gradient descent, of size `rate`. modules: this number alone.
    """
    graph, deep = network.architecture, len(network.architecture.hidden) > 1
    inputs, outputs = (sum(graph.nodes[node] for node in nodes) for nodes in (graph.inputs, graph.outputs))
    cuts = cut(samples, steps, (1,) if deep else stretches)
    tiers = [(1, 2, 3, 4), (5, 6, 7, 8), (10, 12)]  # numbers of modules that are tried together, in one program
    if modules is not None or deep:
        tiers = [(count,) for count in ([modules] if modules else range(1, MOST_DEEP + 1))]
    found: dict[tuple[int, int], Replay] = {}
    spent = 0.0
    for tier in tiers:
        spent += 2.0 * (max(tier) * inputs) ** 2 * outputs * len(initial) * float(steps[-1]) * len(tier) * len(cuts)
        if found and (any(row.explains for row in found.values()) or (spent > 1.5e12 and not deep)):
            break
        for count, parts in cuts.items():
            plans = [
                [{layer: cluster(*both, size, key) for layer, both in seen.items()} for _, _, seen in parts]
                for size in tier
            ]
            if deep:
                played = [_deep(network, initial, plan[0], steps, rate) for plan in plans]
            else:
                played = play(network, initial, plans, [part[:2] for part in parts], steps, rate, max(tier))
            for size, plan, (loss, end) in zip(tier, plans, played, strict=True):
                made = min(size, max(len(one) for gating in plan for one in gating.values()))
                apart = distance_learned(Line(run.time, np.where(np.isfinite(loss), loss, np.inf)), run)
                found.setdefault((made, count), Replay(made, count, apart, tuple(plan), loss, end))
    return tuple(found[numbers] for numbers in sorted(found))


def _gates_of(network: Problem, layer: str, found: Modules) -> np.ndarray:
    """Gates of the neurons of each module, (modules + 1, N); the last row, of zeros, is for those outside all (-1)."""
    kind = network.activations[layer]
    assert isinstance(kind, LeakyReLU)
    return np.vstack([kind.slope + (1 - kind.slope) * found.gates, np.zeros((1, len(network.task)))])


def _deep(
    network: Problem, initial: Sequence[Weights], gating: Gating, steps: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean loss and last outputs of networks with a gate for every neuron; neurons outside all modules are off."""
    graph, losses, ends = network.architecture, [], []
    for seed, weights in enumerate(initial):
        gates = {k: _gates_of(network, k, found)[found.members[seed]].T for k, found in gating.items()}
        gated = Problem(graph, network.task, Gates(gates), biases=network.biases)
        again = train(gated, weights, rate, int(steps[-1]), at=steps.tolist(), progress=False)
        losses.append(again.loss[0])
        ends.append(side_by_side(gated.forward(again.weights(0))))
    return np.mean(losses, axis=0), np.array(ends)


@float64
def play(
    network: Problem,
    initial: Sequence[Weights],
    plans: Sequence[Sequence[Gating]],
    bounds: Sequence[tuple[int, int]],
    steps: np.ndarray,
    rate: float,
    padded: int,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Train networks of one hidden layer whose gates are those of a plan, one gating for each stretch.

    Return for each plan the mean loss over the networks, (records,), and the outputs at the end, (networks, N,
    outputs). bounds: the first and last record of each stretch. padded: modules of the program, at least as many as any
    gating has.
    """
    graph, task = network.architecture, network.task
    (layer,), (into,) = graph.hidden, graph.outputs
    rows = np.hstack([task.inputs[graph.source(edge)] for edge in graph.incoming[layer]])
    wanted, size = side_by_side(task.targets), rows.shape[1]
    (leaving,), biased = graph.outgoing[layer], [e for e in graph.incoming[into] if graph.source(e) == BIAS]
    # incoming and outgoing weights of every neuron side by side, (plans, networks, neurons, inputs + outputs)
    own = [np.hstack([*(w[e] for e in graph.incoming[layer]), w[leaving].T]) for w in initial]
    neurons = np.array([own for _ in plans])
    offset = np.zeros((len(plans), len(initial), wanted.shape[1]))
    if biased:
        offset[:] = [weights[biased[0]][:, 0] for weights in initial]
    rates = np.asarray(rate), np.asarray(rate if biased else 0.0)
    losses = []
    for place, (first, last) in enumerate(bounds):
        gatings = [plan[place][layer] for plan in plans]
        blocks = np.zeros((*offset.shape[:2], padded, min(neurons.shape[2:]), neurons.shape[3]))
        gates, bases = np.zeros((len(plans), padded, len(rows))), {}
        for number, gating in enumerate(gatings):
            gates[number, : len(gating)] = _gates_of(network, layer, gating)[:-1]
            for seed, module in np.ndindex(len(initial), len(gating)):
                inside = neurons[number, seed, gating.members[seed] == module]
                bases[number, seed, module], triangle = np.linalg.qr(inside)
                blocks[number, seed, module, : len(triangle)] = triangle
        gaps = np.zeros(len(steps), dtype=np.int32)  # one program for all stretches
        gaps[: last - first] = np.diff(steps[first : last + 1])
        moved = _descend((rows, wanted, task.weights), gates, (blocks, offset), rates, gaps)
        (blocks, offset), curve = jax.tree.map(np.asarray, moved)
        losses.append(curve[:, : last - first + (place == len(bounds) - 1)])  # the next stretch starts where this ends
        for (number, seed, module), basis in bases.items():  # back into the neurons; those in no module stay
            inside = gatings[number].members[seed] == module
            neurons[number, seed, inside] = basis @ blocks[number, seed, module, : basis.shape[1]]
    played = []
    for curve, weights, gating, shift in zip(np.concatenate(losses, axis=-1), neurons, gatings, offset, strict=True):
        sent = (weights[..., :size] @ rows.T) * _gates_of(network, layer, gating)[gating.members]
        played.append((curve, sent.swapaxes(-1, -2) @ weights[..., size:] + shift[:, None]))
    return played


@compiled
def _descend(
    examples: tuple[Array, Array, Array], gates: Array, start: State, rates: tuple[Array, Array], gaps: Array
) -> tuple[State, jax.Array]:
    """Descend `gaps` steps after each record. Return the end, and the mean loss at each record, (plans, records).

    examples: inputs, targets and weights of the examples. gates: (plans, modules, N). rates: of weights, of biases.
    """
    rows, wanted, amount = examples
    size, root = rows.shape[1], jnp.sqrt(amount)[:, None]

    def one_plan(gates: Array, start: State) -> tuple[State, jax.Array]:
        seen = root * (gates.T[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
        # S_mn, (modules * inputs, modules * inputs); C_m; and the means over the examples
        pairs, aims, mean_seen, mean = seen.T @ seen, (root * wanted).T @ seen, root[:, 0] @ seen, amount @ wanted

        def products(blocks: Array) -> Array:
            # what all modules do, A_m side by side, (networks, outputs, modules * inputs)
            found = jnp.einsum("smro,smri->somi", blocks[..., size:], blocks[..., :size])
            return found.reshape(*found.shape[:2], -1)

        def loss(at: State) -> Array:
            done, offset = products(at[0]), at[1]
            apart = jnp.sum(done * (0.5 * done @ pairs - aims), axis=(-2, -1))
            return jnp.mean(apart + jnp.sum(offset * (done @ mean_seen + 0.5 * offset - mean), axis=-1))

        def step(_: Any, at: State) -> State:
            blocks, offset = at
            done, pull_back = jax.vjp(products, blocks)
            (slope,) = pull_back(done @ pairs - aims + offset[..., None] * mean_seen)
            return blocks - rates[0] * slope, offset - rates[1] * (done @ mean_seen + offset - mean)

        def to_next(at: State, gap: Any) -> tuple[State, Any]:
            energy = 0.5 * amount @ jnp.sum(wanted**2, axis=1)
            return jax.lax.fori_loop(0, gap, step, at), loss(at) + energy

        return jax.lax.scan(to_next, start, gaps)

    return jax.vmap(one_plan)(gates, start)
