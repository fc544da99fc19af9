"""The front door of training: a network, its initial weights and a step size in, a trajectory out."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import jax
import numpy as np

from neuralrace.architecture import edge_name
from neuralrace.arrays import float64, in_precision
from neuralrace.axes import Weights
from neuralrace.datafiles import check_place
from neuralrace.errors import (
    ProblemError,
    RangeError,
    require_call,
    require_count,
    require_kind,
    require_number,
    shortened,
)
from neuralrace.initial import Initializer, as_data, key_as_data
from neuralrace.memory import require_memory
from neuralrace.problem import Problem
from neuralrace.progress import Meter
from neuralrace.source import made_of
from neuralrace.training.checkpoint import Checkpoint, digest
from neuralrace.training.condition import Condition, Drawn, Prepared, batch_keys, joined_parameters, prepare
from neuralrace.training.loop import STRIDE, Schedule, Training, Watcher, begin, go_on, make_schedule, part_of
from neuralrace.training.objectives import Objective, is_named
from neuralrace.training.program import one_program, shape_of
from neuralrace.training.records import Record, matrix_axes
from neuralrace.training.routed import RoutedNetwork
from neuralrace.training.rules import make_rule
from neuralrace.trajectory import Trajectory, make_trajectory, status_of

THREADS = 2  # programs that run side by side
MOST_STEPS = 2**31 - 1  # they are counted in 32 bits
COPIES = 3  # of all weights: the first, the present, and the gradient
LOOK_BYTES = 40  # of one look at the loss: its step, whether it is kept, and the loss
SMALLER = "give fewer seeds, fewer neurons, or fewer steps"

Callback = Callable[[int, np.ndarray], bool | None]


@float64
def train(
    network: Problem | RoutedNetwork,
    initial: Initializer | Weights | Sequence[Weights],
    learning_rate: Any = None,
    steps: int = 1000,
    *,
    seeds: int = 1,
    key: Any = 0,
    loss: str | Objective = "squared",
    optimizer: Any = None,
    batch_size: int | None = None,
    coupling: str = "joint",
    record: str | Record | Sequence[str | Record] = ("loss",),
    every: int = 1,
    at: Sequence[int] | None = None,
    stop_at: float | None = None,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    precision: str = "double",
    progress: bool = True,
) -> Trajectory:
    """Train a network by gradient descent from one initial condition per seed.

    initial: an initializer, drawn anew for each seed, a set of weights, or a list with one set per seed. learning_rate:
    the step size, or an optax schedule of it; time is the sum of the step sizes. optimizer: an optax gradient
    transformation, or a name such as "adam", or {"name": "adam", ...settings}; learning_rate, 1 unless given, is then
    the unit of time. loss: "squared", "cross-entropy", or an objective as a value. batch_size: examples per step, the
    full batch unless given. coupling: "joint" or "residual", for gated networks. record: any of loss, outputs, weights,
    path_singular_values, weight_singular_values, activity, gate_patterns, or of single nodes, edges and paths
    ("weights[x->h1]"), and records of one's own as values; taken `every` so many steps and at the end, or `at` given
    steps.
    stop_at: a seed whose loss has come down to this rests from the next look on (every fiftieth part of the steps, 100
    of them at most), and training ends when all rest. callback: called about twice a second with the step and the
    losses so far, (seeds, looks); returning True ends the training. checkpoint: a file that training goes on from if it
    was killed. precision: "single" computes in 32 bits, which a GPU does many times faster; first weights and times are
    in 64 bits in any case. A diverging seed is marked in `status` and does not stop the others.
    """
    check_memory(network, steps, every if at is None else None, seeds)
    if callback is not None:
        require_call("callback", callback, "the step and the losses", 0, None)
    path = None if checkpoint is None else check_place("checkpoint", checkpoint)
    schedule = make_schedule(steps, every, at)
    rule, time = make_rule(learning_rate, optimizer, steps)
    condition = Condition(network, initial, rule, time, loss, coupling, batch_size)
    level = None if stop_at is None else require_number("stop_at", stop_at)
    prepared = prepare(condition, seeds, key, record, level)
    settings = _common(schedule, seeds, key, level, precision)
    groups = prepared.groups(seeds) if callback is None else [slice(0, seeds)]
    done: list[Training] = []
    with _metered(max(schedule.steps, 1) * seeds, progress) as meter, in_precision(precision):
        parameters, keys = prepared.parameters(), batch_keys(key, seeds)
        for number, chosen in enumerate(groups):
            part = parameters, keys
            if len(groups) > 1:
                part = jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen], part)
            training = begin(prepared.program, *part, schedule)
            watchers: list[Watcher] = []
            if path is not None:
                name = path if len(groups) == 1 else path.with_name(f"{path.name}.{number}")
                kept = Checkpoint(name, _identity(prepared, schedule, settings, chosen))
                kept.resume(training)
                watchers.append(kept)
            if callback is not None:  # after the checkpoint: an error of the caller's loses nothing
                watchers.append(_Caller(callback))
            go_on(training, meter, watchers)
            done.append(training)
    return _trajectory(prepared, done, settings)


@float64
def train_together(
    conditions: Sequence[Condition],
    steps: int,
    *,
    seeds: int = 1,
    key: Any = 0,
    record: str | Record | Sequence[str | Record] = ("loss",),
    every: int = 1,
    at: Sequence[int] | None = None,
    precision: str = "double",
    keep_weights: bool = True,
    progress: bool = True,
) -> list[Trajectory]:
    """Train under many conditions; those that differ in numbers only are one compiled program.

    keep_weights: whether a run holds its final weights, which may be gigabytes where there are many networks.
    """
    require_kind("conditions", conditions, (list, tuple), ProblemError)
    for condition in conditions:
        require_kind("each of the conditions", condition, Condition, ProblemError)
        check_memory(condition.network, steps, every if at is None else None, seeds)
        condition.check_times(steps)
    schedule = make_schedule(steps, every, at)
    drawn: Drawn = {}
    prepared = [prepare(one, seeds, key, record, None, drawn) for one in conditions]
    alike: dict[Any, list[Prepared]] = {}
    for one in prepared:
        alike.setdefault(shape_of(one.program), []).append(one)
    settings = _common(schedule, seeds, key, None, precision)
    found: dict[int, Trajectory] = {}

    def run(group: list[Prepared]) -> None:
        with in_precision(precision):  # a thread has its own
            program = one_program([one.program for one in group], seeds)
            training = begin(program, joined_parameters(group), batch_keys(key, seeds, len(group)), schedule)
            go_on(training, meter)
        for place, one in enumerate(group):
            mine = part_of(training, slice(place * seeds, (place + 1) * seeds), weights=keep_weights)
            found[id(one)] = _trajectory(one, [mine], settings, weights=keep_weights)

    work = max(schedule.steps, 1) * seeds * max(len(prepared), 1)
    with _metered(work, progress) as meter, ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, alike.values()))  # an error shows here
    return [found[id(one)] for one in prepared]


def check_memory(network: Any, steps: Any, every: Any, seeds: Any) -> None:
    """Refuse weights and a curve of the loss that do not fit into memory; every: None where the records are given.

    Only what is certain is counted, so nothing possible is refused.
    """
    count, last = require_count("seeds", seeds), require_count("steps", steps, least=0)
    if last > MOST_STEPS:
        raise RangeError(f"steps must be at most {MOST_STEPS:,}; it was {last:,}: a larger learning_rate needs fewer")
    looks = last // min(STRIDE, STRIDE if every is None else require_count("every", every)) + 1
    if not isinstance(network, Problem | RoutedNetwork):
        return  # that is told elsewhere
    weights = network.architecture.weight_count
    require_memory(f"{count:,} seeds of {weights:,} weights", 8 * COPIES * count * weights, SMALLER)
    require_memory(
        f"the loss of {count:,} seeds at {looks:,} steps",
        looks * (LOOK_BYTES + 8 * count),
        "record less often with every=..., or give fewer seeds or steps",
    )


def _metered(work: int, shown: bool) -> AbstractContextManager[Meter | None]:
    """A progress bar for so much work, or nobody who counts."""
    return Meter("training", work) if shown else nullcontext()


@dataclass
class _Caller:
    """Hands the losses so far to the caller's function."""

    callback: Callback

    def due(self) -> bool:
        """After every chunk."""
        return True

    def look(self, training: Training) -> bool:
        """Call, and stop if it says so."""
        step = training.schedule.looks[min(training.next, len(training.schedule.looks) - 1)]
        answer = self.callback(int(step), np.concatenate(training.memory.curve).T)
        try:
            return bool(answer)
        except Exception as error:
            raise RangeError(
                f"callback must return True to end the training, and else False or None; it returned "
                f"{shortened(answer)}, which is neither"
            ) from error


