"""Many small trainings on views at once: conditions in, a dataset out.

Conditions that differ in numbers only are one compiled program; a map of hundreds of them would otherwise spend its
time on compiling. The tests hold it against `nr.train`, output by output.
"""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray

from neuralrace.errors import RangeError, UnknownNameError, nearest, require_count, require_number
from neuralrace.precision import float64
from neuralrace.progress import Meter

Layers = list[jax.Array]
THREADS = 2  # programs that run side by side
NETWORKS = ("gated", "relu")
LOSSES = ("squared", "cross-entropy")
RULES = ("flow", "descent", "mini-batch", "momentum")


@dataclass(frozen=True, eq=False)
class Conditions:
    """A network, its data and how it is trained; seeds are the caller's.

    network: "gated", a pathway per view with weights of its own, or "relu", one network that reads all inputs. hidden:
    neurons per layer of a pathway, or of the ReLU network. probability: the chance of every view, 1 for all of them
    always. scale: the spread of initial weights times sqrt(hidden). rule: "flow" (fourth-order Runge-Kutta, the step of
    descent), "descent", "mini-batch" (`batch` examples drawn anew for each step) or "momentum" (heavy ball, its step
    times 1 - momentum, so that time runs alike; full batch). competition: lambda of the penalty lambda/K sum over
    classes and pairs of views of r_m^2 r_n^2, r the response to a lone view. targets: soft targets in place of the
    classes, (rows, K), in the order of `rows`.
    """

    network: str = "gated"
    depth: int = 2
    classes: int = 3
    views: int = 3
    hidden: int = 8
    probability: float = 1.0
    sizes: tuple[float, ...] = ()
    scale: float = 0.1
    loss: str = "squared"
    rule: str = "descent"
    learning_rate: float = 0.5
    momentum: float = 0.9
    batch: int = 16
    competition: float = 0.0
    targets: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, known in (("network", NETWORKS), ("loss", LOSSES), ("rule", RULES)):
            value = getattr(self, name)
            if value not in known:
                raise UnknownNameError(
                    f"{name} must be one of {', '.join(known)}; {value!r} came; {nearest(value, known)}"
                )
        for name, least in (("depth", 2), ("classes", 2), ("views", 2), ("hidden", 1), ("batch", 1)):
            require_count(name, getattr(self, name), least=least)
        require_number("probability", self.probability, above=0, most=1)
        require_number("scale", self.scale, above=0)
        require_number("learning_rate", self.learning_rate, above=0)
        require_number("competition", self.competition, least=0)
        if not 0 <= self.momentum < 1:
            raise RangeError(f"momentum must be at least 0 and below 1; it was {self.momentum:g}")
        if len(self.sizes) not in (0, self.views):
            raise RangeError(f"sizes must have one number per view, {self.views}; it has {len(self.sizes)}")


def rows(classes: int, views: int) -> tuple[np.ndarray, np.ndarray]:
    """The class and the present views of every row that can occur: all classes for each set of views."""
    sets = np.array(list(itertools.product((1.0, 0.0), repeat=views)))
    return np.tile(np.arange(classes), len(sets)), np.repeat(sets, classes, axis=0)


def lone_rows(classes: int, views: int) -> np.ndarray:
    """The row in which class k shows view m and no other, (K, M)."""
    labels, present = rows(classes, views)
    found = np.zeros((classes, views), dtype=int)
    for row in np.flatnonzero(present.sum(axis=1) == 1):
        found[labels[row], int(present[row].argmax())] = row
    return found


def draw_weights(given: Conditions, seed: int) -> list[np.ndarray]:
    """(pathways, target, source) of every layer: normal with standard deviation scale / sqrt(hidden).

    A seed draws the same at any scale.
    """
    gated = given.network == "gated"
    enter = given.classes * (1 if gated else given.views)
    sizes = [enter, *[given.hidden] * (given.depth - 1), given.classes]
    random, std = np.random.default_rng(seed), given.scale / np.sqrt(given.hidden)
    paths = given.views if gated else 1
    return [std * random.standard_normal((paths, into, out)) for out, into in itertools.pairwise(sizes)]


