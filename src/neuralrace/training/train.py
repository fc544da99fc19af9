"""Train networks: a problem, its initial weights and a step size in, a trajectory out."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jax
import numpy as np

from neuralrace._engine.devices import bucket_size, compiled
from neuralrace._engine.evaluation import make_evaluation
from neuralrace._engine.subspace import Bases, lift, project_hidden
from neuralrace.architecture import check_weights, edge_name
from neuralrace.arrays import float64, in_precision
from neuralrace.axes import Array, Edge, Weights
from neuralrace.errors import (
    ProblemError,
    RangeError,
    WeightError,
    require_call,
    require_count,
    require_kind,
    require_number,
)
from neuralrace.initial import Initializer, as_data, as_key, draw, key_as_data
from neuralrace.io import check_place
from neuralrace.memory import require_size
from neuralrace.objectives import CrossEntropy, Objective, Squared, as_objective
from neuralrace.problem import Problem, problems_to_evaluate
from neuralrace.progress import Meter
from neuralrace.training.checkpoint import Checkpoint, digest
from neuralrace.training.learner import Learner, make_learner
from neuralrace.training.loop import (
    STRIDE,
    Program,
    Schedule,
    Training,
    Watcher,
    make_schedule,
    run,
    shape_of,
)
from neuralrace.training.records import OF_EXAMPLES, make_recorder
from neuralrace.training.routed import RoutedNetwork, make_routed_learner, routed_evaluations
from neuralrace.training.rules import Optax, Rule, make_rule
from neuralrace.trajectory import EVALUATED, Trajectory, make_dataset, problem_data, status_of

Callback = Callable[[int, np.ndarray], bool | None]
Network = Problem | RoutedNetwork


@dataclass(frozen=True, eq=False)
class Condition:
    """One way to train a network.

    initial: an initializer, drawn anew for each seed, one set of weights for all seeds, or a list with one for each.
    rule: how weights move. time: of a step. drawn: mini-batches are drawn by the examples' weights at every step,
    instead of going through all examples in each epoch. evaluate: see `train`.
    """

    network: Network
    initial: Initializer | Weights | Sequence[Weights]
    rule: Rule
    time: float
    loss: str | Objective = "squared"
    coupling: str = "joint"
    batch_size: int | None = None
    drawn: bool = False
    evaluate: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        require_kind("network", self.network, (Problem, RoutedNetwork), ProblemError)
        require_kind("rule", self.rule, Rule, ProblemError)
        require_number("time", self.time, least=0)


@float64
def train(
    network: Network,
    initial: Initializer | Weights | Sequence[Weights] | Trajectory,
    learning_rate: Any = None,
    steps: int = 1000,
    *,
    seeds: int | None = None,
    key: Any = 0,
    loss: str | Objective = "squared",
    optimizer: Any = None,
    batch_size: int | None = None,
    coupling: str = "joint",
    record: str | Sequence[str] = ("loss",),
    every: int = 1,
    at: Sequence[int] | None = None,
    evaluate: Mapping[str, Any] | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    precision: str = "double",
    progress: bool = True,
) -> Trajectory:
    """Train a network by gradient descent, from other initial weights for each seed.

    initial: an initializer, drawn anew for each seed, a set of weights, or a list with one set per seed. learning_rate:
    the step size; time is learning_rate * step. optimizer: an optax gradient transformation; learning_rate (default: 1)
    is then the unit of time. loss: "squared", "cross-entropy", or an Objective. batch_size: examples per step (default:
    all). coupling: "joint" or "residual", for gated networks. record: any of loss, outputs, weights,
    path_singular_values, weight_singular_values, activity, gate_patterns, or of single nodes, edges and paths
    ("weights[x->h1]"); taken `every` n steps and at the end, or `at` given steps. evaluate: name -> other examples (a
    task, or a problem of the same graph with their gates; routed images for a RoutedNetwork), whose loss and accuracy
    are recorded at the same steps, `run.evaluated`. callback: called about twice a second with the step and the losses
    so far, (seeds, evaluations); returning True ends the training. checkpoint: a file from which an interrupted
    training resumes. precision: "single" computes in 32 bits, many times faster on a GPU; initial weights and times are
    in 64 bits. A diverging seed is marked in `status` and does not stop the others.

    An earlier run as `initial` is continued from its final weights, one set per seed, by default with as many seeds;
    time, steps and the state of the optimizer start anew, and so do mini-batches: give another key for other ones.
    """
    require_kind("network", network, (Problem, RoutedNetwork), ProblemError)
    if isinstance(initial, Trajectory):
        initial = _final_weights(network, initial)
    seeds = (len(initial) if isinstance(initial, list | tuple) else 1) if seeds is None else seeds
    _check_size([network], steps, every if at is None else None, seeds)
    if callback is not None:
        require_call("callback", callback, "the step and the losses", 0, None)
    path = None if checkpoint is None else check_place("checkpoint", checkpoint)
    schedule = make_schedule(steps, every, at)
    rule, time = make_rule(learning_rate, optimizer)
    condition = Condition(network, initial, rule, time, loss, coupling, batch_size, evaluate=evaluate)
    settings = _settings(condition, schedule, seeds, key, precision)
    watchers: list[Watcher] = []
    resume = None
    with Meter("training", steps, "steps", shown=progress) as meter:
        prepared = _prepare(condition, seeds, key, record)
        if path is not None:
            kept = Checkpoint(path, _identity(prepared, schedule, settings))
            watchers, resume = [kept], kept.resume
        if callback is not None:  # after the checkpoint: an error of the caller's loses nothing
            watchers.append(lambda training: bool(callback(training.step, np.concatenate(training.curve).T)))
        with in_precision(precision):
            training = _run([prepared], schedule, seeds, key, meter, watchers, resume)
        return _trajectory(prepared, training, settings, slice(None))


@float64
def train_together(
    conditions: Sequence[Condition],
    steps: int,
    *,
    seeds: int = 1,
    key: Any = 0,
    record: str | Sequence[str] = ("loss",),
    every: int = 1,
    at: Sequence[int] | None = None,
    precision: str = "double",
    keep_weights: bool = True,
    progress: bool = True,
) -> list[Trajectory]:
    """Train under many conditions; those that differ in numbers only are one compiled program.

    keep_weights: whether a run holds its initial and final weights, which may be gigabytes for many networks.
    """
    require_kind("conditions", conditions, (list, tuple), ProblemError)
    for one in conditions:
        require_kind("each of the conditions", one, Condition, ProblemError)
    _check_size([one.network for one in conditions], steps, every if at is None else None, seeds)
    schedule = make_schedule(steps, every, at)
    found: dict[int, Trajectory] = {}

    def train_group(group: list[Prepared]) -> None:
        with in_precision(precision):  # a thread has its own
            training = _run(group, schedule, seeds, key, meter)
        for place, one in enumerate(group):
            settings = _settings(one.condition, schedule, seeds, key, precision)
            mine = slice(place * seeds, (place + 1) * seeds)
            found[id(one)] = _trajectory(one, training, settings, mine, keep_weights)

    with Meter("training", steps * len(conditions), "steps", shown=progress) as meter, ThreadPoolExecutor(2) as pool:
        prepared = [_prepare(one, seeds, key, record) for one in conditions]
        alike: dict[Any, list[Prepared]] = {}
        for ready in prepared:
            alike.setdefault(shape_of(ready.program), []).append(ready)
        list(pool.map(train_group, alike.values()))  # an error shows here
    return [found[id(one)] for one in prepared]


def _check_size(networks: Sequence[Any], steps: Any, every: Any, seeds: Any) -> None:
    """Refuse weights and a curve of the loss that do not fit into memory; every: None where the records are given."""
    count, last = require_count("seeds", seeds), require_count("steps", steps, least=0)
    if last >= 1 << 31:  # they are counted in 32 bits
        raise RangeError(f"steps must be at most {2**31 - 1:,}; it was {last:,}: a larger learning_rate needs fewer")
    evaluations = last // min(STRIDE, STRIDE if every is None else require_count("every", every)) + 1
    require_size(networks, count, evaluations=evaluations)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A condition ready for the loop: its program, its initial weights, and the bases of projected nodes.

    initial: (seeds, target, source). projected: the same in the bases.
    """

    condition: Condition
    program: Program
    initial: Mapping[Edge, np.ndarray]
    projected: Mapping[Edge, np.ndarray]
    bases: Bases


