"""Many trainings at once: trials that differ in numbers only are one compiled program.

`nr.train` compiles a program for each problem; a map of hundreds of conditions on networks this small would spend all
its time on that. The tests hold the two together, output by output.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray

from neuralrace.errors import RangeError, require_count
from neuralrace.precision import float64
from neuralrace.progress import Meter
from neuralrace.views import trial as conditions
from neuralrace.views.trial import Trial, draw_weights, lone_rows

Layers = list[jax.Array]
THREADS = 2  # programs that run side by side


class _Numbers(NamedTuple):
    """What may differ between trials of one program; one entry per trial and seed."""

    inputs: Any  # (rows, pathways, inputs)
    targets: Any  # (rows, K)
    weights: Any  # (rows,)
    entropy: Any  # whether the loss is cross-entropy
    step: Any
    momentum: Any
    competition: Any


class _Kind(NamedTuple):
    """What a program is compiled for."""

    network: str
    depth: int
    classes: int
    views: int
    hidden: int
    rule: str  # flow, mini-batch, or descent, which momentum is a case of
    batch: int
    competes: bool


@float64
def sweep(trials: Sequence[Trial], steps: int, seeds: int = 1, looks: Sequence[int] | None = None) -> xarray.Dataset:
    """Train every trial from every seed and look at the given steps, by default at the start and at the end.

    responses: to each view alone, the output of its class less the mean of the others, (trial, seed, look, class,
    view). strengths: the length of the whole output to a view alone, P3's s_ym. outputs: of every row at the end,
    (trial, seed, row, class). loss: without the competition. time: learning_rate * step, (trial, look).
    """
    total, count = require_count("steps", steps), require_count("seeds", seeds)
    at = np.unique([0, total] if looks is None else np.asarray(looks, dtype=int))
    if not trials or not len(at) or at[0] < 0 or at[-1] > total:
        raise RangeError(
            f"at least one trial is required, and looks between 0 and {total}; {len(trials)} trials, {at} came"
        )
    if len({(t.classes, t.views) for t in trials}) > 1:
        raise RangeError("all trials of one sweep must have the same number of classes and views; sweep them apart")
    groups: dict[_Kind, list[int]] = {}
    for number, trial in enumerate(trials):
        groups.setdefault(_kind(trial), []).append(number)
    found: list[Any] = [None] * len(trials)
    with Meter("views", len(trials)) as meter, ThreadPoolExecutor(THREADS) as pool:
        marks = np.append(at, total)
        jobs = {
            kind: pool.submit(_run_group, kind, [trials[i] for i in members], count, marks)
            for kind, members in groups.items()
        }
        for kind, members in groups.items():
            results = jobs[kind].result()
            for place, number in enumerate(members):
                found[number] = [part[place * count : (place + 1) * count] for part in results]
            meter.advance(len(members))
    responses, strengths, loss, outputs = (np.stack(part) for part in zip(*found, strict=True))
    seen = len(at)
    return xarray.Dataset(
        {
            "responses": (("trial", "seed", "look", "class", "view"), responses[:, :, :seen]),
            "strengths": (("trial", "seed", "look", "class", "view"), strengths[:, :, :seen]),
            "loss": (("trial", "seed", "look"), loss[:, :, :seen]),
            "outputs": (("trial", "seed", "row", "class"), outputs),
            "time": (("trial", "look"), np.array([[t.learning_rate * step for step in at] for t in trials])),
        }
    )


def _kind(t: Trial) -> _Kind:
    rule = "descent" if t.rule == "momentum" else t.rule
    batch = t.batch if rule == "mini-batch" else 0
    return _Kind(t.network, t.depth, t.classes, t.views, t.hidden, rule, batch, t.competition > 0)


@float64  # a thread of its own has its own precision
def _run_group(kind: _Kind, trials: list[Trial], seeds: int, marks: np.ndarray) -> list[np.ndarray]:
    """Responses, strengths, loss at the marks and the final outputs of trials of one kind, seeds fastest."""
    drawn = [draw_weights(trial, seed) for trial in trials for seed in range(seeds)]
    start = [np.stack(layer) for layer in zip(*drawn, strict=True)]
    heavy = [t.momentum if t.rule == "momentum" else 0.0 for t in trials]
    per_trial = _Numbers(
        inputs=[conditions.inputs(t) for t in trials],
        targets=[conditions.targets(t) for t in trials],
        weights=[conditions.weights(t) for t in trials],
        entropy=[t.loss == "cross-entropy" for t in trials],
        step=[t.learning_rate * (1 - mu) for t, mu in zip(trials, heavy, strict=True)],
        momentum=heavy,
        competition=[t.competition for t in trials],
    )
    numbers = _Numbers(*(np.repeat(np.array(part), seeds, axis=0) for part in per_trial))
    streams = np.tile(np.arange(seeds), len(trials))
    seen = _program(kind)(start, numbers, streams, np.diff(marks, prepend=0))
    return [np.asarray(part) for part in seen]


def forward(kind: Any, layers: Layers, given: jax.Array) -> jax.Array:
    """Outputs (rows, K) from inputs (rows, pathways, inputs); a gated pathway that is closed has inputs of zero."""
    if kind.network == "gated":
        product = layers[0]
        for layer in layers[1:]:
            product = layer @ product
        return jnp.einsum("mik,nmk->ni", product, given)
    activity = given[:, 0]
    for layer in layers[:-1]:
        activity = jax.nn.relu(activity @ layer[0].T)
    return activity @ layers[-1][0].T


def contrast(outputs: jax.Array, classes: int, views: int) -> jax.Array:
    """The output for the class less the mean of the others, for each view alone, (K, M)."""
    alone = outputs[lone_rows(classes, views)]
    right = jnp.einsum("kmk->km", alone)
    return (classes * right - alone.sum(axis=-1)) / (classes - 1)


def _task_loss(outputs: jax.Array, numbers: _Numbers, weights: jax.Array) -> jax.Array:
    squared = 0.5 * jnp.sum((outputs - numbers.targets) ** 2, axis=-1)
    entropy = -jnp.sum(numbers.targets * jax.nn.log_softmax(outputs), axis=-1)
    return weights @ jnp.where(numbers.entropy, entropy, squared)


def _objective(kind: _Kind, layers: Layers, numbers: _Numbers, weights: jax.Array) -> jax.Array:
    outputs = forward(kind, layers, numbers.inputs)
    loss = _task_loss(outputs, numbers, weights)
    if not kind.competes:
        return loss
    squares = contrast(outputs, kind.classes, kind.views) ** 2
    pairs = 0.5 * (squares.sum(axis=1) ** 2 - (squares**2).sum(axis=1))
    return loss + numbers.competition * pairs.sum() / kind.classes


def _program(kind: _Kind) -> Callable[..., Any]:
    gradient = jax.grad(lambda layers, numbers, weights: _objective(kind, layers, numbers, weights))
    one = {"flow": _flow_step, "mini-batch": _batch_step(kind.batch), "descent": _descent_step}[kind.rule]

    def look(layers: Layers, numbers: _Numbers) -> tuple[jax.Array, jax.Array, jax.Array]:
        outputs = forward(kind, layers, numbers.inputs)
        strengths = jnp.linalg.norm(outputs[lone_rows(kind.classes, kind.views)], axis=-1)
        return contrast(outputs, kind.classes, kind.views), strengths, _task_loss(outputs, numbers, numbers.weights)

    def train(layers: Layers, numbers: _Numbers, stream: jax.Array, gaps: jax.Array) -> Any:
        key = jax.random.key(stream) if kind.rule == "mini-batch" else stream

        def to_mark(state: Any, gap: jax.Array) -> tuple[Any, Any]:
            state = jax.lax.fori_loop(0, gap, lambda _, s: one(gradient, s, numbers, key), state)
            return state, look(state[0], numbers)

        still = jax.tree.map(jnp.zeros_like, layers)
        (final, _, _), seen = jax.lax.scan(to_mark, (layers, still, jnp.asarray(0)), gaps)
        return *seen, forward(kind, final, numbers.inputs)

    return jax.jit(jax.vmap(train, (0, 0, 0, None)))


def _moved(layers: Layers, step: Any, slopes: Layers) -> Layers:
    return [w - step * g for w, g in zip(layers, slopes, strict=True)]


def _descent_step(gradient: Any, state: Any, numbers: _Numbers, key: jax.Array) -> Any:
    layers, velocity, number = state
    slopes = gradient(layers, numbers, numbers.weights)
    velocity = [numbers.momentum * v + g for v, g in zip(velocity, slopes, strict=True)]
    return _moved(layers, numbers.step, velocity), velocity, number + 1


def _flow_step(gradient: Any, state: Any, numbers: _Numbers, key: jax.Array) -> Any:
    layers, velocity, number = state
    k1 = gradient(layers, numbers, numbers.weights)
    k2 = gradient(_moved(layers, numbers.step / 2, k1), numbers, numbers.weights)
    k3 = gradient(_moved(layers, numbers.step / 2, k2), numbers, numbers.weights)
    k4 = gradient(_moved(layers, numbers.step, k3), numbers, numbers.weights)
    slopes = [(a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)]
    return _moved(layers, numbers.step, slopes), velocity, number + 1


def _batch_step(batch: int) -> Callable[[Any, Any, _Numbers, jax.Array], Any]:
    def step(gradient: Any, state: Any, numbers: _Numbers, key: jax.Array) -> Any:
        layers, velocity, number = state
        chances = jax.random.uniform(jax.random.fold_in(key, number), (batch,), dtype=jnp.float32)
        limits = jnp.cumsum(numbers.weights).astype(jnp.float32)
        drawn = jnp.minimum(jnp.searchsorted(limits, chances, side="right"), len(limits) - 1)
        sample = jnp.zeros_like(numbers.weights).at[drawn].add(1.0 / batch)
        return _moved(layers, numbers.step, gradient(layers, numbers, sample)), velocity, number + 1

    return step