def _identity(prepared: Prepared, schedule: Schedule, settings: Mapping[str, Any], chosen: slice) -> dict[str, Any]:
    """What makes two trainings the same, for a checkpoint."""
    condition = prepared.condition
    numbers = jax.tree.leaves((condition.rule, condition.time))  # the rates of a schedule among them
    return {
        "settings": _settings(prepared, settings),
        "rule": digest({place: np.asarray(number) for place, number in enumerate(numbers)}),
        "problem": condition.network.describe(),
        "record": list(prepared.program.recorder.variables()),
        "data": digest(_arrays(condition.network)),
        "first": digest({edge: matrix[chosen] for edge, matrix in prepared.first.items()}),
        "looks": digest({"looks": schedule.looks, "kept": schedule.kept}),
        "version": version("neuralrace"),
    }


def _arrays(network: Problem | RoutedNetwork) -> dict[str, np.ndarray]:
    """All that a training depends on."""
    if isinstance(network, RoutedNetwork):
        return network.arrays()
    task, gates = network.task, network.gates
    data = {f"x {n}": rows for n, rows in task.inputs.items()} | {f"y {n}": rows for n, rows in task.targets.items()}
    return data | {f"g {n}": gate for n, gate in (*gates.nodes.items(), *gates.edges.items())} | {"w": task.weights}


