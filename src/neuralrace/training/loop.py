"""The training loop: one compiled program for all steps, seeds and conditions, that hands records back in chunks.

The program is compiled at module level for a shape: networks, rules and examples are its arguments.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import everywhere, padded, room_for, spread
from neuralrace._engine.network import Stacks
from neuralrace.axes import Array
from neuralrace.progress import Meter
from neuralrace.training.estimates import check_records
from neuralrace.training.learner import Learner
from neuralrace.training.records import Recorder
from neuralrace.training.rules import Rule, Step
from neuralrace.training.schedule import Schedule

CHUNK_BYTES = 64 << 20  # records that are held on the device at once
FEWEST = 64  # looks that a program has room for, if that many fit: short trainings then share it
BLOCK = 100  # steps of known number in a row, at most
CHUNK_SECONDS = 0.5  # how often control returns, for progress, checkpoints and to stop on divergence

Finish = Callable[[np.ndarray], np.ndarray]
Views = dict[str, jax.Array]  # variable -> array
Room = dict[str, jax.ShapeDtypeStruct]  # variable -> (looks, seeds, ...)


class State(NamedTuple):
    """What training carries from step to step; seeds first."""

    parameters: Stacks
    memory: Any  # the rule's
    order: jax.Array  # of the examples, for mini-batches
    resting: jax.Array  # seeds that have reached the loss to stop at


class Batches(eqx.Module):
    """How mini-batches are drawn: each epoch goes once through a new order of the examples, or each step draws anew.

    drawn: every step draws its examples by their weights, with replacement.
    """

    size: int = eqx.field(static=True)
    drawn: bool = eqx.field(static=True)


class Program(eqx.Module):
    """What the loop is compiled for. mapped: which arrays of learner and rule have an axis for the seeds."""

    learner: Learner
    rule: Rule
    recorder: Recorder
    batches: Batches | None
    level: Array | None  # the loss at which a seed stops
    mapped: tuple[bool, ...] = eqx.field(static=True)  # in the order of their leaves; empty: none

    def start(self, parameters: Stacks) -> State:
        """The state of each seed before the first step; parameters have a leading axis of seeds."""
        seeds = jax.tree.leaves(parameters)[0].shape[0]
        shuffled = self.batches is not None and not self.batches.drawn
        order = jnp.zeros((seeds, self.learner.example_count if shuffled else 0), dtype=jnp.int32)
        memory = self._each(lambda learner, rule, p: rule.start(learner, p))(parameters)
        return State(parameters, memory, order, jnp.zeros(seeds, dtype=bool))

    def look(self, state: State, how: "How") -> tuple[State, Views]:
        """Look at every seed."""
        return self._seen(state, self._each(lambda learner, rule, p: learner.loss(p))(state.parameters), how)

    def look_and_step(self, state: State, keys: jax.Array, step: jax.Array, how: "How") -> tuple[State, Views]:
        """Look at every seed and take one step; a full batch shares the gradient's forward pass with the loss."""
        if self.batches is not None:
            state, seen = self.look(state, how)
            return self._moved(state, None, keys, step), seen
        loss, slope = self._each(lambda learner, rule, p: learner.loss_and_gradient(p))(state.parameters)
        state, seen = self._seen(state, loss, how)
        return self._moved(state, slope, keys, step), seen

    def step(self, state: State, keys: jax.Array, step: jax.Array) -> State:
        """Take one step for every seed."""
        return self._moved(state, None, keys, step)

    def _seen(self, state: State, loss: jax.Array, how: "How") -> tuple[State, Views]:
        record = self._each(lambda learner, rule, p: self.recorder.look(learner, p))
        if self.recorder.costly:  # not where it would be thrown away
            shapes = jax.eval_shape(record, state.parameters)
            blank = jax.tree.map(lambda space: jnp.zeros(space.shape, space.dtype), shapes)
            seen = jax.lax.cond(how.kept, record, lambda _: blank, state.parameters)
        else:
            seen = record(state.parameters)
        if self.level is not None:
            state = state._replace(resting=state.resting | (how.regular & (loss <= self.level)))
        return state, seen | {"loss": loss}

    def _moved(self, state: State, slope: Stacks | None, keys: jax.Array, step: jax.Array) -> State:
        chosen, order = self._batch(state.order, keys, step)

        def one(learner: Learner, rule: Rule, parameters: Stacks, memory: Any, slope: Any, chosen: Any) -> Any:
            def gradient(at: Stacks) -> Stacks:
                if self.batches is None:
                    return learner.loss_and_gradient(at)[1]
                return learner.batch_gradient(at, chosen, by_weight=not self.batches.drawn)

            here = gradient(parameters) if slope is None else slope
            return rule.move(learner, memory, Step(parameters, here, gradient, step))

        parameters, memory = self._each(one)(state.parameters, state.memory, slope, chosen)
        if self.level is not None:  # a seed that has arrived rests
            parameters, memory = jax.tree.map(
                lambda new, old: jnp.where(state.resting.reshape(-1, *[1] * (new.ndim - 1)), old, new),
                (parameters, memory),
                (state.parameters, state.memory),
            )
        return State(parameters, memory, order, state.resting)

    def _batch(self, order: jax.Array, keys: jax.Array, step: jax.Array) -> tuple[jax.Array | None, jax.Array]:
        """The examples of this step for each seed; what does not fill a batch of an epoch waits."""
        if self.batches is None:
            return None, order
        count = self.learner.example_count
        if self.batches.drawn:
            size = self.batches.size
            draw = self._each(lambda learner, rule, key: learner.draw(jax.random.fold_in(key, step), size))
            return draw(keys), order
        batches = max(count // self.batches.size, 1)

        def shuffle(_: jax.Array) -> jax.Array:
            epoch_keys = jax.vmap(lambda key: jax.random.fold_in(key, step // batches))(keys)
            return jax.vmap(lambda key: jax.random.permutation(key, count).astype(jnp.int32))(epoch_keys)

        order = jax.lax.cond(step % batches == 0, shuffle, lambda old: old, order)
        start = (step % batches) * self.batches.size
        return jax.lax.dynamic_slice_in_dim(order, start, min(self.batches.size, count), axis=1), order

    def _each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Map (learner, rule, ...) over the seeds."""
        arrays, static = eqx.partition((self.learner, self.rule), eqx.is_array)
        leaves, structure = jax.tree.flatten(arrays)
        axes = [0 if own else None for own in self.mapped] or [None] * len(leaves)

        def apply(*arguments: Any) -> Any:
            def one(inner: list[Any], *rest: Any) -> Any:
                return function(*eqx.combine(jax.tree.unflatten(structure, inner), static), *rest)

            return jax.vmap(one, in_axes=(axes, *[0] * len(arguments)))(leaves, *arguments)

        return apply


class How(NamedTuple):
    """What a look is for: one of those that are made in any case, one that is recorded, or both."""

    regular: Array
    kept: Array


class Looks(NamedTuple):
    """The looks of one chunk: steps to the next, what each is for, how many, and the first's step."""

    gaps: Array
    how: How
    number: Array
    step: Array


@eqx.filter_jit
def _advance(
    program: Program, state: State, keys: jax.Array, looks: Looks, room: Room, block: int
) -> tuple[State, Views, jax.Array]:
    """Make some looks with the steps between them; also return how many were made before all seeds came to rest.

    block: the steps between two looks are a multiple of this; 0: there is one step after every look.
    """
    buffers = {name: jnp.zeros(space.shape, space.dtype) for name, space in room.items()}

    def unfinished(carry: tuple[Any, ...]) -> jax.Array:
        i, state, *_ = carry
        going = (i < looks.number) if program.level is None else (i < looks.number) & ~state.resting.all()
        return going | ((i == 0) & (looks.number > 0))  # a last look is made at rest too

    def steps(state: State, first: jax.Array) -> State:
        if block == 1:
            return program.step(state, keys, first)
        return jax.lax.scan(lambda s, k: (program.step(s, keys, first + k), None), state, jnp.arange(block))[0]

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        i, state, buffers, step = carry
        how = How(looks.how.regular[i], looks.how.kept[i])
        if block:  # one forward pass more for each look, and half as much to compile
            state, seen = program.look(state, how)
            state = jax.lax.fori_loop(0, looks.gaps[i] // block, lambda k, s: steps(s, step + k * block), state)
        else:
            state, seen = program.look_and_step(state, keys, step, how)
        buffers = jax.tree.map(lambda buffer, value: buffer.at[i].set(value), buffers, seen)
        return i + 1, state, buffers, step + looks.gaps[i]

    start = (jnp.zeros((), jnp.int32), state, buffers, looks.step)
    made, state, buffers, _ = jax.lax.while_loop(unfinished, body, start)
    return state, buffers, made


@dataclass
class Memory:
    """What was seen so far, on the host, seeds first; without those that only fill up the devices."""

    seeds: int
    total: int  # records
    finish: Mapping[str, Finish]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    curve: list[np.ndarray] = field(default_factory=list)  # the loss at all looks, (looks, seeds) each
    filled: int = 0

    def keep(self, seen: Views, kept: np.ndarray) -> None:
        """Finish and store the looks that are recorded, and the loss of all."""
        chosen = slice(0, len(kept)) if kept.all() else np.flatnonzero(kept)  # a slice copies nothing
        count = int(kept.sum())
        self.curve.append(np.asarray(seen["loss"])[: len(kept), : self.seeds])
        for name, buffer in seen.items():
            values = np.asarray(buffer)[chosen][:, : self.seeds]
            if name in self.finish:
                values = self.finish[name](values)
            if name not in self.arrays:
                blank = np.nan if values.dtype.kind == "f" else 0
                self.arrays[name] = np.full((self.seeds, self.total, *values.shape[2:]), blank, values.dtype)
            here = self.arrays[name][:, self.filled :]
            if here.shape[1] < count:  # an early end is recorded where nothing was planned
                room = np.zeros((self.seeds, count - here.shape[1], *values.shape[2:]), values.dtype)
                self.arrays[name] = np.concatenate([self.arrays[name], room], axis=1)
            self.arrays[name][:, self.filled : self.filled + count] = values.swapaxes(0, 1)
        self.filled += count

    def records(self, schedule: Schedule) -> dict[str, np.ndarray]:
        """Everything that was kept, and the loss at every look as "curve"; NaN after a stop on divergence."""
        seen = np.concatenate(self.curve).T
        curve = np.full((self.seeds, len(schedule.looks)), np.nan)
        curve[:, : seen.shape[1]] = seen
        planned = len(schedule.recorded)  # fewer than at the start if training ended early
        return {name: array[:, :planned] for name, array in self.arrays.items()} | {"curve": curve}


@dataclass
class Training:
    """A training under way: state and memory as they are before the look numbered `next`."""

    program: Program
    schedule: Schedule
    keys: jax.Array
    state: State
    memory: Memory
    next: int = 0

    @property
    def finished(self) -> bool:
        """Whether every look was made, or there is nothing left to see."""
        return self.next >= len(self.schedule.looks)


class Watcher(Protocol):
    """Somebody who looks on, now and then, and may end the training."""

    def due(self) -> bool:
        """Whether to look now."""

    def look(self, training: Training) -> bool:
        """Look, and say whether to stop here."""


def begin(program: Program, parameters: Stacks, keys: jax.Array, schedule: Schedule) -> Training:
    """A training before its first step; parameters: seeds first. The seeds are spread over all local devices."""
    seeds = len(keys)
    room = room_for(seeds)
    on_device = _placed(program, room)
    parameters, keys = spread(padded((parameters, keys), room))
    memory = Memory(seeds, len(schedule.recorded), program.recorder.finish())
    return Training(on_device, schedule, keys, on_device.start(parameters), memory)


def _placed(program: Program, room: int) -> Program:
    """The program with its arrays on the devices: those that each seed has of its own spread, the rest on each."""
    if not any(program.mapped):
        return everywhere(program, room)
    arrays, static = eqx.partition((program.learner, program.rule), eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    placed = [
        spread(padded(leaf, room)) if mapped else everywhere(leaf, room)
        for leaf, mapped in zip(leaves, program.mapped, strict=True)
    ]
    learner, rule = eqx.combine(jax.tree.unflatten(structure, placed), static)
    recorder, batches, level = everywhere((program.recorder, program.batches, program.level), room)
    return Program(learner, rule, recorder, batches, level, program.mapped)


def go_on(training: Training, meter: Meter, watchers: Sequence[Watcher] = ()) -> None:
    """Train to the end, to rest, to divergence of every seed, or until a watcher says stop."""
    room, block = _room(training), _block(training.schedule.gaps)
    capacity = room["loss"].shape[0]
    count = min(capacity, 16)
    kept: list[Future[None]] = []
    with ThreadPoolExecutor(1) as host:
        while not training.finished:
            schedule, first = training.schedule, training.next
            last = len(schedule.looks) - 1
            stop = min(first + count, last) if first < last else last + 1
            began = time.monotonic()
            looks = _looks(schedule, first, stop, capacity)
            after, seen, made = _advance(training.program, training.state, training.keys, looks, room, block)
            number = int(made)
            kept.append(host.submit(training.memory.keep, seen, schedule.kept[first : first + number]))
            if stop <= last:  # after the last look nothing moves
                training.state = after
            meter.advance(float(schedule.looks[min(stop, last)] - schedule.looks[first]) * training.memory.seeds)
            diverged = not np.isfinite(np.asarray(seen["loss"])[number - 1]).any()
            training.next = last + 1 if diverged else stop
            if number < stop - first:
                _come_to_rest(training, first + number)
            count = _next_count(count, time.monotonic() - began, capacity)
            due = [watcher for watcher in watchers if training.finished or watcher.due()]
            if due:
                _settle(kept)
                wishes = [watcher.look(training) for watcher in due]
                if any(wishes) and not training.finished:
                    training.schedule, watchers = training.schedule.until(training.next), ()
    _settle(kept)


def _block(gaps: np.ndarray) -> int:
    """Steps that are taken without a word from the host, where asking it costs: on a GPU, a part of a small step."""
    if not (gaps > 1).any():
        return 0
    if jax.default_backend() == "cpu":
        return 1
    common = int(np.gcd.reduce(gaps))
    return max(size for size in range(1, BLOCK + 1) if common % size == 0)


def _looks(schedule: Schedule, first: int, stop: int, capacity: int) -> Looks:
    gaps = np.append(schedule.gaps, 1)  # after the last look there is nothing to run; its step is thrown away
    return Looks(
        np.resize(gaps[first:stop], capacity).astype(np.int32),
        How(np.resize(schedule.regular[first:stop], capacity), np.resize(schedule.kept[first:stop], capacity)),
        np.asarray(stop - first, dtype=np.int32),
        np.asarray(schedule.looks[first], dtype=np.int32),
    )


def _come_to_rest(training: Training, look: int) -> None:
    """All seeds rest from this look on: the next one that is recorded is the last."""
    schedule = training.schedule
    after = np.flatnonzero(schedule.kept[look:])
    training.next = look + int(after[0]) if len(after) else len(schedule.looks) - 1
    training.schedule = schedule.until(training.next)


def _settle(kept: list[Future[None]]) -> None:
    """Wait for the host; an error there shows here."""
    while kept:
        kept.pop(0).result()


def _room(training: Training) -> Room:
    """As many looks as fit on the device at once, up to a power of two, so that like trainings share a program."""
    shapes = eqx.filter_eval_shape(training.program.look, training.state, How(jnp.asarray(True), jnp.asarray(True)))[1]
    _check_memory(training.memory, shapes)
    bytes_per_look = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    fitting = max(CHUNK_BYTES // max(bytes_per_look, 1), 1)
    capacity = int(min(fitting, max(1 << (len(training.schedule.looks) - 1).bit_length(), FEWEST)))
    sizes = {name: (capacity, *leaf.shape) for name, leaf in shapes.items()}
    return {name: leaf.update(shape=sizes[name]) for name, leaf in shapes.items()}


def _check_memory(memory: Memory, shapes: Mapping[str, jax.ShapeDtypeStruct]) -> None:
    """Refuse records that do not fit, as they are after they are finished on the host."""
    for name, leaf in shapes.items():
        one = np.zeros((1, 1, *leaf.shape[1:]), leaf.dtype)
        kept = memory.finish[name](one) if name in memory.finish else one
        check_records(name, (memory.seeds, memory.total, *kept.shape[2:]), kept.dtype)


def _next_count(count: int, seconds: float, capacity: int) -> int:
    """Aim at chunks that take about CHUNK_SECONDS, growing by at most eight at a time."""
    wanted = count * CHUNK_SECONDS / max(seconds, 1e-6)
    return int(np.clip(wanted, 1, min(8 * count, capacity)))
