"""The training loop: one compiled program for all steps and seeds, that hands records back in chunks."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.progress import Meter
from neuralrace.training.learner import Data, Learner, Parameters, Views
from neuralrace.training.rule import Rule
from neuralrace.training.schedule import Schedule

CHUNK_BYTES = 64 << 20  # records that are held on the device at once
CONSTANT_BYTES = 1 << 20
CHUNK_SECONDS = 0.5  # how often control returns, for progress and to stop on divergence

State = tuple[Parameters, Any, jax.Array]  # parameters, optimiser state, order of the examples; seeds first
Finish = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Loop:
    """One seed's step and look, and the data that they read.

    look: (parameters, data) -> variables to record besides the loss. finish: variable -> what to do with its
    recorded arrays on the host.
    """

    learner: Learner
    rule: Rule
    look: Callable[[Parameters, Data], Views]
    finish: Mapping[str, Finish]
    batch: int | None

    def start(self, parameters: Parameters) -> State:
        """The state of each seed before the first step; parameters have a leading axis of seeds."""
        seeds = jax.tree.leaves(parameters)[0].shape[0]
        order = jnp.zeros((seeds, self.learner.example_count if self.batch else 0), dtype=jnp.int32)
        return parameters, jax.vmap(self.rule.start)(parameters), order

    def first_step(self, state: State, data: Data, keys: jax.Array, step: jax.Array) -> tuple[State, Views]:
        """Look at every seed and take one step, sharing the gradient's forward pass with the recorded loss."""
        parameters, memory, order = state
        loss, gradient = jax.vmap(self.learner.loss_and_gradient, (0, None))(parameters, data[0])
        seen = jax.vmap(self.look, (0, None))(parameters, data[0]) | {"loss": loss}
        if self.batch:
            gradient, order = self._batch_gradient(parameters, order, data, keys, step)
        parameters, memory = jax.vmap(self.rule.move)(gradient, memory, parameters)
        return (parameters, memory, order), seen

    def step(self, state: State, data: Data, keys: jax.Array, step: jax.Array) -> State:
        """Take one step for every seed."""
        parameters, memory, order = state
        if self.batch:
            gradient, order = self._batch_gradient(parameters, order, data, keys, step)
        else:
            _, gradient = jax.vmap(self.learner.loss_and_gradient, (0, None))(parameters, data[0])
        parameters, memory = jax.vmap(self.rule.move)(gradient, memory, parameters)
        return parameters, memory, order

    def _batch_gradient(
        self, parameters: Parameters, order: jax.Array, data: Data, keys: jax.Array, step: jax.Array
    ) -> tuple[Parameters, jax.Array]:
        """Each epoch goes once through a new order of the examples; what does not fill a batch waits."""
        assert self.batch is not None
        count = self.learner.example_count
        batches = max(count // self.batch, 1)

        def shuffle(_: jax.Array) -> jax.Array:
            epoch_keys = jax.vmap(lambda key: jax.random.fold_in(key, step // batches))(keys)
            return jax.vmap(lambda key: jax.random.permutation(key, count).astype(jnp.int32))(epoch_keys)

        order = jax.lax.cond(step % batches == 0, shuffle, lambda old: old, order)
        start = (step % batches) * self.batch
        examples = jax.lax.dynamic_slice_in_dim(order, start, min(self.batch, count), axis=1)
        gradient = jax.vmap(self.learner.batch_gradient, (0, None, 0))(parameters, data[1], examples)
        return gradient, order


def descend(
    loop: Loop, parameters: Parameters, keys: jax.Array, schedule: Schedule, meter: Meter
) -> tuple[dict[str, np.ndarray], Parameters]:
    """Train all seeds and return what was recorded, (seeds, T, ...) each, and the final parameters.

    Among the records is "curve": the loss at every look, recorded or not, (seeds, looks).
    """
    seeds = len(keys)
    data = loop.learner.data(mini_batches=False), loop.learner.data(mini_batches=True) if loop.batch else ()
    state = loop.start(parameters)
    shapes = jax.eval_shape(lambda d, s: loop.first_step(s, d, keys, jnp.asarray(0))[1], data, state)
    bytes_per_look = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    capacity = int(np.clip(CHUNK_BYTES // max(bytes_per_look, 1), 1, len(schedule.looks)))
    program = _program(loop, data, capacity, bool((schedule.gaps > 1).any()))
    keeper = _Keeper(loop.finish, seeds, len(schedule.recorded), len(schedule.looks))
    gaps = np.append(schedule.gaps, 1)  # after the last look there is nothing to run; its step is thrown away
    start, count = 0, min(capacity, 16)
    last = len(schedule.looks) - 1
    kept: list[Future[None]] = []
    with ThreadPoolExecutor(1) as host:
        while start <= last:
            stop = min(start + count, last) if start < last else last + 1
            began = time.monotonic()
            window = np.resize(gaps[start:stop], capacity).astype(np.int32)
            arguments = (keys, window, np.int32(stop - start), np.int32(schedule.looks[start]))
            after, seen = program(state, *arguments)
            jax.block_until_ready(seen)  # type: ignore[no-untyped-call]
            kept.append(host.submit(keeper.keep, seen, schedule.kept[start:stop]))
            state = after if stop <= last else state
            meter.advance(float(schedule.looks[min(stop, last)] - schedule.looks[start]) * seeds)
            if not np.isfinite(np.asarray(seen["loss"])[stop - start - 1]).any():
                break
            count = _next_count(count, time.monotonic() - began, capacity)
            start = stop
    for done in kept:
        done.result()  # an error on the host shows here
    return keeper.records(), state[0]


def _program(loop: Loop, data: Data, capacity: int, several: bool) -> Callable[..., tuple[State, Views]]:
    """Compile the loop once for any number of looks up to the capacity.

    Small data are compiled in, which lets the compiler arrange them; large data are handed over.
    """
    small = sum(leaf.nbytes for leaf in jax.tree.leaves(data)) <= CONSTANT_BYTES

    def run(
        state: State, given: Data, keys: jax.Array, gaps: jax.Array, count: jax.Array, step: jax.Array
    ) -> tuple[State, Views]:
        examples = jax.tree.map(jnp.asarray, data) if small else given
        shapes = jax.eval_shape(lambda s: loop.first_step(s, examples, keys, step)[1], state)
        buffers = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), shapes)

        def body(i: jax.Array, carry: tuple[State, Views, jax.Array]) -> tuple[State, Views, jax.Array]:
            state, buffers, step = carry
            state, seen = loop.first_step(state, examples, keys, step)
            buffers = jax.tree.map(lambda buffer, value: buffer.at[i].set(value), buffers, seen)
            if several:
                state = jax.lax.fori_loop(1, gaps[i], lambda k, s: loop.step(s, examples, keys, step + k), state)
            return state, buffers, step + gaps[i]

        state, buffers, _ = jax.lax.fori_loop(0, count, body, (state, buffers, step))
        return state, buffers

    compiled, given = jax.jit(run), () if small else jax.device_put(data)
    return lambda state, *rest: compiled(state, given, *rest)


def _next_count(count: int, seconds: float, capacity: int) -> int:
    """Aim at chunks that take about CHUNK_SECONDS, growing by at most eight at a time."""
    wanted = count * CHUNK_SECONDS / max(seconds, 1e-6)
    return int(np.clip(wanted, 1, min(8 * count, capacity)))


class _Keeper:
    """Collects the kept looks on the host, finished, with seeds first."""

    def __init__(self, finish: Mapping[str, Finish], seeds: int, total: int, looks: int) -> None:
        self._finish, self._seeds, self._total, self._looks, self._filled = finish, seeds, total, looks, 0
        self._arrays: dict[str, np.ndarray] = {}
        self._curve: list[np.ndarray] = []

    def keep(self, seen: Views, kept: np.ndarray) -> None:
        chosen = slice(0, len(kept)) if kept.all() else np.flatnonzero(kept)  # a slice copies nothing
        count = int(kept.sum())
        self._curve.append(np.asarray(seen["loss"])[: len(kept)])
        for name, buffer in seen.items():
            values = np.asarray(buffer)[chosen]
            if name in self._finish:
                values = self._finish[name](values)
            if name not in self._arrays:
                blank = np.nan if values.dtype.kind == "f" else 0
                self._arrays[name] = np.full((self._seeds, self._total, *values.shape[2:]), blank, values.dtype)
            self._arrays[name][:, self._filled : self._filled + count] = values.swapaxes(0, 1)
        self._filled += count

    def records(self) -> dict[str, np.ndarray]:
        curve = np.full((self._seeds, self._looks), np.nan)  # what a stop on divergence left out stays NaN
        seen = np.concatenate(self._curve).T
        curve[:, : seen.shape[1]] = seen
        return self._arrays | {"curve": curve}