def _common(schedule: Schedule, seeds: int, key: Any, level: float | None, precision: str) -> dict[str, Any]:
    """Settings that all conditions share."""
    found = {"steps": schedule.steps, "seeds": seeds, "key": key_as_data(key), "stop_at": level}
    return found if precision == "double" else found | {"precision": precision}


def _settings(prepared: Prepared, settings: Mapping[str, Any]) -> dict[str, Any]:
    """How a network was trained, in plain values."""
    condition = prepared.condition
    return {
        "learning_rate": float(condition.time) if np.ndim(condition.time) == 0 else None,
        **settings,
        "loss": prepared.learner.objective.name,
        **_of_ones_own(prepared.learner.objective),
        "rule": condition.rule.as_data(),
        "batch_size": condition.batch_size,
        "coupling": condition.coupling,
        "initial": as_data(condition.initial),
    }


def _of_ones_own(objective: Objective) -> dict[str, Any]:
    """The numbers of an objective that its name does not tell."""
    return {} if is_named(objective) else {"objective": made_of(objective)}


def _trajectory(
    prepared: Prepared, done: Sequence[Training], settings: Mapping[str, Any], *, weights: bool = True
) -> Trajectory:
    """Put groups of seeds together and name all axes."""
    problem, recorder = prepared.condition.network, prepared.program.recorder
    longest = max((training.schedule for training in done), key=lambda schedule: len(schedule.looks))
    records = _joined([one.memory.records(one.schedule) for one in done])
    records = recorder.widen(problem.architecture, prepared.bases, records)
    axes = recorder.axes(problem) | {"loss": ()}
    variables = {name: (("seed", "time", *axes[name]), array) for name, array in records.items() if name != "curve"}
    kept = {}
    if weights:
        kept = {"initial_weights": dict(prepared.first), "final_weights": prepared.final(_final_parameters(done))}
    for kind, by_edge in kept.items():
        for edge, matrix in by_edge.items():
            variables[f"{kind}[{edge_name(edge)}]"] = (("seed", *matrix_axes(problem, edge)), matrix)
    return make_trajectory(
        _times(prepared.condition.time, longest.recorded),
        longest.recorded,
        variables,
        status_of(records["curve"][:, longest.regular], settings["stop_at"]),
        problem=problem,
        settings=_settings(prepared, settings),
    )


def _final_parameters(done: Sequence[Training]) -> Any:
    parts = [jax.tree.map(lambda leaf, n=one.memory.seeds: np.asarray(leaf)[:n], one.state.parameters) for one in done]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _joined(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The records of groups of seeds; a group that came to rest early stays as it was."""
    if len(parts) == 1:
        return parts[0]
    found = {}
    for name in parts[0]:
        arrays = [part[name] for part in parts]
        longest = max(array.shape[1] for array in arrays)
        found[name] = np.concatenate([_extended(array, longest) for array in arrays])
    return found


def _extended(array: np.ndarray, count: int) -> np.ndarray:
    missing = count - array.shape[1]
    return np.concatenate([array, np.repeat(array[:, -1:], missing, axis=1)], axis=1) if missing else array


def _times(step: float | np.ndarray, recorded: np.ndarray) -> np.ndarray:
    """The sum of all step sizes before each recorded step."""
    if np.ndim(step) == 0:
        return np.asarray(step * recorded)
    return np.asarray(np.concatenate([[0.0], np.cumsum(step)])[recorded])