@float64
def train_views(conditions: Sequence[Conditions], steps: int, seeds: int, looks: Sequence[int]) -> xarray.Dataset:
    """Train under all conditions from every seed and look at the given steps.

    responses: to each view alone, the output of its class less the mean of the others, (training, seed, look, class,
    view). strengths: the length of the whole output to a view alone, P3's s_ym. loss: without the competition. time:
    learning_rate * step, (training, look). At the end, for every row of `rows`: outputs (training, seed, row, class)
    and, for ReLU networks, activity of the first layer (training, seed, row, unit).
    """
    total, count = require_count("steps", steps), require_count("seeds", seeds)
    at = np.unique(np.asarray(looks, dtype=int))
    if not conditions or not len(at) or at[0] < 0 or at[-1] > total:
        raise RangeError(
            f"at least one training is required, and looks between 0 and {total}; {len(conditions)} and {at} came"
        )
    if len({(c.network, c.classes, c.views, c.hidden) for c in conditions}) > 1:
        raise RangeError("all trainings must have the same network, classes, views and width; call it for each apart")
    groups: dict[_Kind, list[int]] = {}
    for number, given in enumerate(conditions):
        groups.setdefault(_kind(given), []).append(number)
    found: list[Any] = [None] * len(conditions)
    with Meter("views", len(conditions)) as meter, ThreadPoolExecutor(THREADS) as pool:
        marks = np.append(at, total)
        jobs = {
            kind: pool.submit(_run_group, kind, [conditions[i] for i in members], count, marks)
            for kind, members in groups.items()
        }
        for kind, members in groups.items():
            results = jobs[kind].result()
            for place, number in enumerate(members):
                found[number] = [part[place * count : (place + 1) * count] for part in results]
            meter.advance(len(members))
    responses, strengths, loss, outputs, activity = (np.stack(part) for part in zip(*found, strict=True))
    seen, each = len(at), ("training", "seed", "look", "class", "view")
    data = xarray.Dataset(
        {
            "responses": (each, responses[:, :, :seen]),
            "strengths": (each, strengths[:, :, :seen]),
            "loss": (each[:3], loss[:, :, :seen]),
            "outputs": (("training", "seed", "row", "class"), outputs),
            "time": (("training", "look"), np.array([c.learning_rate * at for c in conditions])),
        }
    )
    if conditions[0].network == "relu":
        data["activity"] = (("training", "seed", "row", "unit"), activity)
    return data


class _Numbers(NamedTuple):
    """What may differ within one program; one entry per training and seed."""

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


def _kind(c: Conditions) -> _Kind:
    rule = "descent" if c.rule == "momentum" else c.rule
    batch = c.batch if rule == "mini-batch" else 0
    return _Kind(c.network, c.depth, c.classes, c.views, c.hidden, rule, batch, c.competition > 0)


def _inputs(c: Conditions) -> np.ndarray:
    """(rows, pathways, inputs): for "gated" what each pathway reads, its own view's K features; else all K M inputs."""
    labels, present = rows(c.classes, c.views)
    sizes = np.array(c.sizes or (1.0,) * c.views)
    apart = (present * sizes)[:, :, None] * np.eye(c.classes)[labels][:, None, :]
    if c.network == "gated":
        return apart
    # in the order of tasks.views: class by class, view by view
    return apart.transpose(0, 2, 1).reshape(len(labels), 1, -1)


def _weights(c: Conditions) -> np.ndarray:
    """The probability of every row."""
    _, present = rows(c.classes, c.views)
    return np.asarray(np.where(present > 0, c.probability, 1 - c.probability).prod(axis=1) / c.classes)


def _targets(c: Conditions) -> np.ndarray:
    """One-hot classes, or the soft targets."""
    labels, _ = rows(c.classes, c.views)
    if c.targets is None:
        return np.eye(c.classes)[labels]
    soft = np.asarray(c.targets, dtype=np.float64)
    if soft.shape != (len(labels), c.classes) or not np.isfinite(soft).all():
        raise RangeError(
            f"targets must be finite, one row per class and set of views, {(len(labels), c.classes)}; their shape was "
            f"{soft.shape}"
        )
    return soft


