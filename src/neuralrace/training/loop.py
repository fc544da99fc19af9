"""The training loop: one compiled program evaluates and steps all seeds, and hands records back in chunks.

Everything is written for one seed and mapped over the seeds. Networks, rules and examples are arguments of the compiled
program, so it is compiled once for a shape; conditions that differ in numbers only become one program.
"""

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import bucket_size, compiled, shard, threads
from neuralrace.axes import Array
from neuralrace.errors import RangeError, require_count
from neuralrace.memory import require_memory
from neuralrace.progress import Meter
from neuralrace.training.learner import Learner, Parameters
from neuralrace.training.records import Recorder
from neuralrace.training.rules import Rule
from neuralrace.trajectory import EVALUATED, FEWEST_EVALUATIONS

STRIDE = 100  # the most steps between two evaluations of the loss, recorded or not
CHUNK_BYTES = 64 << 20  # records that are held on the device at once
CHUNK_SECONDS = 0.5  # how often control returns, for progress, checkpoints and to stop on divergence
SEED_BYTES = 1 << 30  # seeds side by side may take this much of a CPU's memory, and 32 times of a GPU's
NEAR_BYTES = 1 << 19  # weights and gradient per core: with more, a core's cache does not hold several seeds

Records = dict[str, jax.Array]  # variable -> array
Watcher = Callable[["Training"], bool]  # called between chunks; returning True ends the training


@dataclass(frozen=True)
class Schedule:
    """The steps at which the loss is evaluated.

    steps: ascending, the last is the end. kept: whether each is recorded. regular: whether each is evaluated whatever
    is recorded.
    """

    steps: np.ndarray
    kept: np.ndarray
    regular: np.ndarray

    @property
    def recorded(self) -> np.ndarray:
        """The steps to record."""
        return self.steps[self.kept]

    def until(self, last: int) -> "Schedule":
        """End at an evaluation, which is recorded in any case."""
        kept = self.kept[: last + 1].copy()
        kept[-1] = True
        return Schedule(self.steps[: last + 1], kept, self.regular[: last + 1])


