"""Train the networks of a run again, from their own initial weights, under the gates of modules.

How near a replay comes says what the modules leave out. The gates are read off the run, so it is a reconstruction: it
describes the run and predicts nothing.

With one hidden layer the examples are seen through moments alone: of pairs of modules, S_mn = <g_m g_n x x^T>, and of
modules with the targets, C_m = <g_m y x^T>. And the neurons of a module are a linear layer: what they span, at most
inputs + outputs directions, is all that ever moves, so that a module of any width is one matrix R, (directions,
inputs + outputs), the triangle of its incoming and outgoing weights side by side. Many gatings are one small
program. With several hidden layers the networks are trained again with a gate for every neuron.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled
from neuralrace.analysis import Agreement, Line, agreement
from neuralrace.analysis.agreement import LossCurve
from neuralrace.arrays import float64
from neuralrace.axes import Array, Edge, Weights
from neuralrace.gates import Gates
from neuralrace.problem import BIAS, Problem, side_by_side
from neuralrace.reln.modules import Look, Modules, Stretch, cluster, cut, slope_of
from neuralrace.training import train

# A replay within these explains the networks: twice what P2's mixed task, with four modules, is held to.
NEAR_L1, NEAR_LOG = 0.1, 0.3
STRETCHES = (1, 2, 4)
TIERS = ((1, 2, 3, 4), (5, 6, 7, 8), (10, 12))  # numbers of modules that are tried together, in one program
WORK = 1.5e12  # operations after which no further tier is begun
MOST_DEEP = 6  # modules in each layer that are tried with several hidden layers

Gating = dict[str, Modules]  # layer -> its modules
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


def distance_learned(curve: LossCurve, run: LossCurve) -> Agreement:
    """Compare a curve with a run, in units of what the run learned.

    The area between the curves is divided by the area between the run and the lowest loss that it reaches, and the
    largest gap by the fall of the run, so that a loss that no network can remove does not make curves look alike.
    """
    plain = agreement(curve, run)
    measured, predicted = (np.atleast_2d(one.loss).mean(axis=0) for one in (run, curve))
    floor = float(measured.min())
    if not np.isfinite(plain.normalized_l1):
        return plain
    above = agreement(Line(run.time, predicted - floor), Line(run.time, measured - floor))
    return replace(above, log10_gap=plain.log10_gap)


def fewest(rows: Sequence[Replay]) -> Replay:
    """The fewest modules that explain, with as few stretches as any that does; the nearest where none does."""
    good = [row for row in rows if row.explains]
    if good:
        return min(good, key=lambda row: (row.stretches, row.modules))
    return min(rows, key=lambda row: (np.nan_to_num(row.agreement.normalized_l1, nan=np.inf), row.modules))


def replay(
    network: Problem,
    initial: Sequence[Weights],
    looks: Iterator[Look],
    run: LossCurve,
    steps: np.ndarray,
    rate: float,
    modules: int | None = None,
    stretches: Sequence[int] = STRETCHES,
    key: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Replay, ...]:
    """Replay networks with more and more modules, until some number explains them.

    initial: the initial weights of each network. looks: see `looks_at`. run: the loss to be met, at the times of the
    records; steps: their steps of gradient descent, of size `rate`. modules: this number alone.
    """
    deep = len(network.architecture.hidden) > 1
    cuts = cut(looks, steps, (1,) if deep else stretches)
    tiers = tuple((count,) for count in range(1, MOST_DEEP + 1)) if deep else TIERS
    tiers = tiers if modules is None else ((modules,),)
    found: dict[tuple[int, int], Replay] = {}
    spent = 0.0
    for tier in tiers:
        width = max(tier) * sum(network.architecture.nodes[node] for node in network.architecture.inputs)
        outputs = sum(network.architecture.nodes[node] for node in network.architecture.outputs)
        spent += 2.0 * width**2 * outputs * len(initial) * float(steps[-1]) * len(tier) * len(cuts)
        if found and (any(row.explains for row in found.values()) or (spent > WORK and not deep)):
            break
        say(f"replaying the networks with {' to '.join(dict.fromkeys((str(tier[0]), str(tier[-1]))))} modules")
        for count, parts in cuts.items():
            plans = [[_gating(stretch, size, key) for stretch in parts] for size in tier]
            bounds = [(first, last) for first, last, *_ in parts]
            if deep:
                played = [_deep(network, initial, plan[0], steps, rate) for plan in plans]
                losses, ends = np.array([loss for loss, _ in played]), [end for _, end in played]
            else:
                losses, ends = play(network, initial, plans, bounds, steps, rate, max(tier))
            for size, plan, loss, end in zip(tier, plans, losses, ends, strict=True):
                most = max(len(one) for gating in plan for one in gating.values())
                apart = distance_learned(Line(run.time, np.where(np.isfinite(loss), loss, np.inf)), run)
                found.setdefault(
                    (min(size, most), count), Replay(min(size, most), count, apart, tuple(plan), loss, end)
                )
    return tuple(found[numbers] for numbers in sorted(found))


def _gating(stretch: Stretch, modules: int, key: int) -> Gating:
    _, _, carried, passed = stretch
    return {layer: cluster(carried[layer], passed[layer], modules, key) for layer in carried}


def _deep(
    network: Problem, initial: Sequence[Weights], gating: Gating, steps: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """The mean loss and the last outputs of networks with a gate for every neuron; those in no module stay shut."""
    graph, slope, losses, ends = network.architecture, slope_of(network), [], []
    blank = {layer: np.ones((len(network.task), graph.nodes[layer])) for layer in gating}
    linear = Problem(graph, network.task, Gates(nodes=blank), biases=network.biases)
    for seed, weights in enumerate(initial):
        gates = {}
        for layer, found in gating.items():
            through = np.vstack([slope + (1 - slope) * found.gates, np.zeros((1, len(network.task)))])
            gates[layer] = through[found.members[seed]].T  # the last row serves members -1
        gated = linear.regated(gates)
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
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Train networks of one hidden layer whose gates are those of a plan, one gating for each stretch.

    Return the mean loss over the networks, (plans, records), and for each plan the outputs at the end, (networks, N,
    outputs). bounds: the first and last record of each stretch. padded: modules of the program, at least as many as any
    gating has.
    """
    graph, task, slope = network.architecture, network.task, slope_of(network)
    (layer,) = graph.hidden
    sources = [graph.source(edge) for edge in graph.incoming[layer]]
    rows = np.hstack([task.inputs[node] for node in sources])
    wanted, root = side_by_side(task.targets), np.sqrt(task.weights)[:, None]
    size, (into,) = rows.shape[1], graph.outputs
    biased = [edge for edge in graph.incoming[into] if graph.source(edge) == BIAS]
    beside = [edge for edge in graph.incoming[into] if edge not in biased]
    own = [_side_by_side(weights, graph.incoming[layer], beside) for weights in initial]
    neurons = [np.array(own) for _ in plans]
    offset = np.zeros((len(plans), len(initial), wanted.shape[1]))
    if biased:
        offset[:] = [weights[biased[0]][:, 0] for weights in initial]
    directions = min(neurons[0].shape[1:])
    losses = []
    for place, (first, last) in enumerate(bounds):
        gatings = [plan[place][layer] for plan in plans]
        blocks = np.zeros((len(plans), len(initial), padded, directions, neurons[0].shape[2]))
        bases = {}
        moments = []
        for number, gating in enumerate(gatings):
            for seed, module in np.ndindex(len(initial), len(gating)):
                inside = neurons[number][seed][gating.members[seed] == module]
                bases[number, seed, module], triangle = np.linalg.qr(inside)
                blocks[number, seed, module, : len(triangle)] = triangle
            gates = np.zeros((padded, len(rows)))
            gates[: len(gating)] = slope + (1 - slope) * gating.gates
            seen = root * (gates.T[:, :, None] * rows[:, None, :]).reshape(len(rows), padded * size)
            moments.append(
                {
                    "pairs": seen.T @ seen,  # (modules * inputs, modules * inputs)
                    "targets": (root * wanted).T @ seen,
                    "inputs": root[:, 0] @ seen,
                    "mean": task.weights @ wanted,
                    "energy": np.asarray(task.weights @ np.sum(wanted**2, axis=1)),
                    "biased": np.asarray(float(bool(biased))),
                }
            )
        gaps = np.zeros(len(steps), dtype=np.int32)  # one program serves all stretches
        gaps[: last - first] = np.diff(steps[first : last + 1])
        stacked = {name: np.stack([one[name] for one in moments]) for name in moments[0]}
        ended, curve = _descend(stacked, (blocks, offset), np.asarray(rate), gaps)
        blocks, offset = np.asarray(ended[0]), np.asarray(ended[1])
        records = last - first + (place == len(bounds) - 1)  # the next stretch starts where this one ends
        losses.append(np.asarray(curve)[:, :records])
        for (number, seed, module), basis in bases.items():  # back into the neurons; those in no module stay
            inside = gatings[number].members[seed] == module
            neurons[number][seed][inside] = basis @ blocks[number, seed, module, : basis.shape[1]]
    outputs = []
    for weights, gating, shift in zip(neurons, gatings, offset, strict=True):
        gates = np.vstack([slope + (1 - slope) * gating.gates, np.zeros((1, len(rows)))])
        sent = (weights[..., :size] @ rows.T) * gates[gating.members]
        outputs.append(sent.swapaxes(-1, -2) @ weights[..., size:] + shift[:, None])
    return np.concatenate(losses, axis=-1), outputs


