"""The training loop: a program compiled once for all steps, seeds and conditions, that hands records back in chunks.

The program is compiled at module level for a shape: networks, rules and examples are its arguments.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled, padded, room_for, shared_room, spread, threads
from neuralrace._engine.network import Stacks
from neuralrace.axes import Array
from neuralrace.errors import RangeError, require_count
from neuralrace.memory import require_memory
from neuralrace.progress import Meter
from neuralrace.training.program import Carried, How, Program, Views
from neuralrace.trajectory import FEWEST_LOOKS

STRIDE = 100  # the most steps between two looks at the loss, recorded or not
CHUNK_BYTES = 64 << 20  # records that are held on the device at once
BLOCK = 100  # steps of known number in a row, at most
NEAR_BYTES = 1 << 19  # of weights and gradient: where a seed has more, a core has not several near at hand
LONG = 4  # steps from look to look, for which it pays to bring the weights of one seed
CHUNK_SECONDS = 0.5  # how often control returns, for progress, checkpoints and to stop on divergence

Finish = Callable[[np.ndarray], np.ndarray]
Room = dict[str, jax.ShapeDtypeStruct]  # variable -> (looks, seeds, ...)


@dataclass(frozen=True)
class Schedule:
    """The looks that the loop makes: each a step and whether it is recorded."""

    looks: np.ndarray  # ascending steps; the last one is the end of training
    kept: np.ndarray  # bool per look
    regular: np.ndarray  # bool per look: those that are made whatever is recorded

    @property
    def steps(self) -> int:
        """The last step."""
        return int(self.looks[-1])

    def until(self, look: int) -> "Schedule":
        """The same schedule up to a look, which is recorded in any case."""
        kept = self.kept[: look + 1].copy()
        kept[-1] = True
        return Schedule(self.looks[: look + 1], kept, self.regular[: look + 1])

    @property
    def recorded(self) -> np.ndarray:
        """The steps to record."""
        return self.looks[self.kept]

    @property
    def gaps(self) -> np.ndarray:
        """Steps from each look to the next."""
        return np.diff(self.looks)


def make_schedule(steps: int, every: int, at: Sequence[int] | None) -> Schedule:
    """Record every so many steps and at the end, or at the given steps."""
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


class Looks(NamedTuple):
    """The looks of one chunk: steps to the next, what each is for, how many, and the first's step."""

    gaps: Array
    how: How
    number: Array
    step: Array


@compiled
def _advance(
    program: Program, state: Carried, keys: jax.Array, looks: Looks, room: Room, block: int, in_turn: bool
) -> tuple[Carried, Views, jax.Array]:
    """Make some looks with the steps between them; also return how many were made before all seeds came to rest.

    block: the steps between two looks are a multiple of this; 0: there is one step after every look. in_turn: one
    seed after the other takes its steps from look to look.
    """
    buffers = {name: jnp.zeros(space.shape, space.dtype) for name, space in room.items()}

    def unfinished(carry: tuple[Any, ...]) -> jax.Array:
        i, state, *_ = carry
        going = (i < looks.number) if program.level is None else (i < looks.number) & ~state.resting.all()
        return going | ((i == 0) & (looks.number > 0))  # a last look is made at rest too

    def steps(part: Program, state: Carried, keys: jax.Array, first: jax.Array, number: jax.Array) -> Carried:
        def some(k: jax.Array, state: Carried) -> Carried:
            begin = first + k * block
            if block == 1:
                return part.step(state, keys, begin)
            return jax.lax.scan(lambda s, i: (part.step(s, keys, begin + i), None), state, jnp.arange(block))[0]

        return jax.lax.fori_loop(0, number // block, some, state)

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        i, state, buffers, step = carry
        how = How(looks.how.regular[i], looks.how.kept[i])
        if block:  # one forward pass more for each look, and half as much to compile
            state, seen = program.look(state, how)
            number = looks.gaps[i]
            if in_turn:
                state = program.in_turn(state, keys, lambda one, s, key: steps(one, s, key, step, number))
            else:
                state = steps(program, state, keys, step, number)
        else:
            state, seen = program.look_and_step(state, keys, step, how)
        buffers = jax.tree.map(lambda buffer, value: buffer.at[i].set(value), buffers, seen)
        return i + 1, state, buffers, step + looks.gaps[i]

    start = (jnp.zeros((), jnp.int32), state, buffers, looks.step)
    made, state, buffers, _ = jax.lax.while_loop(unfinished, body, start)
    return state, buffers, made


@dataclass
class Seen:
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
        """All that was kept, and the loss at every look as "curve", which stays as it was after rest or divergence."""
        seen = np.concatenate(self.curve).T
        curve = np.repeat(seen[:, -1:], len(schedule.looks), axis=1)
        curve[:, : seen.shape[1]] = seen
        planned = len(schedule.recorded)  # fewer than at the start if training ended early
        return {name: array[:, :planned] for name, array in self.arrays.items()} | {"curve": curve}


@dataclass
class Training:
    """A training under way: state and memory as they are before the look numbered `next`."""

    program: Program
    schedule: Schedule
    keys: jax.Array
    state: Carried
    memory: Seen
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
    on_device = program.placed(room)
    parameters, keys = spread(padded((parameters, keys), room))
    memory = Seen(seeds, len(schedule.recorded), program.recorder.finish())
    return Training(on_device, schedule, keys, on_device.start(parameters), memory)


def part_of(training: Training, chosen: slice, *, weights: bool = True) -> Training:
    """Some seeds of a finished training; weights: with their state."""
    memory = training.memory
    arrays = {name: array[chosen] for name, array in memory.arrays.items()}
    count = len(range(*chosen.indices(memory.seeds)))
    mine = replace(memory, seeds=count, arrays=arrays, curve=[part[:, chosen] for part in memory.curve])
    state = training.state
    if weights:
        state = jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], state)  # on the host: nothing to compile
    return replace(training, state=state, memory=mine, keys=training.keys[chosen])