def make_schedule(steps: int, every: int, at: Sequence[int] | None) -> Schedule:
    """Record every n steps and at the end, or at the given steps."""
    steps = require_count("steps", steps, least=0)
    if at is None:
        every = require_count("every", every)
        recorded = np.unique(np.append(np.arange(0, steps + 1, every), steps))
    else:
        require_memory("at, the steps to record,", 40 * len(at) if hasattr(at, "__len__") else 0, "give fewer of them")
        recorded = np.unique(np.asarray(at))
        whole = len(recorded) > 0 and recorded.dtype.kind in "iu"
        if not whole or recorded[0] < 0 or recorded[-1] > steps:
            raise RangeError(f"at must name whole steps from 0 to {steps}; it was {at!r:.80}")
    stride = int(np.clip(steps // FEWEST_EVALUATIONS, 1, STRIDE))
    regular = np.append(np.arange(0, steps, stride), steps)
    evaluated = np.union1d(recorded, regular)
    return Schedule(evaluated, np.isin(evaluated, recorded), np.isin(evaluated, regular))


class TrainState(NamedTuple):
    """The state of one seed."""

    parameters: Parameters
    memory: Any  # the rule's
    order: jax.Array | None  # of the examples in this epoch, for mini-batches


class Program(eqx.Module):
    """How one seed is trained.

    batch_size: of mini-batches. Each epoch goes once through a new order of the examples, or, if they are drawn, every
    step draws examples by their weights, with replacement.
    """

    learner: Learner
    rule: Rule
    recorder: Recorder
    evaluations: dict[str, Any]  # an `Evaluation`, or the like, on other examples, by name
    batch_size: int | None = eqx.field(static=True)
    drawn: bool = eqx.field(static=True)

    def record(self, parameters: Parameters, kept: Array, loss: jax.Array) -> Records:
        """Return the loss and, where they are kept, the other records."""
        found = {"loss": loss}
        if self.recorder.chosen or self.evaluations:
            shapes = jax.eval_shape(lambda at: self.others(at), parameters)
            blank = jax.tree.map(lambda space: jnp.zeros(space.shape, space.dtype), shapes)
            found |= jax.lax.cond(kept, lambda at: self.others(at), lambda _: blank, parameters)
        return found

    def others(self, parameters: Parameters) -> Records:
        """Return the records other than the loss."""
        found = self.recorder(self.learner, parameters)
        for name, evaluation in self.evaluations.items():
            weights = self.learner.unpack(parameters)
            values = evaluation(evaluation.stack(weights))
            found |= {f"{EVALUATED}{kind}[{name}]": value for kind, value in values.items()}
        return found

    def step(self, state: TrainState, key: jax.Array, number: jax.Array, slope: Parameters | None = None) -> TrainState:
        """Take one step; slope: the gradient of the full batch there, if it is known."""
        order = state.order
        if self.batch_size is not None:
            chosen, order = self._batch(order, key, number, self.batch_size)
            slope = self.learner.batch_gradient(state.parameters, chosen, by_weight=not self.drawn)
        elif slope is None:
            slope = self.learner.loss_and_gradient(state.parameters)[1]
        parameters, memory = self.rule.move(self.learner, state.memory, state.parameters, slope, number)
        return TrainState(parameters, memory, order)

    def _batch(self, order: Any, key: jax.Array, number: Array, size: int) -> tuple[jax.Array, Any]:
        """Choose the examples of this step; a last, incomplete batch is dropped from its epoch."""
        if self.drawn:
            return self.learner.draw(jax.random.fold_in(key, number), size), order
        count = self.learner.example_count
        each = count // size
        epoch = jax.random.fold_in(key, number // each)
        order = jax.lax.cond(
            number % each == 0, lambda: jax.random.permutation(epoch, count).astype(jnp.int32), lambda: order
        )
        return jax.lax.dynamic_slice(order, ((number % each) * size,), (size,)), order


def split(programs: Sequence[Program], seeds: int) -> tuple[Program, Program]:
    """Split programs of one shape: arrays in which they differ, with an axis for condition and seed, and the rest."""

    def differ(*leaves: Any) -> bool:
        return eqx.is_array(leaves[0]) and any(leaf is not leaves[0] for leaf in leaves)

    def own(*leaves: Any) -> np.ndarray | None:
        return np.repeat(np.stack([np.asarray(leaf) for leaf in leaves]), seeds, axis=0) if differ(*leaves) else None

    return jax.tree.map(own, *programs), jax.tree.map(lambda *each: None if differ(*each) else each[0], *programs)


def shape_of(program: Program) -> Any:
    """Equal for programs that differ in numbers only."""
    arrays, static = eqx.partition(program, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    others, skeleton = jax.tree.flatten(static)
    return structure, tuple((np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves), skeleton, tuple(others)


@compiled
def _start(own: Program, shared: Program, parameters: Parameters) -> Any:
    def one(own: Program, parameters: Parameters) -> Any:
        program = eqx.combine(own, shared)
        return program.rule.start(program.learner, parameters)

    return jax.vmap(one)(own, parameters)


@compiled
def _advance(
    own: Program,
    shared: Program,
    state: TrainState,
    keys: jax.Array,
    chunk: tuple[Array, Array, Array, Array],
    room: dict[str, jax.ShapeDtypeStruct],
    block: int,
    at_once: int,
) -> tuple[TrainState, Records]:
    """Evaluate and step.

    own, shared: the program, see `split`. chunk: of the evaluations of this call the steps to the next and whether each
    is recorded, how many they are, and the step of the first. room: variable -> (evaluations, seeds, ...). block: the
    steps between two evaluations are a multiple of this; 0: there is one step after every evaluation. at_once: as many
    seeds take their steps to the next evaluation side by side.
    """
    gaps, kept, number, step = chunk
    buffers = {name: jnp.zeros(space.shape, space.dtype) for name, space in room.items()}

    def body(i: jax.Array, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        state, buffers, first = carry

        def one(given: tuple[Program, TrainState, jax.Array]) -> tuple[TrainState, Records]:
            program, state, key = eqx.combine(given[0], shared), *given[1:]
            if not block and program.batch_size is None:  # loss and gradient share a forward pass
                loss, slope = program.learner.loss_and_gradient(state.parameters)
                found = program.record(state.parameters, jnp.asarray(kept)[i], loss)
                return program.step(state, key, first, slope), found
            found = program.record(state.parameters, jnp.asarray(kept)[i], program.learner.loss(state.parameters))

            def steps(k: jax.Array, state: TrainState) -> TrainState:
                begin = first + k * max(block, 1)
                if block <= 1:
                    return program.step(state, key, begin)
                return jax.lax.scan(lambda s, j: (program.step(s, key, begin + j), None), state, jnp.arange(block))[0]

            return jax.lax.fori_loop(0, jnp.asarray(gaps)[i] // max(block, 1), steps, state), found

        given = own, state, keys
        side_by_side = at_once >= len(keys)
        state, found = jax.vmap(one)(given) if side_by_side else jax.lax.map(one, given, batch_size=at_once)
        buffers = jax.tree.map(lambda buffer, value: buffer.at[i].set(value), buffers, found)
        return state, buffers, first + jnp.asarray(gaps)[i]

    state, buffers, _ = jax.lax.fori_loop(0, number, body, (state, buffers, step))
    return state, buffers


@dataclass
class Training:
    """A training in progress: state and records as they are before the evaluation numbered `next`.

    arrays: records on the host, seeds first, as many as are planned and one more. curve: the loss at all evaluations,
    (evaluations, seeds) each. filled: records so far.
    """

    recorder: Recorder
    schedule: Schedule
    state: TrainState
    next: int = 0
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    curve: list[np.ndarray] = field(default_factory=list)
    filled: int = 0

    @property
    def finished(self) -> bool:
        """Whether every evaluation was made."""
        return self.next >= len(self.schedule.steps)

    @property
    def step(self) -> int:
        """The step that comes next."""
        return int(self.schedule.steps[min(self.next, len(self.schedule.steps) - 1)])

    def keep(self, found: Records, kept: np.ndarray) -> None:
        """Finish and store the evaluations that are recorded, and the loss of all."""
        chosen = slice(0, len(kept)) if kept.all() else np.flatnonzero(kept)  # a slice copies nothing
        places = slice(self.filled, self.filled + int(kept.sum()))
        self.curve.append(np.asarray(found["loss"])[: len(kept)])
        for name, buffer in found.items():
            values = self.recorder.finish(name, np.asarray(buffer)[chosen])
            if name not in self.arrays:
                shape = values.shape[1], len(self.schedule.recorded) + 1, *values.shape[2:]  # an early end is one more
                self.arrays[name] = np.full(shape, np.nan if values.dtype.kind == "f" else 0, values.dtype)
            self.arrays[name][:, places] = values.swapaxes(0, 1)
        self.filled = places.stop

    def records(self) -> dict[str, np.ndarray]:
        """All records, and the loss at every evaluation as "curve", constant after divergence."""
        seen = np.concatenate(self.curve).T
        curve = np.repeat(seen[:, -1:], len(self.schedule.steps), axis=1)
        curve[:, : seen.shape[1]] = seen
        planned = len(self.schedule.recorded)  # fewer than at the start if training ended early
        return {name: array[:, :planned] for name, array in self.arrays.items()} | {"curve": curve}


def run(
    programs: Sequence[Program],
    parameters: Parameters,
    keys: jax.Array,
    schedule: Schedule,
    meter: Meter,
    watchers: Sequence[Watcher] = (),
    resume: Callable[[Training], None] | None = None,
) -> Training:
    """Train to the end, to divergence of every seed, or until a callback stops it.

    programs: of conditions of one shape, each for as many seeds. parameters, keys: seeds first; they are spread over
    the local devices. resume: puts a training where a checkpoint left it.
    """
    seeds, recorder = len(keys), programs[0].recorder
    own, shared = split(programs, seeds // len(programs))
    shared = jax.tree.map(lambda leaf: jax.device_put(leaf) if eqx.is_array(leaf) else leaf, shared)
    own, parameters, keys = shard((own, parameters, keys))
    memory = _start(own, shared, parameters) if type(shared.rule).start is not Rule.start else ()
    order = None
    if shared.batch_size is not None and not shared.drawn:
        order = shard(np.zeros((seeds, shared.learner.example_count), dtype=np.int32))
    training = Training(recorder, schedule, TrainState(parameters, memory, order))
    buffers = _buffers(programs[0], training, seeds)
    if resume is not None:
        resume(training)
    block, at_once = _pace(programs[0], parameters, schedule, seeds)
    count, capacity = 16, buffers["loss"].shape[0]
    pending: Future[None] | None = None
    with ThreadPoolExecutor(1) as host:  # finishes the records of a chunk while the device computes the next one
        while not training.finished:
            schedule, first = training.schedule, training.next
            last, began = len(schedule.steps) - 1, time.monotonic()
            count = min(count, capacity)
            stop = min(first + count, last) if first < last else last + 1
            gaps = np.append(np.diff(schedule.steps), 1)[first:stop]  # the step after the last evaluation is discarded
            number, step = np.asarray(stop - first, dtype=np.int32), np.asarray(schedule.steps[first], dtype=np.int32)
            kept = schedule.kept[first:stop]
            chunk = np.resize(gaps, capacity).astype(np.int32), np.resize(kept, capacity), number, step
            after, found = _advance(own, shared, training.state, keys, chunk, buffers, block, at_once)
            if pending is not None:
                pending.result()
            pending = host.submit(training.keep, found, kept)
            if stop <= last:  # after the last evaluation nothing moves
                training.state = after
            diverged = not np.isfinite(np.asarray(found["loss"])[stop - first - 1]).any()
            training.next = last + 1 if diverged else stop
            meter.advance(float(schedule.steps[min(stop, last)] - schedule.steps[first]) * len(programs))
            # chunks that take about CHUNK_SECONDS, growing by at most eight at a time
            count = int(np.clip(count * CHUNK_SECONDS / max(time.monotonic() - began, 1e-6), 1, 8 * count))
            if watchers:
                pending.result()
                if any(watch(training) for watch in watchers) and not training.finished:
                    training.schedule, watchers = training.schedule.until(training.next), ()
        if pending is not None:
            pending.result()
    return training


def _pace(program: Program, parameters: Parameters, schedule: Schedule, seeds: int) -> tuple[int, int]:
    """Choose the steps in a block, and how many seeds take them side by side.

    On a CPU seeds take turns where the weights of several do not fit into its caches from step to step. On a GPU every
    synchronization with the host costs a good part of a small step, so steps are taken in blocks of known length.
    """
    gaps, cpu, devices = np.diff(schedule.steps), jax.default_backend() == "cpu", jax.local_device_count()
    block = 0 if (gaps == 1).all() else 1
    if block and not cpu:
        common = int(np.gcd.reduce(gaps))
        block = max(size for size in range(1, 101) if common % size == 0)
    weights = sum(leaf.nbytes for leaf in jax.tree.leaves(parameters)) // seeds
    if cpu and devices == 1 and 2 * weights > threads() * NEAR_BYTES and block and gaps.mean() >= 4:
        return block, 1  # fetching the weights of one seed takes some steps
    rows = program.batch_size or program.learner.example_count
    activity = 8 * rows * sum(program.learner.architecture.nodes.values())
    room = devices * SEED_BYTES * (1 if cpu else 32)
    return block, int(np.clip(room // (6 * weights + 4 * activity + 1), 1, seeds))


def _buffers(program: Program, training: Training, seeds: int) -> dict[str, jax.ShapeDtypeStruct]:
    """As many evaluations as fit on the device at once, up to a power of two, so that like trainings share a program.

    Records that do not fit into memory, as they are after they are finished on the host, are refused.
    """
    space: Any = jax.ShapeDtypeStruct  # it has no types
    parameters = jax.tree.map(lambda leaf: space(leaf.shape[1:], leaf.dtype), training.state.parameters)
    shapes = {"loss": space((), jax.tree.leaves(parameters)[0].dtype)}  # without tracing it
    if program.recorder.chosen or program.evaluations:
        shapes |= eqx.filter_eval_shape(lambda made, at: made.others(at), program, parameters)
    for name, leaf in shapes.items():
        kept = program.recorder.finish(name, np.zeros((1, 1, *leaf.shape), leaf.dtype))
        shape = (seeds, len(training.schedule.recorded), *kept.shape[2:])
        require_memory(
            f"the record {name!r}, {' x '.join(f'{size:,}' for size in shape)},",
            math.prod(shape) * kept.dtype.itemsize,
            "record less often with every=... or at=..., leave it out, or give fewer seeds",
        )
    bytes_at_once = seeds * sum(leaf.size * leaf.dtype.itemsize for leaf in shapes.values())
    capacity = int(min(max(CHUNK_BYTES // max(bytes_at_once, 1), 1), bucket_size(len(training.schedule.steps))))
    return {name: space((capacity, seeds, *leaf.shape), leaf.dtype) for name, leaf in shapes.items()}
