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

from neuralrace._engine.devices import bucket_size, compiled, pad_to, padded_count, replicate, shard, threads
from neuralrace.axes import Array
from neuralrace.errors import RangeError, require_count
from neuralrace.memory import require_memory
from neuralrace.progress import Meter
from neuralrace.training.learner import LossFunction, Parameters
from neuralrace.training.records import Recorder
from neuralrace.training.rules import Rule
from neuralrace.trajectory import FEWEST_LOOKS

STRIDE = 100  # the most steps between two evaluations of the loss, recorded or not
CHUNK_BYTES = 64 << 20  # records that are held on the device at once
CHUNK_SECONDS = 0.5  # how often control returns, for progress, checkpoints and to stop on divergence
NEAR_BYTES = 1 << 19  # weights and gradient per core: with more, a core's cache does not hold several seeds

Records = dict[str, jax.Array]  # variable -> array
Watcher = Callable[["Training"], bool]  # called between chunks; returning True ends the training


@dataclass(frozen=True)
class Schedule:
    """The steps at which the loss is evaluated.

    looks: ascending steps, the last is the end. kept: whether each is recorded. regular: whether each is evaluated
    whatever is recorded.
    """

    looks: np.ndarray
    kept: np.ndarray
    regular: np.ndarray

    @property
    def steps(self) -> int:
        """The last step."""
        return int(self.looks[-1])

    @property
    def recorded(self) -> np.ndarray:
        """The steps to record."""
        return self.looks[self.kept]

    @property
    def gaps(self) -> np.ndarray:
        """Steps from each evaluation to the next."""
        return np.diff(self.looks)

    def until(self, look: int) -> "Schedule":
        """End at an evaluation, which is recorded in any case."""
        kept = self.kept[: look + 1].copy()
        kept[-1] = True
        return Schedule(self.looks[: look + 1], kept, self.regular[: look + 1])