def go_on(training: Training, meter: Meter | None = None, watchers: Sequence[Watcher] = ()) -> None:
    """Train to the end, to rest, to divergence of every seed, or until a watcher says stop; meter: counts the steps."""
    room, block, in_turn = _room(training), _block(training.schedule.gaps), _in_turn(training)
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
            after, seen, made = _advance(training.program, training.state, training.keys, looks, room, block, in_turn)
            number = int(made)
            kept.append(host.submit(training.memory.keep, seen, schedule.kept[first : first + number]))
            if stop <= last:  # after the last look nothing moves
                training.state = after
            if meter is not None:
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
    if (gaps == 1).all():
        return 0
    if jax.default_backend() == "cpu":
        return 1
    common = int(np.gcd.reduce(gaps))
    return max(size for size in range(1, BLOCK + 1) if common % size == 0)


def _in_turn(training: Training) -> bool:
    """Whether seeds take turns: on a CPU, if the weights of several do not stay near at hand from step to step."""
    seeds, leaves = len(training.keys), jax.tree.leaves(training.state.parameters)
    if seeds == 1 or jax.default_backend() != "cpu" or jax.local_device_count() > 1:
        return False
    large = 2 * sum(leaf.nbytes for leaf in leaves) // seeds > threads() * NEAR_BYTES  # with a gradient
    gaps = training.schedule.gaps
    return large and len(gaps) > 0 and bool(gaps.mean() >= LONG)


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
    shapes = training.program.views(training.state)
    _check_memory(training.memory, shapes)
    bytes_per_look = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    fitting = max(CHUNK_BYTES // max(bytes_per_look, 1), 1)
    capacity = int(min(fitting, shared_room(len(training.schedule.looks))))
    sizes = {name: (capacity, *leaf.shape) for name, leaf in shapes.items()}
    return {name: leaf.update(shape=sizes[name]) for name, leaf in shapes.items()}


def _check_memory(memory: Seen, shapes: Mapping[str, jax.ShapeDtypeStruct]) -> None:
    """Refuse records that do not fit, as they are after they are finished on the host."""
    for name, leaf in shapes.items():
        one = np.zeros((1, 1, *leaf.shape[1:]), leaf.dtype)
        kept = memory.finish[name](one) if name in memory.finish else one
        shape = (memory.seeds, memory.total, *kept.shape[2:])
        require_memory(
            f"the record {name!r}, {' x '.join(f'{size:,}' for size in shape)},",
            math.prod(shape) * kept.dtype.itemsize,
            "record less often with every=... or at=..., leave it out, or give fewer seeds",
        )


def _next_count(count: int, seconds: float, capacity: int) -> int:
    """Aim at chunks that take about CHUNK_SECONDS, growing by at most eight at a time."""
    wanted = count * CHUNK_SECONDS / max(seconds, 1e-6)
    return int(np.clip(wanted, 1, min(8 * count, capacity)))
