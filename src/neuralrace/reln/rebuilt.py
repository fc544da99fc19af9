"""ReLU networks rebuilt with imposed gates: a sequence of gatings, one for each stretch of time.

A gate that turns on and off all the time, because its neuron sits on its own threshold, acts by the share of time
that it is open. So the gate of a stretch is that share. Weights are carried over from stretch to stretch and never
taken from the ReLU network again: with stretches of one step and a gate for every neuron it would be that network.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.cluster import KMeans

from neuralrace.analysis import Agreement, Line, agreement
from neuralrace.arrays import float64
from neuralrace.errors import ProblemError, RangeError, require_count
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.progress import Meter
from neuralrace.reln.chains import as_relu_run
from neuralrace.reln.recorded import gate_samples, is_full_batch_descent, network_of
from neuralrace.training import Condition, train_together
from neuralrace.training.rules import Descent
from neuralrace.trajectory import Trajectory

RESTARTS = 2  # of k-means, in each stretch
WINDOWS = 160  # in which shares of open time are compared, to see where gates change
MOMENTS = 400  # at which the loss is compared, at most, beside the bounds

Shares = tuple[np.ndarray, ...]  # of open time, per hidden layer, (seeds, neurons, N)


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """Networks of the run's own neurons under imposed gates, from the run's first weights.

    modules: how many each layer has in a stretch; None: every neuron has its own gate. bounds: the steps at which
    stretches begin, and the end. time: (T,), some of the run's. loss: (seeds, T).
    """

    modules: int | None
    bounds: tuple[int, ...]
    time: np.ndarray = field(repr=False)
    loss: np.ndarray = field(repr=False)
    agreement: Agreement

    @property
    def stretches(self) -> int:
        """How many gatings follow each other."""
        return len(self.bounds) - 1


@float64
def rebuild(
    run: Trajectory, modules: int | None = 4, stretches: int = 1, *, key: int = 0, progress: bool = True
) -> Rebuilt:
    """Train the networks of a run once more with gates that are imposed, constant over each stretch.

    run: of ReLU networks by plain gradient descent, with record="gate_patterns", at every step if it is to be near:
    gates may change from step to step. stretches: how many, cut where equal amounts of gating have changed. modules:
    k-means clusters of the neurons of a stretch, whose gate is the mean of their shares of time; None gives every
    neuron its own.
    """
    return trade_off(run, (modules,), (stretches,), key=key, progress=progress)[0]


@float64
def trade_off(
    run: Trajectory,
    modules: Iterable[int | None] = (2, 4, 8, None),
    stretches: Iterable[int] = (1, 2, 8, 32),
    *,
    key: int = 0,
    progress: bool = True,
) -> tuple[Rebuilt, ...]:
    """Rebuild the networks with every number of modules and of stretches: what fidelity costs."""
    run = as_relu_run(run)
    if not is_full_batch_descent(run):
        settings = run.settings
        raise ProblemError(
            f"a run of full-batch gradient descent is required; this one used the rule {settings['rule']['rule']!r} "
            f"with batch_size={settings['batch_size']}: train it with learning_rate alone"
        )
    sizes = [None if size is None else require_count("modules", size) for size in modules]
    lengths = [require_count("stretches", count) for count in stretches]
    network = _linear(run)
    samples = [gate_samples(run, layer) for layer in network.architecture.hidden]
    last = samples[0].shape[1] - 1
    if max(lengths) > last:
        raise RangeError(
            f"stretches must be at most the number of records after the first, {last}; it was {max(lengths)}"
        )
    grown, found = _grown(samples), {}
    for count in dict.fromkeys(lengths):
        bounds = equal_parts(grown, count)
        stretched = itertools.pairwise(bounds)
        shares = [tuple(taken[:, first:last].mean(axis=1) for taken in samples) for first, last in stretched]
        for size in dict.fromkeys(sizes):
            found[size, count] = _rebuilt(run, network, bounds, shares, size, key, progress)
    return tuple(found[size, count] for size in sizes for count in lengths)


def _rebuilt(
    run: Trajectory,
    network: Problem,
    bounds: Sequence[int],
    shares: Sequence[Shares],
    size: int | None,
    key: int,
    progress: bool,
) -> Rebuilt:
    """network: see _linear. shares: of open time, per stretch."""
    if size is not None:  # one gate for all neurons of a module
        shares = [tuple(_clustered(share, size, key) for share in layers) for layers in shares]
    steps, end = run.data["step"].values, bounds[-1]
    moments = np.unique([*bounds, *np.linspace(0, end, min(MOMENTS, end) + 1).astype(int)])
    layers, slope = network.architecture.hidden, network_of(run).slope
    rate = float(run.settings["learning_rate"])
    weights = [run.initial_weights(seed) for seed in range(len(run.loss))]
    losses = []
    with Meter("rebuilding", int(steps[-1]), shown=progress) as meter:
        for gating, (first, last) in zip(shares, itertools.pairwise(bounds), strict=True):
            at = steps[moments[(moments >= first) & (moments <= last)]] - steps[first]
            conditions = []
            for seed, start in enumerate(weights):
                # open for its share; what a leaky neuron lets through when shut, too
                gates = {name: slope + (1 - slope) * share[seed].T for name, share in zip(layers, gating, strict=True)}
                conditions.append(Condition(network.regated(gates), start, Descent(np.asarray(rate)), rate))
            stretch = train_together(conditions, int(at[-1]), at=at, progress=False)
            weights = [one.weights(0) for one in stretch]
            seen = np.concatenate([one.loss for one in stretch])
            losses.append(seen if last == bounds[-1] else seen[:, :-1])  # the next stretch starts where this one ends
            meter.advance(float(at[-1]))
    time, loss = run.time[moments], np.concatenate(losses, axis=1)
    apart = agreement(Line(time, loss), Line(time, run.loss[:, moments]))
    return Rebuilt(size, tuple(int(steps[bound]) for bound in bounds), time, loss, apart)


def table_of(rows: Sequence[Rebuilt]) -> str:
    """The trade-off as text, one row for each way to rebuild."""
    lines = [f"{'modules':>12s} {'stretches':>10s} {'normalized L1':>14s} {'log10 gap':>10s}"]
    for row in rows:
        size = "every neuron" if row.modules is None else str(row.modules)
        apart = row.agreement
        lines.append(f"{size:>12s} {row.stretches:10d} {apart.normalized_l1:14.3f} {apart.log10_gap:10.3f}")
    return "\n".join(lines)


def _grown(samples: Sequence[np.ndarray]) -> np.ndarray:
    """How much the shares of open time have changed up to each record."""
    last = samples[0].shape[1] - 1
    starts = np.unique(np.linspace(0, last, min(WINDOWS, last) + 1).astype(int)[:-1])
    change = np.zeros(len(starts) - 1)
    for taken in samples:
        shares = np.stack([taken[:, a:b].mean(axis=1) for a, b in itertools.pairwise([*starts, last + 1])])
        change += np.abs(np.diff(shares, axis=0)).mean(axis=(1, 2, 3))
    return np.interp(np.arange(last + 1), starts, [0.0, *np.cumsum(change)])


def equal_parts(grown: np.ndarray, parts: int) -> list[int]:
    """The records that bound parts in which as much has grown, at least one record each; grown: at each record."""
    last = len(grown) - 1
    inner = np.searchsorted(grown, np.linspace(0, grown[-1], parts + 1)[1:-1])
    bounds = [0]
    for place, record in enumerate(inner, start=1):
        bounds.append(int(np.clip(record, bounds[-1] + 1, last - (parts - place))))
    return [*bounds, last]


def _clustered(share: np.ndarray, modules: int, key: int) -> np.ndarray:
    """Every neuron's share of open time replaced by the mean of its cluster; share: (seeds, neurons, N)."""
    rows = share.reshape(-1, share.shape[-1])
    distinct = len(np.unique(rows, axis=0))
    means = KMeans(min(modules, distinct), n_init=RESTARTS, random_state=key).fit(rows)
    return np.asarray(means.cluster_centers_[means.labels_].reshape(share.shape))


def _linear(run: Trajectory) -> Problem:
    """The linear network of the same neurons, each with a gate of its own."""
    network = network_of(run)
    layers = zip(network.architecture.hidden, network.hidden, strict=True)
    gates = {layer: np.ones((len(network.task), size)) for layer, size in layers}
    return Problem(network.architecture, network.task, Gates(nodes=gates), biases=network.biases)
