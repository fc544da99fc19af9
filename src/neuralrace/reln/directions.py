"""The first drops of the loss as a race of directions, from saddle to saddle.

While all weights are small every neuron grows alone on what is left to learn, r = y - f. A neuron (w, v) of unit
directions grows at the rate G = <r . v relu(w . x)>, its utility, and turns to where that is larger. Neurons that
have come to one direction arrive together, when their strength would do what that direction can do alone; the active
neurons then settle, by the flow, at the next saddle. From there the race goes on, with two kinds of runners: neurons
that still grow alone, and what sets the members of an active direction apart from each other. These deviations
have the gates of their direction, so they race linearly, by the singular values of <g r x^T>.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from neuralrace.activations import LeakyReLU
from neuralrace.arrays import float64
from neuralrace.errors import ProblemError, WeightError, require_count, require_kind, require_number, shortened
from neuralrace.initial import Gaussian, Initializer, as_key
from neuralrace.problem import Problem, side_by_side
from neuralrace.reln.growth import OneLayer
from neuralrace.theory.predict import THEORY_STREAM
from neuralrace.theory.representatives import Spans, drawn_neurons, one_hidden_layer

DRAWN = 1024  # neurons that are followed, at most
TOGETHER = 0.95  # the cosine from which neurons have one direction
LEADERS = 16  # strongest neurons around which directions are looked for
SETTLED = 1e-4  # of the first loss, per growth time of the first drop: active neurons have come to rest
STEP = 0.1  # of the time in which the fastest grows by e
LITTLE = 1e-3  # of the first loss: what is left when all is learned, and what no direction is counted for
LARGE = 1e100  # a neuron that grew so far without an arrival brings too little for one, and so do slower ones


class Drop(NamedTuple):
    """One fall of the loss. time: when it is half done. level: where it ends. rate: at which its direction grew.

    pattern: (N,) of bool, for which examples the direction is on. writes: (outputs,), what it writes, of norm one.
    neurons: how many arrive, or are set apart where split: it came from neurons that were active already.
    """

    time: float
    level: float
    rate: float
    pattern: np.ndarray
    writes: np.ndarray
    neurons: float
    split: bool


class Fall(NamedTuple):
    """Drops that follow each other within the time in which a strength grows by e: one fall of the loss."""

    time: float  # the mean of theirs, each by how far it goes
    start: float
    level: float

    @property
    def middle(self) -> float:
        """The loss half way down."""
        return 0.5 * (self.start + self.level)


@dataclass(frozen=True, eq=False)
class Directions:
    """The drops in order, and the loss before the first."""

    first: float
    drops: tuple[Drop, ...] = field(repr=False)

    @property
    def falls(self) -> tuple[Fall, ...]:
        """The drops, those that cannot be told apart as one."""
        runs: list[list[Drop]] = []
        for drop in self.drops:
            if runs and drop.time - runs[-1][-1].time < 0.5 / runs[-1][0].rate:
                runs[-1].append(drop)
            else:
                runs.append([drop])
        found, start = [], self.first
        for run in runs:
            depths = -np.diff([start, *(drop.level for drop in run)])
            time = float(np.average([drop.time for drop in run], weights=np.maximum(depths, 1e-12 * self.first)))
            found.append(Fall(time, start, run[-1].level))
            start = run[-1].level
        return tuple(found)

    def loss(self, times: Any) -> np.ndarray:
        """The staircase."""
        arrived = np.searchsorted([drop.time for drop in self.drops], np.asarray(times, dtype=float), side="right")
        return np.array([self.first, *(drop.level for drop in self.drops)])[arrived]

    def __str__(self) -> str:
        lines = [f"{'time':>9s} {'loss':>9s} {'rate':>8s} {'neurons':>8s}  on for"]
        for drop in self.drops:
            kind = " (split)" if drop.split else ""
            on = f"{int(drop.pattern.sum())} of {len(drop.pattern)} examples{kind}"
            lines.append(f"{drop.time:9.3g} {drop.level:9.4g} {drop.rate:8.3g} {drop.neurons:8.0f}  {on}")
        return "\n".join(lines)


def directions(
    network: Problem, initial: Initializer, *, end: float | None = None, most: int = 8, key: Any = None
) -> Directions:
    """Foresee the first drops of the loss of a network with one hidden layer from small first weights.

    Nothing is trained. initial: a Gaussian law; first scale and number of neurons come from it, by a stream that no
    training has. end: the time at which the race is stopped; when nothing is left to learn if not given. most: drops.
    """
    limit = np.inf if end is None else require_number("end", end, above=0)
    count, race = require_count("most", most), _race(network, initial, key)
    first = race.loss
    drops: list[Drop] = []
    while len(drops) < count and race.loss > LITTLE * first:
        drop = race.next(limit)
        if drop is None:
            break
        drops.append(drop)
    return Directions(first, tuple(drops))


@float64
def _race(network: Problem, initial: Initializer, key: Any) -> "_NeuronRace":
    """Neurons of one draw from the law, at the start."""
    require_kind("network", network, Problem, ProblemError)
    assumed = one_hidden_layer(network)
    if not assumed.holds or network.biases:
        found = "it has biases: give the task a constant input" if network.biases else assumed.detail
        raise ProblemError(f"one rectified hidden layer without biases is required; {found}")
    if not isinstance(initial, Gaussian):
        raise WeightError(f"a Gaussian law of first weights is required; it was {shortened(initial)}")
    spans, kind = Spans.of(network), network.activations[network.architecture.hidden[0]]
    width = network.architecture.nodes[spans.hidden]
    count = min(width, DRAWN)
    stream = jax.random.fold_in(as_key(0 if key is None else key), THEORY_STREAM)
    neurons = spans.neurons(drawn_neurons(spans, initial, count, width, stream))
    task = spans.network(count).task
    inputs, targets = (side_by_side(rows) for rows in (task.inputs, task.targets))
    layer = OneLayer(inputs, targets, task.weights, kind.slope if isinstance(kind, LeakyReLU) else 1.0)
    return _NeuronRace(layer, neurons, spans, width / count)


class _NeuronRace:
    """The state of the race: neurons that grow alone, active ones, and the deviations of these ones' members."""

    def __init__(self, layer: OneLayer, neurons: np.ndarray, spans: Spans, each: float) -> None:
        self.layer, self.alone, self.spans, self.each = layer, neurons, spans, each
        self.rate = 0.0  # of the first drop, by which time is measured
        self.active = np.zeros((0, neurons.shape[1]))
        self.deviations: list[np.ndarray] = []  # of the members of each active neuron
        self.time = 0.0
        self.first = self.loss

    @property
    def loss(self) -> float:
        """Of the active neurons."""
        return self.layer.loss(self.active)

    def next(self, end: float) -> Drop | None:
        """Run to the next arrival and settle; None if none comes before the end."""
        residual = self.layer.residual(self.active)
        splits = [self._split(place, residual) for place in range(len(self.active))]
        split, left = min(splits, key=lambda one: one.wait, default=None), end - self.time
        arrival = self._grow_alone(residual, left if split is None else min(left, split.wait))
        next_one = split if arrival is None else arrival
        if next_one is None or next_one.wait > left or not np.isfinite(next_one.wait):
            return None
        elapsed = next_one.wait
        self.time += elapsed
        for place, gate in enumerate(self.layer.gates(self.active)):
            correlation = self.layer.correlation(gate, residual)
            self.deviations[place] = _grown(self.deviations[place], correlation, elapsed)
        drop = self._divide(next_one) if isinstance(next_one, _Split) else self._join(next_one)
        self.rate = self.rate or drop.rate
        self.active = self.layer.settle(self.active, self.rate, SETTLED * self.first)
        return drop._replace(level=self.loss)

    def _split(self, place: int, residual: np.ndarray) -> "_Split":
        """The deviations within one active direction that would arrive first: a linear race under its gates."""
        layer, gates = self.layer, self.layer.gates(self.active)
        gate, alike = gates[place], np.flatnonzero((gates == gates[place]).all(axis=1))
        rows = np.vstack([self.deviations[other] for other in alike])  # under the same gates what they carry adds up
        left, values, right = np.linalg.svd(layer.correlation(gate, residual), full_matrices=False)
        units = np.hstack([right, left.T]) / np.sqrt(2)
        strength = 0.5 * ((rows @ units.T) ** 2).sum(axis=0)
        size = layer.weights @ (gate[:, None] * (layer.inputs @ right.T)) ** 2
        runs = (strength > 0) & (0.5 * values**2 > LITTLE * self.first * size)
        if not runs.any():
            return _Split(place, alike, np.inf, 0.0, units[0], 0.0)
        values, units, best = values[runs], units[runs], values[runs] / size[runs]
        waits = np.maximum(np.log(best / strength[runs]), 0.0) / (2 * values)
        first = int(np.argmin(waits))
        return _Split(place, alike, float(waits[first]), float(values[first]), units[first], float(best[first]))

    def _grow_alone(self, residual: np.ndarray, until: float) -> "_Arrival | None":
        """Let neurons grow on what is left until some arrive, or for so long."""
        waited = 0.0
        while len(self.alone) and waited < until:
            rates, _ = self.layer.rates(self.alone, residual)
            fastest = float(rates.max())
            if fastest <= 0 or np.abs(self.alone).max() > LARGE:
                break
            arrival = self._front(residual)
            if arrival is not None:
                return arrival._replace(wait=max(waited + arrival.wait, 0.0))
            step = min(STEP / fastest, until - waited)
            self.alone = self.layer.alone(self.alone, residual, step)
            waited += step
        return None

    def _front(self, residual: np.ndarray) -> "_Arrival | None":
        """The neurons of one direction whose strength serves it best or more; wait: since when, not positive."""
        enters, leaves = self.layer.enters(self.alone), self.layer.leaves(self.alone)
        norms = np.linalg.norm(enters, axis=1), np.linalg.norm(leaves, axis=1)
        units = np.hstack([enters / norms[0][:, None], leaves / norms[1][:, None]]) / np.sqrt(2)
        leaders = np.argsort(-norms[0] * norms[1])[:LEADERS]
        rates, best = self.layer.rates(self.alone[leaders], residual)
        gates = self.layer.gates(self.alone)
        alike = (gates[leaders][:, None] == gates).all(axis=-1)  # under the same gates what they carry adds up
        members = alike | (units[leaders] @ units.T > TOGETHER)
        strength = 0.5 * (members * (units[leaders] @ self.alone.T) ** 2).sum(axis=1)
        counts = (rates > 0) & (0.5 * rates * best > LITTLE * self.first)
        ratio = np.divide(strength, best, out=np.zeros(len(leaders)), where=counts)
        first = int(np.argmax(ratio))
        if ratio[first] < 1:
            return None
        since = -float(np.log(ratio[first])) / (2 * float(rates[first]))
        return _Arrival(since, float(rates[first]), members[first], units[leaders[first]][None], float(best[first]))

    def _join(self, arrival: "_Arrival") -> Drop:
        """Those that arrived become one active neuron, at half of its strength, and what sets them apart."""
        rows = self.alone[arrival.members]
        main = np.linalg.svd(rows, full_matrices=False)[2][:1]
        main *= np.sign(np.sum(main * arrival.unit))
        halves = self.layer.enters(main), self.layer.leaves(main)
        unit = np.hstack([half / np.linalg.norm(half) for half in halves]) / np.sqrt(2)
        self.active = np.vstack([self.active, np.sqrt(arrival.best) * unit])
        self.deviations.append(rows - (rows @ unit.T) * unit)
        self.alone = self.alone[~arrival.members]
        return self._drop(unit, unit, arrival.rate, len(rows), False)

    def _divide(self, split: "_Split") -> Drop:
        """An active neuron becomes two, to both sides of a deviation; each member goes to its side."""
        old, aside = self.active[split.place], np.sqrt(split.best) * split.unit
        self.active = np.vstack([self.active, (old - aside)[None] / np.sqrt(2)])
        self.active[split.place] = (old + aside) / np.sqrt(2)
        plus = self.deviations[split.place] @ split.unit > 0
        for place in split.alike:
            rows = self.deviations[place]
            self.deviations[place] = rows - (rows @ split.unit)[:, None] * split.unit
        rest = self.deviations[split.place]
        self.deviations[split.place] = rest[plus]
        self.deviations.append(rest[~plus])
        return self._drop(old[None], split.unit[None], split.rate, len(rest), True)

    def _drop(self, gating: np.ndarray, unit: np.ndarray, rate: float, members: int, split: bool) -> Drop:
        pattern = self.layer.enters(gating)[0] @ self.layer.inputs.T > 0
        left = self.spans.lift(self.spans.weights(unit, {}))
        outgoing = self.spans.problem.architecture.outgoing[self.spans.hidden]
        writes = np.vstack([left[edge] for edge in outgoing])[:, 0]
        return Drop(self.time, self.loss, rate, pattern, writes / np.linalg.norm(writes), self.each * members, split)


class _Split(NamedTuple):
    """Deviations of the members of an active neuron; best: the strength that serves their direction best."""

    place: int
    alike: np.ndarray  # the active neurons of the same gates, whose members take part
    wait: float
    rate: float
    unit: np.ndarray
    best: float


class _Arrival(NamedTuple):
    """Neurons that grew alone; members: (neurons,) of bool."""

    wait: float
    rate: float
    members: np.ndarray
    unit: np.ndarray
    best: float


def _grown(rows: np.ndarray, correlation: np.ndarray, time: float) -> np.ndarray:
    """Deviations a time later: dw/dt = C^T v, dv/dt = C w, exactly."""
    left, values, right = np.linalg.svd(correlation, full_matrices=False)
    inputs = right.shape[1]
    enters, leaves = rows[:, :inputs] @ right.T, rows[:, inputs:] @ left
    more, less = np.cosh(values * time), np.sinh(values * time)
    moved = enters * (more - 1) + leaves * less, leaves * (more - 1) + enters * less
    return np.asarray(rows + np.hstack([moved[0] @ right, moved[1] @ left.T]))