def _prepare(condition: Condition, seeds: int, key: Any, record: str | Sequence[str]) -> Prepared:
    """Draw the initial weights of a condition and plan its network."""
    network, recorder = condition.network, make_recorder(condition.network, record)
    if condition.batch_size is not None:
        size, count = require_count("batch_size", condition.batch_size), len(network.task)
        if size > count and not condition.drawn:
            raise RangeError(f"batch_size must be at most the number of examples, {count}; it was {size}")
    initial = _initial_weights(network, condition.initial, seeds, key)
    projected: Mapping[Edge, np.ndarray] = initial
    bases, kinds, mini = Bases(), dict(recorder.chosen).keys(), condition.batch_size
    if isinstance(network, RoutedNetwork):
        if condition.coupling != "joint":
            raise ProblemError("a RoutedNetwork is trained with coupling='joint'")
        objective = as_objective(condition.loss)
        if not network.task.pairs.any():
            raise ProblemError("at least one pair of domains to train is required; there is none: with_pairs(pairs)")
        learner: Learner = make_routed_learner(network, objective, batches=mini is not None)
        evaluations: dict[str, Any] = routed_evaluations(network, condition.evaluate, objective)
    else:
        objective, inner = as_objective(condition.loss, network.task), network
        others = problems_to_evaluate(network, condition.evaluate)
        neurons = any(other.gates.neurons for other in (network, *others.values()))
        if condition.rule.projects and not (others and neurons) and not network.architecture.weights:
            parts = network.architecture, initial, network.activations, network.gates.neurons
            projected, bases, neuron_gates = project_hidden(*parts)
            sizes = {node: basis.shape[-1] for node, basis in bases.items()}
            inner = network.resized({**network.architecture.nodes, **sizes}, neuron_gates) if bases else network
        every = not kinds.isdisjoint(OF_EXAMPLES)
        learner = make_learner(inner, objective, condition.coupling, batch_size=mini, every_example=every)
        evaluations = {}
        for name, other in others.items():
            objective.check(other.task)
            small = other.resized(inner.architecture.nodes)
            evaluations[name] = make_evaluation(small, objective.rows, moments=objective.compresses)
    program = Program(learner, condition.rule, recorder, evaluations, mini, condition.drawn)
    return Prepared(condition, program, initial, projected, bases)


