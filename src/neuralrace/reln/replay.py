"""Impose the gates of modules on the networks of a run: as they were trained, or to train them again from the start.

Imposed on trained networks, gates show whether the modules answer alike; in a replay, from the networks' own initial
weights, whether they learn alike. The gates are taken from the run, so both are reconstructions: they describe the run
and predict nothing.

With one hidden layer the examples are seen through moments alone: of pairs of modules, S_mn = <g_m g_n x x^T>, and of
modules with the targets, C_m = <g_m y x^T>. And the neurons of a module are a linear layer: what they span, at most
inputs + outputs directions, is all that ever moves, so that a module of any width is one matrix R, (directions,
inputs + outputs), the triangle of its incoming and outgoing weights side by side. Many gatings are one small
program. With several hidden layers the networks are trained again with a gate for every neuron; a number of modules
whose gates, imposed on the trained networks, reproduce their outputs, is the first that is tried.
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
from neuralrace.training import Condition, Descent, train_together

# A replay within these explains the networks: twice what P2's mixed task, with four modules, is held to.
NEAR_L1, NEAR_LOG = 0.1, 0.3
STRETCHES = (1, 2, 4)
TIERS = ((1, 2, 3, 4), (5, 6, 7, 8), (10, 12))  # numbers of modules that are tried; replays of a tier are one program
DEEP_WORK = 1.2e12  # operations of replays with several hidden layers, each of which takes as long as the training
REPRODUCED = 0.9  # R^2 of the outputs of every trained network on which gates are imposed, at least, to explain them

Gating = dict[str, Modules]  # layer -> its modules
Stretch = tuple[int, int, dict[str, tuple[np.ndarray, np.ndarray]]]  # first, last record; layer -> carried, passed
State = tuple[Array, Array]  # weights of modules, (..., networks, modules, directions, inputs + outputs); output biases


@dataclass(frozen=True, eq=False)
class Replay:
    """Networks under the gates of at most `modules` modules in each layer, in stretches of constant gates.

    gatings: layer -> modules, for each stretch. outputs: (networks, N, outputs), at the end. Of networks that were
    trained again, agreement: the distance of the loss from the run's, see `distance_learned`, and loss: (records,), the
    mean over the networks. Both are None where gates were imposed on the trained networks. fit: then the R^2 of the
    outputs, against those that the networks have without these gates, of the network where it is least.
    """

    modules: int
    stretches: int
    agreement: Agreement | None
    gatings: tuple[Gating, ...] = field(repr=False)
    loss: np.ndarray | None = field(repr=False)
    outputs: np.ndarray = field(repr=False)
    fit: float = float("nan")

    @property
    def explains(self) -> bool:
        """Whether it is within NEAR_L1 and NEAR_LOG of the run; if nothing was trained, whether it is REPRODUCED."""
        return self.fit >= REPRODUCED if self.agreement is None else near(self.agreement)


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
    """The fewest modules that explain, with as few stretches as any that does; the nearest where none does.

    Where networks were trained again, only these are considered.
    """
    rows = [row for row in rows if row.agreement is not None] or rows
    good = [row for row in rows if row.explains]
    if good:
        return min(good, key=lambda row: (row.stretches, row.modules))

    def far(row: Replay) -> float:
        return float(np.nan_to_num(-row.fit if row.agreement is None else row.agreement.normalized_l1, nan=np.inf))

    return min(rows, key=lambda row: (far(row), row.modules))


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
    final: Sequence[Weights],
    samples: Samples,
    run: Any,
    steps: np.ndarray,
    rate: float,
    modules: int | None = None,
    stretches: Sequence[int] = STRETCHES,
    key: int = 0,
) -> tuple[Replay, ...]:
    """Replay networks with more and more modules, until some number explains them.

    initial, final: the weights of each network. samples: see `neuron_samples`. run: the loss to be met, at the times of
    the records; steps: their steps of gradient descent, of size `rate`. modules: this number alone. With several hidden
    layers the first number is the fewest whose gates, imposed on the final networks, reproduce these; others follow as
    far as DEEP_WORK allows.
    """
    graph = network.architecture
    inputs, outputs = (sum(graph.nodes[node] for node in nodes) for nodes in (graph.inputs, graph.outputs))
    if len(graph.hidden) > 1:
        rows = list(impose(network, final, samples, modules, key))
        known = {row.modules: row for row in rows}
        trained: list[Replay] = []
        work = 6.0 * graph.weight_count * len(network.task) * float(steps[-1]) * len(initial)
        for count in dict.fromkeys([fewest(rows).modules, *(itertools.chain(*TIERS) if modules is None else ())]):
            row = known[count] if count in known else impose(network, final, samples, count, key)[0]
            if row.modules in [one.modules for one in trained]:  # there are no more
                continue
            again = train_gated(network, initial, row.gatings[0], steps, rate)
            trained.append(Replay(row.modules, 1, _apart(run, again[0]), row.gatings, *again, fit=row.fit))
            if trained[-1].explains or work * (len(trained) + 1) > DEEP_WORK:
                break
        return *rows, *trained
    cuts, tiers = cut(samples, steps, stretches), TIERS if modules is None else ((modules,),)
    found: dict[tuple[int, int], Replay] = {}
    spent = 0.0
    for tier in tiers:
        spent += 2.0 * (max(tier) * inputs) ** 2 * outputs * len(initial) * float(steps[-1]) * len(tier) * len(cuts)
        if found and (any(row.explains for row in found.values()) or spent > 1.5e12):
            break
        for count, parts in cuts.items():
            plans = [
                [{layer: cluster(*both, size, key) for layer, both in seen.items()} for _, _, seen in parts]
                for size in tier
            ]
            played = play(network, initial, plans, [part[:2] for part in parts], steps, rate, max(tier))
            for plan, (loss, end) in zip(plans, played, strict=True):
                made = _most(plan)
                found.setdefault((made, count), Replay(made, count, _apart(run, loss), tuple(plan), loss, end))
    return tuple(found[numbers] for numbers in sorted(found))


def impose(
    network: Problem,
    final: Sequence[Weights],
    samples: Samples,
    modules: int | None = None,
    key: int = 0,
) -> tuple[Replay, ...]:
    """Impose the gates of more and more modules on trained networks, until these reproduce the outputs of all of them.

    Nothing is trained, and the modules are those of the last record. samples: see `neuron_samples`.
    """
    parts = {layer: (carried[-1], carried[-1] * on[-1]) for layer, (carried, on) in samples.items()}
    own = [side_by_side(network.forward(weights)) for weights in final]
    amount = network.task.weights
    found: dict[int, Replay] = {}
    for count in itertools.chain(*TIERS) if modules is None else (modules,):
        gating = {layer: cluster(*both, count, key) for layer, both in parts.items()}
        gated = [_gated(network, gating, seed).forward(weights) for seed, weights in enumerate(final)]
        ends, fits = np.array([side_by_side(one) for one in gated]), []
        for here, there in zip(own, ends, strict=True):
            spread = amount @ np.sum((here - amount @ here) ** 2, axis=1)
            missed = amount @ np.sum((here - there) ** 2, axis=1)
            fits.append(float(1 - missed / spread) if spread > 0 else float("nan"))
        row = Replay(_most([gating]), 1, None, (gating,), None, ends, float(np.min(fits)))
        found.setdefault(row.modules, row)
        if row.explains:
            break
    return tuple(found.values())


def _most(plan: Sequence[Gating]) -> int:
    """The largest number of modules of a layer; fewer than asked for where there are fewer patterns."""
    return max(len(one) for gating in plan for one in gating.values())


def _apart(run: Any, loss: np.ndarray) -> Agreement:
    return distance_learned(Line(run.time, np.where(np.isfinite(loss), loss, np.inf)), run)


def _gates_of(network: Problem, layer: str, found: Modules) -> np.ndarray:
    """Gates of the neurons of each module, (modules + 1, N); the last row, of zeros, is for those outside all (-1)."""
    kind = network.activations[layer]
    assert isinstance(kind, LeakyReLU)
    return np.vstack([kind.slope + (1 - kind.slope) * found.gates, np.zeros((1, len(network.task)))])


def _gated(network: Problem, gating: Gating, seed: int) -> Problem:
    """Impose the gates of modules on the neurons of one network; neurons outside all modules are off."""
    gates = {layer: _gates_of(network, layer, found)[found.members[seed]].T for layer, found in gating.items()}
    return Problem(network.architecture, network.task, Gates(gates), biases=network.biases)


def train_gated(
    network: Problem, initial: Sequence[Weights], gating: Gating, steps: np.ndarray, rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean loss and last outputs of networks that are trained with a gate for every neuron, all in one program."""
    gated = [_gated(network, gating, seed) for seed in range(len(initial))]
    rule = Descent(np.asarray(rate))
    conditions = [Condition(one, weights, rule, rate) for one, weights in zip(gated, initial, strict=True)]
    runs = train_together(conditions, int(steps[-1]), at=steps.tolist(), progress=False)
    ends = [side_by_side(one.forward(run.weights(0))) for one, run in zip(gated, runs, strict=True)]
    return np.mean([run.loss[0] for run in runs], axis=0), np.array(ends)


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
