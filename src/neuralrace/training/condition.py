"""One way to train: a network, its first weights, an objective and a rule; and what the loop needs of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled
from neuralrace._engine.subspace import Bases, lift, project_hidden
from neuralrace.architecture import check_weights
from neuralrace.arrays import real_array
from neuralrace.axes import Edge, Weights
from neuralrace.errors import ProblemError, RangeError, WeightError, require_count, require_kind, shortened
from neuralrace.initial import ByShape, Initializer, as_key, draw
from neuralrace.problem import Problem
from neuralrace.training.learner import Learner, Penalty, make_learner
from neuralrace.training.objectives import Objective, as_objective
from neuralrace.training.program import Batches, Program
from neuralrace.training.records import Record, make_recorder
from neuralrace.training.routed import RoutedLearner, RoutedNetwork, make_routed_learner
from neuralrace.training.rules import Rule

BATCH_STREAM = 1 << 30  # apart from the streams of the initial weights, which are numbered from zero
SEED_BYTES = 1 << 30  # seeds that are trained side by side may take this much of each device
STREAMS = 64  # seeds whose keys are made at once


@dataclass(frozen=True, eq=False)
class Condition:
    """One way to train a network.

    initial: an initializer, drawn anew for each seed, one set of weights for all seeds, or a list with one for each.
    rule: how weights move. time: of a step, a number or one for every step. drawn: mini-batches are drawn by the
    examples' weights at every step, instead of going through all examples in each epoch. penalty: what is descended
    beside the loss.
    """

    network: Problem | RoutedNetwork
    initial: Initializer | Weights | Sequence[Weights]
    rule: Rule
    time: float | np.ndarray
    loss: str | Objective = "squared"
    coupling: str = "joint"
    batch_size: int | None = None
    drawn: bool = False
    penalty: Penalty | None = None

    def __post_init__(self) -> None:
        """Refuse a rule, a time or a penalty that is none."""
        require_kind("rule", self.rule, Rule, ProblemError)
        times = real_array("time", self.time, RangeError)
        if times.ndim > 1 or not (np.isfinite(times) & (times >= 0)).all():
            raise RangeError(
                f"time must be finite and not negative, a number or a list with one for every step; it was "
                f"{shortened(self.time)}"
            )
        if self.penalty is not None:
            require_kind("penalty", self.penalty, Penalty, ProblemError)

    def check_times(self, steps: int) -> None:
        """Refuse a list of times that ends before the steps do."""
        if np.ndim(self.time) and np.size(self.time) < steps:
            raise RangeError(f"time must be a number, or one for each of {steps} steps; there are {np.size(self.time)}")


@dataclass(frozen=True, eq=False)
class Prepared:
    """A condition ready for the loop: its program, its initial weights, and the bases of projected nodes."""

    condition: Condition
    program: Program
    first: Mapping[Edge, np.ndarray]  # (seeds, target, source)
    projected: Mapping[Edge, np.ndarray]  # the same in the bases
    bases: Bases

    @property
    def learner(self) -> Learner:
        """What the program trains."""
        assert isinstance(self.program.learner, Learner)
        return self.program.learner

    def parameters(self) -> Any:
        """The first weights as the loop has them, seeds first."""
        return self.learner.pack(self.projected)

    def groups(self, seeds: int) -> list[slice]:
        """As many seeds side by side as memory allows; each group is one run of the same program."""
        batches = self.program.batches
        rows = self.learner.example_count if batches is None else batches.size
        activity = rows * sum(self.learner.architecture.nodes.values())
        per_seed = 8 * (6 * sum(matrix[0].size for matrix in self.first.values()) + 4 * activity)
        at_once = int(np.clip(jax.local_device_count() * (SEED_BYTES // max(per_seed, 1)), 1, seeds))
        return [slice(first, min(first + at_once, seeds)) for first in range(0, seeds, at_once)]

    def final(self, parameters: Mapping[str, np.ndarray]) -> dict[Edge, np.ndarray]:
        """Weights by edge, (seeds, target, source), as those of the original network."""
        found = self.learner.unpack(parameters)
        edges, bases = self.condition.network.architecture.edges, self.bases
        return {e: lift(matrix, bases.get(edges[e][1]), bases.get(edges[e][0])) for e, matrix in found.items()}


def joined_parameters(group: Sequence[Prepared]) -> Any:
    """The first weights of several conditions as the loop has them, packed once where conditions share them."""
    owners = {id(one.projected): one for one in group}
    packed = {place: one.parameters() for place, one in owners.items()}
    # on the host: nothing to compile
    return jax.tree.map(
        lambda *parts: jax.device_put(np.concatenate([np.asarray(part) for part in parts])),
        *(packed[id(one.projected)] for one in group),
    )


Drawn = dict[Any, dict[Edge, np.ndarray]]  # (law, architecture) -> first weights


def prepare(
    condition: Condition,
    seeds: int,
    key: Any,
    record: str | Record | Sequence[str | Record],
    stop_at: float | None,
    drawn: Drawn | None = None,
) -> Prepared:
    """Check a condition, draw its first weights and plan its network; drawn: of other conditions, with this key."""
    network = condition.network
    require_kind("network", network, (Problem, RoutedNetwork), ProblemError)
    recorder = make_recorder(network, record)
    batches = _batches(condition)
    first = _first_weights(network, condition.initial, seeds, key, {} if drawn is None else drawn)
    projected: Mapping[Edge, np.ndarray] = first
    bases = Bases()
    if isinstance(network, RoutedNetwork):
        learner: Learner = _routed_learner(condition, network, batches, test=recorder.costly)
    else:
        objective = as_objective(condition.loss, network.task)
        inner = network
        if condition.rule.narrows:
            parts = network.architecture, first, network.activations, network.gates.neurons
            projected, bases, neuron_gates = project_hidden(*parts)
            sizes = {node: basis.shape[-1] for node, basis in bases.items()}
            inner = network.resized({**network.architecture.nodes, **sizes}, neuron_gates) if bases else network
        learner = make_learner(
            inner,
            objective,
            condition.coupling,
            batches=batches is not None,
            see=recorder.examples,
            penalty=condition.penalty,
        )
    level = None if stop_at is None else np.asarray(float(stop_at))
    return Prepared(condition, Program(learner, condition.rule, recorder, batches, level, ()), first, projected, bases)


def _batches(condition: Condition) -> Batches | None:
    if condition.batch_size is None:
        return None
    size, count = require_count("batch_size", condition.batch_size), len(condition.network.task)
    if size > count and not condition.drawn:
        raise RangeError(f"batch_size must be at most the number of examples, {count}; it was {size}")
    return Batches(size, count, condition.drawn)


def _routed_learner(
    condition: Condition, network: RoutedNetwork, batches: Batches | None, *, test: bool
) -> RoutedLearner:
    if condition.coupling != "joint" or condition.penalty is not None:
        raise ProblemError("a RoutedNetwork is trained with coupling='joint' and without a penalty")
    return make_routed_learner(network, as_objective(condition.loss), batches=batches is not None, test=test)


def batch_keys(key: Any, seeds: int, conditions: int = 1) -> jax.Array:
    """The streams of mini-batches, one per seed, the same under all conditions."""
    return jax.random.wrap_key_data(jax.device_put(np.tile(_words(key, seeds)[1], (conditions, 1))))


def _words(key: Any, seeds: int) -> np.ndarray:
    """The words of the keys of every seed, (2, seeds, words); in blocks, so that any number of seeds is one program."""
    root = as_key(key)
    blocks = [np.asarray(_streams(root, np.uint32(first))) for first in range(0, seeds, STREAMS)]
    return np.concatenate(blocks, axis=1)[:, :seeds]


@compiled
def _streams(root: jax.Array, first: jax.Array | np.uint32) -> jax.Array:
    own = jax.vmap(lambda seed: jax.random.fold_in(root, seed))(first + jnp.arange(STREAMS, dtype=jnp.uint32))
    batches = jax.vmap(lambda one: jax.random.fold_in(one, BATCH_STREAM))(own)
    return jnp.stack([jax.random.key_data(own), jax.random.key_data(batches)])


def _first_weights(
    problem: Problem | RoutedNetwork, initial: Any, seeds: int, key: Any, known: Drawn
) -> dict[Edge, np.ndarray]:
    """Edge -> (seeds, target, source); those that another condition draws from the same law are taken from it."""
    architecture = problem.architecture
    law = (repr(initial), architecture, problem.biases) if isinstance(initial, ByShape) else None
    if law in known:
        return known[law]
    if isinstance(initial, Sequence) and not isinstance(initial, str):
        if len(initial) != seeds:
            raise WeightError(f"a list of weights must have one set per seed, {seeds}; it has {len(initial)}")
        drawn: Sequence[Weights] = [check_weights(architecture, weights) for weights in initial]
    elif isinstance(initial, Mapping):
        drawn = [check_weights(architecture, initial)] * seeds
    else:
        own = map(jax.random.wrap_key_data, _words(key, seeds)[0])  # the same for a seed however many others there are
        drawn = [draw(initial, problem, one) for one in own]
    first = {edge: np.stack([weights[edge] for weights in drawn]) for edge in architecture.edges}
    if law is not None:
        known[law] = first
    return first
