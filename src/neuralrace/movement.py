"""What moved the weights of a training that is known from checkpoints alone: its pace, and the direction it took.

The pace is the learning rate whose steps of descent lead from each checkpoint to the next. Where no learning rate does,
the movement is compared with the directions that other losses, activations and optimizers would have taken.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize_scalar

from neuralrace._engine.network import (
    Network,
    as_numpy,
    compiled_descent,
    compiled_slope,
    cross_entropies,
    half_squares,
)
from neuralrace.arrays import float64
from neuralrace.axes import Edge
from neuralrace.errors import WeightError
from neuralrace.problem import Problem, side_by_side

ALONG = 0.9  # the cosine with descent of a training that went down the gradient, at least
SPANS = 20  # stretches between checkpoints whose directions are compared, about
LONGER = 6  # stretches along which descent is followed: over longer ones the noise of batches averages out
WORK = 1e10  # floating-point operations of descent along these, about
FINER = 10  # steps for one where the pace is too fast for plain descent
CLEARLY = 0.05  # a direction that explains more must be closer by this


def cross_entropies_or_logistic(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """The cross-entropy of each row; a single output is the logit of one class against the other."""
    if targets.shape[-1] == 1:
        return jnp.sum(jnp.logaddexp(0.0, outputs) - targets * outputs, axis=-1)
    return cross_entropies(outputs, targets)


ROWS = {"squared": half_squares, "cross-entropy": cross_entropies_or_logistic}
Sets = Sequence[Sequence[Mapping[Edge, np.ndarray]]]  # of each network, the weights at each checkpoint


class Pace(NamedTuple):
    """The learning rate of a training, the cosine of its movement with descent, and the steps of descent for each."""

    learning_rate: float
    cosine: float
    small_steps: int = 1


class Direction(NamedTuple):
    """What a training descended: a loss, of neurons with an activation, and a sentence that says how it was found."""

    loss: str
    activation: str
    sentence: str


class _Spans(NamedTuple):
    """Stretches between checkpoints: weights at the start, steps, and the movement, (spans, weights), and its size."""

    starts: Sequence[Mapping[Edge, np.ndarray]]
    counts: np.ndarray
    moved: np.ndarray
    lengths: np.ndarray


@float64
def loss_at(problem: Problem, weights: Mapping[Edge, np.ndarray], loss: str = "squared") -> float:
    """The mean loss over the examples, by its name."""
    network = problem.examples_apart
    return float(compiled_slope(network, network.stack(weights), ROWS[loss])[0])


@float64
def estimate_pace(problem: Problem, steps: Sequence[int], sets: Sets) -> Pace:
    """Find the learning rate whose steps lead from one checkpoint to the next, for all networks together.

    The gradients at both ends of stretches between checkpoints give a first estimate, and descent along longer ones the
    rate that misses their ends least, each miss relative to the movement there. Over long stretches the noise of
    batches averages out. Momentum m moves like a learning rate 1 / (1 - m) times as large; where plain steps of that
    size diverge, FINER small ones take the place of each.
    """
    places, spans = _spans(problem, steps, sets, SPANS // len(sets) + 1)
    if not spans.lengths.any():
        raise WeightError("the weights must move between checkpoints; these are the same at every step")
    network = problem.network
    slope = _halfway([[-_slope(problem, network, sets[s][i], "squared") for i in p] for s, p in places])
    along, size = np.sum(slope * spans.moved, axis=1), np.sum(slope**2, axis=1)
    moving = (size > 0) & (spans.lengths > 0)
    cosine = _cosine(slope, spans)
    if cosine < 0.1:
        return Pace(0.0, cosine)
    paces, weight = (along / np.where(moving, size * spans.counts, 1.0))[moving], spans.lengths[moving]
    order = np.argsort(paces)
    middle = paces[order][np.searchsorted(np.cumsum(weight[order]), 0.5 * weight.sum())]
    guess, small_steps = float(np.clip(middle, 1e-12, 1e12)), 1
    spans = _spans(problem, steps, sets, LONGER)[1]
    chosen = _affordable(problem, spans, small_steps)
    if not _stays(_went(problem, spans, chosen, guess, small_steps), spans.lengths[chosen]):
        small_steps = FINER
        chosen = _affordable(problem, spans, small_steps)
    moved, lengths = spans.moved[chosen], spans.lengths[chosen]

    def missed(log_rate: float) -> float:
        each = np.linalg.norm(_went(problem, spans, chosen, np.exp(log_rate), small_steps) - moved, axis=1) / lengths
        return float(lengths @ np.minimum(each, 2.0) ** 2)  # a descent that diverges misses by no more

    reach = np.log(guess) - 2.5, np.log(guess) + 2.5
    best = minimize_scalar(missed, bounds=reach, method="bounded", options={"xatol": 2e-4, "maxiter": 30})
    ways = _went(problem, spans, chosen, rate := float(np.exp(best.x)), small_steps)
    if not _stays(ways, lengths):
        return Pace(rate, 0.0, small_steps)
    squares = np.sum(ways**2, axis=1) / lengths
    together = np.sum(np.sum(ways * moved, axis=1) / lengths) / np.sqrt(squares.sum() * lengths.sum())
    return Pace(rate, float(together), small_steps)


def _affordable(problem: Problem, spans: _Spans, small_steps: int) -> np.ndarray:
    """Choose stretches evenly, of those with movement, as many as WORK allows to descend along."""
    operations = 6.0 * len(problem.task) * problem.architecture.weight_count * small_steps
    moving = np.flatnonzero(spans.lengths > 0)
    most = int(np.clip(WORK / (operations * spans.counts[moving].mean()), 1, len(moving)))
    return moving[np.unique(np.linspace(0, len(moving) - 1, most).astype(int))]


def _went(problem: Problem, spans: _Spans, chosen: np.ndarray, rate: float, small_steps: int) -> np.ndarray:
    """How far descent goes from the start of some stretches, in as many steps, (chosen, weights)."""
    network, ways = problem.network, []
    for place in chosen:
        start, count = spans.starts[place], np.asarray(spans.counts[place] * small_steps)
        ended = compiled_descent(network, network.stack(start), np.asarray(rate / small_steps), count)
        ways.append(_flat(problem, network.unstack(as_numpy(ended))) - _flat(problem, start))
    return np.clip(np.nan_to_num(np.array(ways), nan=1e30), -1e30, 1e30)


def _stays(ways: np.ndarray, lengths: np.ndarray) -> bool:
    """Whether descent did not diverge."""
    return bool((np.linalg.norm(ways, axis=1) <= 100 * lengths).all())


@float64
def find_direction(problem: Problem, steps: Sequence[int], sets: Sets, pace: Pace) -> Direction:
    """Compare the movement between checkpoints with directions that it may have taken, and name the closest.

    These are the gradients of the squared error and, of classes, the cross-entropy, of ReLU and of tanh neurons; their
    signs, which an optimizer such as Adam follows; and each with weight decay.
    """
    places, spans = _spans(problem, steps, sets, SPANS // len(sets) + 1)
    targets = side_by_side(problem.task.targets)
    classes = np.isin(targets, (0, 1)).all() and (targets.shape[1] == 1 or (targets.sum(axis=1) == 1).all())
    losses = ("squared", "cross-entropy") if classes else ("squared",)
    shrink = _halfway([[-_flat(problem, sets[s][i]) for i in p] for s, p in places])
    found: list[tuple[float, str, str, str]] = []  # cosine, loss, activation, words
    for activation, loss in itertools.product(("ReLU", "tanh"), losses):
        network = problem.examples_apart
        if activation == "tanh":
            network = replace(network, activations=tuple((node, jnp.tanh) for node, _ in network.activations))
        ends = [[-_slope(problem, network, sets[s][i], loss) for i in p] for s, p in places]
        name = "squared error" if loss == "squared" else loss
        of = f"the gradient of the {name}" + (" of tanh neurons" if activation == "tanh" else "")
        slope = _halfway(ends)
        plain = _cosine(slope, spans)
        signs = _cosine(_halfway([[np.sign(one) for one in own] for own in ends]), spans)
        decayed, decay = _with_decay(slope, shrink, spans)
        found.append((plain, loss, activation, f"{of} (cosine {plain:.2f})"))
        words = f"the sign of {of} (cosine {signs:.2f}), as with Adam and other optimizers that scale each entry"
        found.append((signs - CLEARLY, loss, activation, words))
        words = f"{of} and to smaller weights (cosine {decayed:.2f}), as with weight decay of about {decay:.2g}"
        found.append((decayed - CLEARLY, loss, activation, words))
    cosine, loss, activation, words = max(found)
    if cosine < 0.4:  # of unknown losses the one that fell most

        def left(kind: str) -> float:
            first, last = (sum(loss_at(problem, own[place], kind) for own in sets) for place in (0, -1))
            return last / max(first, np.finfo(float).tiny)

        return Direction(
            min(losses, key=left),
            "ReLU",
            f"no direction that was tried comes near; the closest is {words}. Layers of normalization, dropout, "
            "another loss or activation, or other examples or another order of the inputs than here may be the cause",
        )
    if (loss, activation) == ("squared", "ReLU") and cosine == found[0][0]:
        likely = "small batches, momentum, an adaptive optimizer, a schedule or distant checkpoints are likely causes"
        if pace.small_steps > 1:
            likely = f"momentum is a likely cause, since plain descent diverges at the pace, {pace.learning_rate:.2g}"
        words += f": {likely}"
    return Direction(loss, activation, f"the closest that was tried is {words}")


def _with_decay(slope: np.ndarray, shrink: np.ndarray, spans: _Spans) -> tuple[float, float]:
    """The cosine of the best sum of a direction and weight decay, and the decay: the median over the stretches."""
    ways, decays = np.array(slope), np.zeros(len(slope))
    for place, moved in enumerate(spans.moved):
        both = np.stack([slope[place], shrink[place]], axis=1)
        one, other = np.linalg.lstsq(both, moved, rcond=None)[0]
        if one > 0 and other > 0:
            ways[place], decays[place] = both @ (one, other), other / one
    return _cosine(ways, spans), float(np.median(decays))


def _spans(
    problem: Problem, steps: Sequence[int], sets: Sets, most: int
) -> tuple[list[tuple[int, np.ndarray]], _Spans]:
    """Choose checkpoints, with equal ways between them: for each network which, and the stretches between them."""
    every = np.array([[_flat(problem, one) for one in own] for own in sets])
    way = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(every, axis=1), axis=2).mean(axis=0)))
    chosen = np.unique(np.searchsorted(way, np.linspace(0, way[-1], most + 1)[:-1]))
    chosen = np.union1d(chosen, len(steps) - 1)
    places = [(network, chosen) for network in range(len(sets))]
    moved = np.diff(every[:, chosen], axis=1).reshape(-1, every.shape[-1])
    counts = np.tile(np.diff(np.asarray(steps)[chosen]), len(sets))
    starts = [own[i] for own in sets for i in chosen[:-1]]
    return places, _Spans(starts, counts, moved, np.linalg.norm(moved, axis=1))


def _halfway(ends: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """The mean of a direction at both ends of every stretch, (spans, weights)."""
    each = np.array(ends)
    return np.asarray(0.5 * (each[:, 1:] + each[:, :-1])).reshape(-1, each.shape[-1])


def _cosine(ways: np.ndarray, spans: _Spans) -> float:
    """The mean cosine with the movement, of stretches that count by their lengths."""
    sizes = np.linalg.norm(ways, axis=1) * spans.lengths
    each = np.sum(ways * spans.moved, axis=1) / np.where(sizes > 0, sizes, 1.0)
    return float(each @ spans.lengths / max(spans.lengths.sum(), np.finfo(float).tiny))


def _slope(problem: Problem, network: Network, weights: Mapping[Edge, np.ndarray], loss: str) -> np.ndarray:
    slope = compiled_slope(network, network.stack(weights), ROWS[loss])[1]
    return _flat(problem, network.unstack(as_numpy(slope)))


def _flat(problem: Problem, by_edge: Mapping[Edge, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(by_edge[edge]) for edge in problem.architecture.parameters])