def _run(
    group: Sequence[Prepared],
    schedule: Schedule,
    seeds: int,
    key: Any,
    meter: Meter,
    watchers: Sequence[Watcher] = (),
    resume: Callable[[Training], None] | None = None,
) -> Training:
    """Train conditions of one shape and their seeds side by side."""
    packed = [one.program.learner.pack(one.projected) for one in group]
    # on the host, where nothing is compiled
    start = jax.tree.map(lambda *leaves: jax.device_put(np.concatenate([np.asarray(x) for x in leaves])), *packed)
    keys = jax.random.wrap_key_data(jax.device_put(np.tile(_streams(key, seeds)[1], (len(group), 1))))
    return run([one.program for one in group], start, keys, schedule, meter, watchers, resume)


def _streams(key: Any, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Make a key for the initial weights and one for the mini-batches of each seed, however many others there are."""
    own, batches = _folded(as_key(key), np.arange(bucket_size(seeds), dtype=np.uint32))
    return np.asarray(own)[:seeds], np.asarray(batches)[:seeds]


@compiled
def _folded(root: jax.Array, numbers: Array) -> tuple[jax.Array, jax.Array]:
    own = jax.vmap(lambda seed: jax.random.fold_in(root, seed))(numbers)
    # apart from the streams of the initial weights, which are numbered from zero
    batches = jax.vmap(lambda one: jax.random.fold_in(one, 1 << 30))(own)
    return jax.random.key_data(own), jax.random.key_data(batches)


def _final_weights(network: Network, run: Trajectory) -> list[Weights]:
    """Return the weights with which each seed of a run ended."""
    diverged = np.flatnonzero(run.status == "diverged").tolist()
    if diverged:
        raise WeightError(
            f"a run that diverged cannot be continued; seeds {diverged} did: give those of other seeds, "
            "[run.weights(seed) for seed in ...]"
        )
    final = {edge: f"final_weights[{edge_name(edge)}]" for edge in network.architecture.parameters}
    for edge, name in final.items():
        if name not in run.data:
            raise WeightError(
                f"initial, an earlier run, has no final weights of edge {edge_name(edge)}: continue a run of this "
                "network that kept its weights; those of a forecast are forecast.weights(time, draw)"
            )
    return [{edge: run.values(name)[seed] for edge, name in final.items()} for seed in range(len(run.losses))]


def _initial_weights(problem: Network, initial: Any, seeds: int, key: Any) -> dict[Edge, np.ndarray]:
    """Edge -> (seeds, target, source)."""
    architecture = problem.architecture
    if isinstance(initial, Sequence) and not isinstance(initial, str):
        if len(initial) != seeds:
            raise WeightError(f"a list of weights must have one set per seed, {seeds}; it has {len(initial)}")
        drawn: Sequence[Weights] = [check_weights(architecture, weights) for weights in initial]
    elif isinstance(initial, Mapping):
        drawn = [check_weights(architecture, initial)] * seeds
    else:
        drawn = [draw(initial, problem, jax.random.wrap_key_data(words)) for words in _streams(key, seeds)[0]]
    return {edge: np.stack([weights[edge] for weights in drawn]) for edge in architecture.parameters}


def _settings(condition: Condition, schedule: Schedule, seeds: int, key: Any, precision: str) -> dict[str, Any]:
    """Describe a training in JSON-serializable values."""
    objective = as_objective(condition.loss)
    return {
        "learning_rate": float(condition.time),
        "steps": int(schedule.steps[-1]),
        "seeds": seeds,
        "key": key_as_data(key),
        **({} if precision == "double" else {"precision": precision}),
        "loss": objective.name,
        **({} if objective in (Squared(), CrossEntropy()) else {"objective": repr(objective)}),
        "rule": condition.rule.as_data(),
        "batch_size": condition.batch_size,
        "coupling": condition.coupling,
        "initial": as_data(condition.initial),
    }


def _identity(prepared: Prepared, schedule: Schedule, settings: Mapping[str, Any]) -> str:
    """A hash of all that a training depends on, for its checkpoint."""
    condition = prepared.condition
    network, rule = condition.network, condition.rule
    arrays = {f"rule {i}": np.asarray(number) for i, number in enumerate(jax.tree.leaves((rule, condition.time)))}
    if isinstance(network, RoutedNetwork):
        own = {f"data {i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(prepared.program.learner))}
        problem: Any = repr(network)
    else:
        variables, problem = problem_data(network)
        own = {name: array for name, (_, array) in variables.items()}
    arrays |= own
    if isinstance(rule, Optax):  # it cannot be described, but its first update can be made
        update = rule.optimizer.update(prepared.initial, rule.optimizer.init(prepared.initial), prepared.initial)[0]
        arrays |= {f"update {i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(update))}
    arrays |= {f"initial {edge}": matrix for edge, matrix in prepared.initial.items()}
    arrays |= {"evaluated": schedule.steps, "kept": schedule.kept}
    others = prepared.program.evaluations
    arrays |= {f"evaluate {i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(others))}
    described = {"problem": problem, "record": prepared.program.recorder.chosen, "format": 3}
    return digest({**settings, **described, "version": version("neuralrace")}, arrays)


def _trajectory(
    prepared: Prepared, training: Training, settings: Mapping[str, Any], seeds: slice, keep_weights: bool = True
) -> Trajectory:
    """Take the seeds of a condition out of a training, lift projected nodes and name all axes."""
    problem: Any = prepared.condition.network
    records = {name: array[seeds] for name, array in training.records().items()}
    status = status_of(records.pop("curve")[:, training.schedule.regular])
    recorded = prepared.program.recorder.axes(problem) | {name: () for name in records if name.startswith(EVALUATED)}
    recorded["loss"] = ()
    axes = {name: ("time", *its) for name, its in recorded.items()}
    initial = {}
    if keep_weights:
        final = jax.tree.map(lambda leaf: np.asarray(leaf)[seeds], training.state.parameters)
        for edge, matrix in prepared.program.learner.unpack(final).items():
            name, units = edge_name(edge), problem.architecture.axes(edge)
            initial[f"initial_weights[{name}]"] = ("seed", *units), prepared.initial[edge]
            records[f"final_weights[{name}]"], axes[f"final_weights[{name}]"] = matrix, units
    spans, variables = {f"{node}_unit": basis for node, basis in prepared.bases.items()}, {}
    for name, array in records.items():
        rows, columns = ("", "", *axes[name])[-2:]
        variables[name] = ("seed", *axes[name]), lift(array, spans.get(rows), spans.get(columns))
    steps = training.schedule.recorded
    time = prepared.condition.time * steps
    return Trajectory(make_dataset(time, steps, variables | initial, status, settings), problem=problem)