def _side_by_side(weights: Weights, entering: Sequence[Edge], leaving: Sequence[Edge]) -> np.ndarray:
    """The incoming and outgoing weights of every neuron of the only hidden layer, (neurons, inputs + outputs)."""
    return np.hstack([*(weights[edge] for edge in entering), *(weights[edge].T for edge in leaving)])


@compiled
def _descend(moments: Mapping[str, Array], start: State, rate: Array, gaps: Array) -> tuple[State, jax.Array]:
    """Descend `counts` steps after each record. Return the end, and the mean loss at each record, (plans, records)."""

    def one_plan(m: Mapping[str, Array], start: State) -> tuple[State, jax.Array]:
        size = start[0].shape[-1] - m["targets"].shape[0]

        def seen(at: State) -> tuple[Array, Array, Array]:
            blocks, _ = at
            # what all modules do, A_m side by side, (networks, outputs, modules * inputs)
            products = jnp.einsum("smro,smri->somi", blocks[..., size:], blocks[..., :size])
            products = products.reshape(*products.shape[:2], -1)
            return products, products @ m["pairs"], products @ m["inputs"]

        def loss(at: State) -> Array:
            products, through, mean = seen(at)
            apart = jnp.sum(products * (0.5 * through - m["targets"]), axis=(-2, -1))
            return jnp.mean(apart + jnp.sum(at[1] * (mean + 0.5 * at[1] - m["mean"]), axis=-1)) + 0.5 * m["energy"]

        def step(_: Any, at: State) -> State:
            (blocks, offset), (_, through, mean) = at, seen(at)
            error = through - m["targets"] + offset[..., None] * m["inputs"]
            error = error.reshape(*error.shape[:2], -1, size)
            entering = jnp.einsum("somi,smro->smri", error, blocks[..., size:])
            leaving = jnp.einsum("somi,smri->smro", error, blocks[..., :size])
            moved = blocks - rate * jnp.concatenate([entering, leaving], axis=-1)
            return moved, offset - rate * m["biased"] * (mean + offset - m["mean"])

        def to_next(at: State, gap: Any) -> tuple[State, Any]:
            return jax.lax.fori_loop(0, gap, step, at), loss(at)

        return jax.lax.scan(to_next, start, gaps)

    return jax.vmap(one_plan)(moments, start)