def make_schedule(steps: int, every: int, at: Sequence[int] | None) -> Schedule:
    """Record every n steps and at the end, or at the given steps."""
    steps = require_count("steps", steps, least=0)
    if at is None:
        every = require_count("every", every)
        recorded = np.unique(np.append(np.arange(0, steps + 1, every), steps))
    else:
        recorded = np.unique(np.asarray(at))
        whole = len(recorded) > 0 and recorded.dtype.kind in "iu"
        if not whole or recorded[0] < 0 or recorded[-1] > steps:
            raise RangeError(f"at must name whole steps from 0 to {steps}; it was {at!r:.80}")
    stride = int(np.clip(steps // FEWEST_LOOKS, 1, STRIDE))
    regular = np.append(np.arange(0, steps, stride), steps)
    looks = np.union1d(recorded, regular)
    return Schedule(looks, np.isin(looks, recorded), np.isin(looks, regular))


class TrainState(NamedTuple):
    """What training carries from step to step; seeds first."""

    parameters: Parameters
    memory: Any  # the rule's
    order: jax.Array  # of the examples, for mini-batches


class Batches(eqx.Module):
    """How mini-batches are chosen: each epoch goes once through a new order of the examples, or each step draws anew.

    drawn: every step draws its examples by their weights, with replacement. count: of all examples.
    """

    size: int = eqx.field(static=True)
    count: int = eqx.field(static=True)
    drawn: bool = eqx.field(static=True)


class Program(eqx.Module):
    """What the loop is compiled for. mapped: which arrays of learner and rule have an axis for the seeds."""

    learner: LossFunction
    rule: Rule
    recorder: Recorder = Recorder()
    batches: Batches | None = None
    mapped: tuple[bool, ...] = eqx.field(static=True, default=())  # in the order of their leaves; empty: none

    def start(self, parameters: Parameters) -> TrainState:
        """Make the state of each seed before the first step; parameters have a leading axis of seeds."""
        seeds = jax.tree.leaves(parameters)[0].shape[0]
        shuffled = 0 if self.batches is None or self.batches.drawn else self.batches.count
        memory = _start_rule(self, parameters) if type(self.rule).start is not Rule.start else ()
        return TrainState(parameters, memory, jax.device_put(np.zeros((seeds, shuffled), dtype=np.int32)))

    def evaluate(self, parameters: Parameters, kept: Array, loss: jax.Array | None = None) -> Records:
        """Evaluate loss and records of every seed; loss: if it is known. kept: whether costly records are needed."""
        if loss is None:
            loss = self.each(lambda learner, rule, p: learner.loss(p))(parameters)
        if not self.recorder.costly:
            return self._records(parameters) | {"loss": loss}

        def blank(at: Parameters) -> Records:
            shapes = jax.eval_shape(lambda given: self._records(given), at)
            return jax.tree.map(lambda space: jnp.zeros(space.shape, space.dtype), shapes)

        return {**jax.lax.cond(kept, lambda at: self._records(at), blank, parameters), "loss": loss}

    def evaluate_and_step(
        self, state: TrainState, keys: jax.Array, step: jax.Array, kept: Array
    ) -> tuple[TrainState, Records]:
        """Evaluate and take one step; a full batch shares the gradient's forward pass with the loss."""
        if self.batches is not None:
            return self.step(state, keys, step), self.evaluate(state.parameters, kept)
        loss, slope = self.each(lambda learner, rule, p: learner.loss_and_gradient(p))(state.parameters)
        return self.step(state, keys, step, slope), self.evaluate(state.parameters, kept, loss)

    def record_shapes(self, parameters: Parameters) -> dict[str, Any]:
        """The shapes of an evaluation; the loss has the parameters' type, so nothing is traced for it."""
        shape: Any = jax.ShapeDtypeStruct  # it has no types
        leaf = jax.tree.leaves(parameters)[0]
        records = eqx.filter_eval_shape(lambda given: self._records(given), parameters) if self.recorder.chosen else {}
        return records | {"loss": shape(leaf.shape[:1], leaf.dtype)}

    def _records(self, parameters: Parameters) -> Records:
        if not self.recorder.chosen:
            return {}
        found: Records = self.each(lambda learner, rule, p: self.recorder(learner, p))(parameters)
        return found

    def step(self, state: TrainState, keys: jax.Array, step: jax.Array, slope: Parameters | None = None) -> TrainState:
        """Take one step for every seed; slope: the gradient there, if it is known."""
        chosen, order = self._batch(state.order, keys, step)

        def one(learner: Any, rule: Rule, parameters: Any, memory: Any, slope: Any, chosen: Any) -> Any:
            if self.batches is not None:
                slope = learner.batch_gradient(parameters, chosen, by_weight=not self.batches.drawn)
            elif slope is None:
                slope = learner.loss_and_gradient(parameters)[1]
            return rule.move(learner, memory, parameters, slope, step)

        parameters, memory = self.each(one)(state.parameters, state.memory, slope, chosen)
        return TrainState(parameters, memory, order)

    def _batch(self, order: jax.Array, keys: jax.Array, step: jax.Array) -> tuple[jax.Array | None, jax.Array]:
        """The examples of this step for each seed; those that do not fill a batch are left out of their epoch."""
        if self.batches is None:
            return None, order
        count, size = self.batches.count, self.batches.size
        if self.batches.drawn:
            draw = self.each(lambda learner, rule, key: learner.draw(jax.random.fold_in(key, step), size))
            return draw(keys), order
        batches = max(count // size, 1)

        def shuffle(_: jax.Array) -> jax.Array:
            epoch_keys = jax.vmap(lambda key: jax.random.fold_in(key, step // batches))(keys)
            return jax.vmap(lambda key: jax.random.permutation(key, count).astype(jnp.int32))(epoch_keys)

        order = jax.lax.cond(step % batches == 0, shuffle, lambda old: old, order)
        return jax.lax.dynamic_slice_in_dim(order, (step % batches) * size, min(size, count), axis=1), order

    def each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Map a function of (learner, rule, ...) over the seeds."""
        leaves, made = self.parts()
        axes = [0 if own else None for own in self._own(leaves)]

        def apply(*arguments: Any) -> Any:
            def one(inner: list[Any], *rest: Any) -> Any:
                return function(*made(inner), *rest)

            return jax.vmap(one, in_axes=(axes, *[0] * len(arguments)))(leaves, *arguments)

        return apply

    def in_turn(
        self, state: TrainState, keys: jax.Array, work: "Callable[[Program, TrainState, jax.Array], TrainState]"
    ) -> TrainState:
        """Advance the seeds one after the other; work gets the program of one seed, with an axis of one."""
        leaves, made = self.parts()
        own = self._own(leaves)

        def one(given: tuple[list[Any], TrainState, jax.Array]) -> TrainState:
            theirs, state, key = jax.tree.map(lambda leaf: leaf[None], given)
            found = [mine if has else leaf for has, mine, leaf in zip(own, theirs, leaves, strict=True)]
            program = Program(*made(found), self.recorder, self.batches, self.mapped)
            return jax.tree.map(lambda leaf: leaf[0], work(program, state, key))

        theirs = [leaf if has else None for has, leaf in zip(own, leaves, strict=True)]
        found: TrainState = jax.lax.map(one, (theirs, state, keys))
        return found

    def parts(self) -> tuple[list[Any], Callable[[list[Any]], tuple[LossFunction, Rule]]]:
        """The arrays of learner and rule, and a function that makes the two of such arrays."""
        arrays, static = eqx.partition((self.learner, self.rule), eqx.is_array)
        leaves, structure = jax.tree.flatten(arrays)
        return leaves, lambda found: eqx.combine(jax.tree.unflatten(structure, found), static)

    def placed(self, room: int) -> "Program":
        """Put the arrays on the devices: those that each seed has of its own in parts, the rest on each."""
        leaves, made = self.parts()
        found = [
            shard(pad_to(leaf, room)) if own else replicate(leaf, room)
            for leaf, own in zip(leaves, self._own(leaves), strict=True)
        ]
        return Program(*made(found), self.recorder, self.batches, self.mapped)

    def _own(self, leaves: list[Any]) -> tuple[bool, ...]:
        return self.mapped or (False,) * len(leaves)


@compiled
def _start_rule(program: Program, parameters: Parameters) -> Any:
    return program.each(lambda learner, rule, p: rule.start(learner, p))(parameters)


def one_program(programs: Sequence[Program], seeds: int) -> Program:
    """Make one program of several of one shape; the arrays in which they differ get an axis for condition and seed."""
    first = programs[0]
    if len(programs) == 1:
        return first
    columns = list(zip(*(one.parts()[0] for one in programs), strict=True))
    mapped = tuple(any(leaf is not column[0] for leaf in column) for column in columns)
    leaves = [
        np.repeat(np.stack([np.asarray(leaf) for leaf in column]), seeds, axis=0) if own else column[0]
        for own, column in zip(mapped, columns, strict=True)
    ]
    return Program(*first.parts()[1](leaves), first.recorder, first.batches, mapped)


def shape_of(program: Program) -> Any:
    """Equal for programs that differ in numbers only."""
    arrays, static = eqx.partition(program, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    shapes = tuple((np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves)
    others, skeleton = jax.tree.flatten(static)
    return structure, shapes, skeleton, tuple(others)


class Chunk(NamedTuple):
    """The evaluations of one call: steps to the next, whether recorded, how many, and the step of the first."""

    gaps: Array
    kept: Array
    number: Array
    step: Array


@compiled
def _advance(
    program: Program,
    state: TrainState,
    keys: jax.Array,
    chunk: Chunk,
    room: dict[str, jax.ShapeDtypeStruct],
    block: int,
    in_turn: bool,
) -> tuple[TrainState, Records]:
    """Evaluate and step.

    room: variable -> (evaluations, seeds, ...). block: the steps between two evaluations are a multiple of this; 0:
    there is one step after every evaluation. in_turn: one seed after the other takes its steps to the next evaluation.
    """
    buffers = {name: jnp.zeros(space.shape, space.dtype) for name, space in room.items()}

    def steps(part: Program, state: TrainState, keys: jax.Array, first: jax.Array, number: jax.Array) -> TrainState:
        def some(k: jax.Array, state: TrainState) -> TrainState:
            begin = first + k * block
            if block == 1:
                return part.step(state, keys, begin)
            return jax.lax.scan(lambda s, i: (part.step(s, keys, begin + i), None), state, jnp.arange(block))[0]

        return jax.lax.fori_loop(0, number // block, some, state)

    def body(i: jax.Array, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        state, buffers, step = carry
        if block:  # one forward pass more for each evaluation, and half as much to compile
            found, number = program.evaluate(state.parameters, chunk.kept[i]), chunk.gaps[i]
            if in_turn:
                state = program.in_turn(state, keys, lambda one, s, key: steps(one, s, key, step, number))
            else:
                state = steps(program, state, keys, step, number)
        else:
            state, found = program.evaluate_and_step(state, keys, step, chunk.kept[i])
        buffers = jax.tree.map(lambda buffer, value: buffer.at[i].set(value), buffers, found)
        return state, buffers, step + chunk.gaps[i]

    state, buffers, _ = jax.lax.fori_loop(0, chunk.number, body, (state, buffers, chunk.step))
    return state, buffers


@dataclass
class Training:
    """A training in progress: state and records as they are before the evaluation numbered `next`.

    seeds: without those that only fill up the devices. arrays: records on the host, seeds first. curve: the loss at all
    evaluations, (evaluations, seeds) each. filled: records so far.
    """

    program: Program
    schedule: Schedule
    keys: jax.Array
    state: TrainState
    seeds: int
    next: int = 0
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    curve: list[np.ndarray] = field(default_factory=list)
    filled: int = 0

    @property
    def finished(self) -> bool:
        """Whether every evaluation was made, or nothing is left to see."""
        return self.next >= len(self.schedule.looks)

    def keep(self, found: Records, kept: np.ndarray, total: int) -> None:
        """Finish and store the evaluations that are recorded, and the loss of all."""
        chosen = slice(0, len(kept)) if kept.all() else np.flatnonzero(kept)  # a slice copies nothing
        count = int(kept.sum())
        self.curve.append(np.asarray(found["loss"])[: len(kept), : self.seeds])
        for name, buffer in found.items():
            values = self.program.recorder.finish(name, np.asarray(buffer)[chosen][:, : self.seeds])
            if name not in self.arrays:
                blank = np.nan if values.dtype.kind == "f" else 0
                self.arrays[name] = np.full((self.seeds, total, *values.shape[2:]), blank, values.dtype)
            missing = self.filled + count - self.arrays[name].shape[1]
            if missing > 0:  # an early end is recorded where nothing was planned
                more = np.zeros((self.seeds, missing, *values.shape[2:]), values.dtype)
                self.arrays[name] = np.concatenate([self.arrays[name], more], axis=1)
            self.arrays[name][:, self.filled : self.filled + count] = values.swapaxes(0, 1)
        self.filled += count

    def records(self) -> dict[str, np.ndarray]:
        """All records, and the loss at every evaluation as "curve", constant after divergence."""
        seen = np.concatenate(self.curve).T
        curve = np.repeat(seen[:, -1:], len(self.schedule.looks), axis=1)
        curve[:, : seen.shape[1]] = seen
        planned = len(self.schedule.recorded)  # fewer than at the start if training ended early
        return {name: array[:, :planned] for name, array in self.arrays.items()} | {"curve": curve}

    def parameters(self) -> Any:
        """The parameters of all seeds, on the host."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: self.seeds], self.state.parameters)


def run(
    program: Program,
    parameters: Parameters,
    keys: jax.Array,
    schedule: Schedule,
    meter: Meter | None = None,
    watchers: Sequence[Watcher] = (),
    resume: Callable[[Training], None] | None = None,
) -> Training:
    """Train to the end, to divergence of every seed, or until a watcher says stop.

    parameters: seeds first; they are spread over all local devices. meter: counts the steps. resume: puts a training
    where a checkpoint left it.
    """
    room = padded_count(len(keys))
    total, seeds = len(schedule.recorded), len(keys)
    program = program.placed(room)
    parameters, keys = shard(pad_to((parameters, keys), room))
    training = Training(program, schedule, keys, program.start(parameters), seeds)
    buffers = _buffers(training)
    if resume is not None:
        resume(training)
    block, in_turn, capacity = _block(schedule.gaps), _in_turn(training), buffers["loss"].shape[0]
    count, pending = min(capacity, 16), list[Future[None]]()

    def settle() -> None:
        while pending:
            pending.pop(0).result()  # an error on the host shows here

    with ThreadPoolExecutor(1) as host:
        while not training.finished:
            schedule, first = training.schedule, training.next
            last, began = len(schedule.looks) - 1, time.monotonic()
            stop = min(first + count, last) if first < last else last + 1
            gaps = np.append(schedule.gaps, 1)[first:stop]  # the step after the last evaluation is thrown away
            number, step = np.asarray(stop - first, dtype=np.int32), np.asarray(schedule.looks[first], dtype=np.int32)
            kept = schedule.kept[first:stop]
            chunk = Chunk(np.resize(gaps, capacity).astype(np.int32), np.resize(kept, capacity), number, step)
            after, found = _advance(program, training.state, keys, chunk, buffers, block, in_turn)
            pending.append(host.submit(training.keep, found, kept, total))
            if stop <= last:  # after the last evaluation nothing moves
                training.state = after
            if meter is not None:
                meter.advance(float(schedule.looks[min(stop, last)] - schedule.looks[first]) * seeds)
            diverged = not np.isfinite(np.asarray(found["loss"])[stop - first - 1]).any()
            training.next = last + 1 if diverged else stop
            # chunks that take about CHUNK_SECONDS, growing by at most eight at a time
            wanted = count * CHUNK_SECONDS / max(time.monotonic() - began, 1e-6)
            count = int(np.clip(wanted, 1, min(8 * count, capacity)))
            if watchers:
                settle()
                if any(watch(training) for watch in watchers) and not training.finished:
                    training.schedule, watchers = training.schedule.until(training.next), ()
    settle()
    return training


def _block(gaps: np.ndarray) -> int:
    """Steps taken without asking the host, where asking costs: on a GPU a good part of a small step."""
    if (gaps == 1).all():
        return 0
    if jax.default_backend() == "cpu":
        return 1
    common = int(np.gcd.reduce(gaps))
    return max(size for size in range(1, 101) if common % size == 0)


def _in_turn(training: Training) -> bool:
    """Whether seeds take turns: on a CPU, if the weights of several do not fit into its caches from step to step."""
    seeds, leaves = len(training.keys), jax.tree.leaves(training.state.parameters)
    if seeds == 1 or jax.default_backend() != "cpu" or jax.local_device_count() > 1:
        return False
    large = 2 * sum(leaf.nbytes for leaf in leaves) // seeds > threads() * NEAR_BYTES  # with a gradient
    gaps = training.schedule.gaps
    return large and len(gaps) > 0 and bool(gaps.mean() >= 4)  # fetching the weights of one seed takes some steps


def _buffers(training: Training) -> dict[str, jax.ShapeDtypeStruct]:
    """As many evaluations as fit on the device at once, up to a power of two, so that like trainings share a program.

    Records that do not fit into memory, as they are after they are finished on the host, are refused.
    """
    shapes = training.program.record_shapes(training.state.parameters)
    for name, leaf in shapes.items():
        kept = training.program.recorder.finish(name, np.zeros((1, 1, *leaf.shape[1:]), leaf.dtype))
        shape = (training.seeds, len(training.schedule.recorded), *kept.shape[2:])
        require_memory(
            f"the record {name!r}, {' x '.join(f'{size:,}' for size in shape)},",
            math.prod(shape) * kept.dtype.itemsize,
            "record less often with every=... or at=..., leave it out, or give fewer seeds",
        )
    bytes_at_once = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    fitting = max(CHUNK_BYTES // max(bytes_at_once, 1), 1)
    capacity = int(min(fitting, bucket_size(len(training.schedule.looks))))
    return {name: leaf.update(shape=(capacity, *leaf.shape)) for name, leaf in shapes.items()}