@float64  # a thread of its own has its own precision
def _run_group(kind: _Kind, group: list[Conditions], seeds: int, marks: np.ndarray) -> list[np.ndarray]:
    """Responses, strengths and loss at the marks, outputs and activity at the end, of one kind; seeds fastest."""
    drawn = [draw_weights(c, seed) for c in group for seed in range(seeds)]
    start = [np.stack(layer) for layer in zip(*drawn, strict=True)]
    heavy = [c.momentum if c.rule == "momentum" else 0.0 for c in group]
    each = _Numbers(
        inputs=[_inputs(c) for c in group],
        targets=[_targets(c) for c in group],
        weights=[_weights(c) for c in group],
        entropy=[c.loss == "cross-entropy" for c in group],
        step=[c.learning_rate * (1 - mu) for c, mu in zip(group, heavy, strict=True)],
        momentum=heavy,
        competition=[c.competition for c in group],
    )
    numbers = _Numbers(*(np.repeat(np.array(part), seeds, axis=0) for part in each))
    streams = np.tile(np.arange(seeds), len(group))
    return [np.asarray(part) for part in _program(kind)(start, numbers, streams, np.diff(marks, prepend=0))]


def _forward(kind: _Kind, layers: Layers, given: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Outputs (rows, K) and activity of the first layer (rows, units); a closed gated pathway has inputs of zero."""
    if kind.network == "gated":
        product = layers[0]
        for layer in layers[1:]:
            product = layer @ product
        return jnp.einsum("mik,nmk->ni", product, given), jnp.zeros((len(given), 0))
    activity = first = jax.nn.relu(given[:, 0] @ layers[0][0].T)
    for layer in layers[1:-1]:
        activity = jax.nn.relu(activity @ layer[0].T)
    return activity @ layers[-1][0].T, first


def _contrast(outputs: jax.Array, classes: int, views: int) -> jax.Array:
    """The output for the class less the mean of the others, for each view alone, (K, M)."""
    alone = outputs[lone_rows(classes, views)]
    right = jnp.einsum("kmk->km", alone)
    return (classes * right - alone.sum(axis=-1)) / (classes - 1)


def _task_loss(outputs: jax.Array, numbers: _Numbers, weights: jax.Array) -> jax.Array:
    squared = 0.5 * jnp.sum((outputs - numbers.targets) ** 2, axis=-1)
    entropy = -jnp.sum(numbers.targets * jax.nn.log_softmax(outputs), axis=-1)
    return weights @ jnp.where(numbers.entropy, entropy, squared)


def _objective(kind: _Kind, layers: Layers, numbers: _Numbers, weights: jax.Array) -> jax.Array:
    outputs, _ = _forward(kind, layers, numbers.inputs)
    loss = _task_loss(outputs, numbers, weights)
    if not kind.competes:
        return loss
    squares = _contrast(outputs, kind.classes, kind.views) ** 2
    pairs = 0.5 * (squares.sum(axis=1) ** 2 - (squares**2).sum(axis=1))
    return loss + numbers.competition * pairs.sum() / kind.classes


def _program(kind: _Kind) -> Callable[..., Any]:
    gradient = jax.grad(lambda layers, numbers, weights: _objective(kind, layers, numbers, weights))
    one = {"flow": _flow_step, "mini-batch": _batch_step(kind.batch), "descent": _descent_step}[kind.rule]

    def look(layers: Layers, numbers: _Numbers) -> tuple[jax.Array, jax.Array, jax.Array]:
        outputs, _ = _forward(kind, layers, numbers.inputs)
        strengths = jnp.linalg.norm(outputs[lone_rows(kind.classes, kind.views)], axis=-1)
        return _contrast(outputs, kind.classes, kind.views), strengths, _task_loss(outputs, numbers, numbers.weights)

    def train(layers: Layers, numbers: _Numbers, stream: jax.Array, gaps: jax.Array) -> Any:
        key = jax.random.key(stream) if kind.rule == "mini-batch" else stream

        def to_mark(state: Any, gap: jax.Array) -> tuple[Any, Any]:
            state = jax.lax.fori_loop(0, gap, lambda _, s: one(gradient, s, numbers, key), state)
            return state, look(state[0], numbers)

        still = jax.tree.map(jnp.zeros_like, layers)
        (final, _, _), seen = jax.lax.scan(to_mark, (layers, still, jnp.asarray(0)), gaps)
        return *seen, *_forward(kind, final, numbers.inputs)

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
