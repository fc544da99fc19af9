"""Gradient descent in plain steps, or several steps at a time.

A step of descent uses the gradient at its start, which lags the midpoint by half a step. A stride of several steps uses
the gradient with the same lag, half a step before the middle of the stride, extrapolated linearly from its own start
and the start of the stride before: the method of Adams and Bashforth with the lag of descent. A stride of one step is
descent itself. Rounding is far below the difference between two draws of initial weights, so single precision suffices
until little of the loss remains.
"""

import time
from collections.abc import Generator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled
from neuralrace.theory.integration.system import System, norm, record_of

LOOK = 128  # steps after which the curvature is measured again
ROOM = 256  # pieces in one compiled call, at most
SECONDS = 0.5  # that such a call takes, so that it can be interrupted
ROUNDS = 8  # of the power iteration when it is first measured; one each time after
CALL = 8  # stretches in one compiled call, between which the work can be interrupted
SINGLE = 1e-6  # of the loss at zero output, down to which single precision suffices


def steps_between(times: np.ndarray, learning_rate: float) -> np.ndarray:
    """The number of steps from each of some increasing times to the next."""
    return np.diff(np.rint(times / learning_rate).astype(int), prepend=0)


def whole_steps(times: np.ndarray, learning_rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The whole steps next to some increasing times, as times.

    Also for each time the place of the last step before it, and which part of the next step it is further.
    """
    exact = times / learning_rate
    exact = np.where(np.abs(exact - np.rint(exact)) <= 1e-6, np.rint(exact), exact)
    before = np.floor(exact)
    steps = np.union1d(before, np.ceil(exact))
    return learning_rate * steps, np.searchsorted(steps, before), exact - before


def descend(
    system: System, start: Any, learning_rate: float, counts: np.ndarray
) -> Generator[None, None, tuple[Any, Any]]:
    """Take counts[i] steps before the i-th record, with pauses: the last state, and the records."""
    pieces, ends = _pieces(counts, LOOK)
    state, records, first, room = start, [], 0, 8
    while first < len(pieces):
        began, part = time.monotonic(), pieces[first : first + room]
        # the program has room for more records: neither their number nor the learning rate is compiled in
        count, planned = len(part), np.pad(part, (0, ROOM - len(part)))
        state, found = _descend(system, state, np.asarray(learning_rate), planned, np.asarray(count))
        records.append(jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], found))
        first += count
        room = int(np.clip(room * SECONDS / (time.monotonic() - began + 1e-6), 1, min(8 * room, ROOM)))
        yield
    return state, jax.tree.map(lambda *leaves: np.concatenate(leaves)[ends], *records)


def _pieces(counts: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Split counts of steps into pieces of at most `most`; also the place of the last piece of each."""
    parts = np.maximum(-(-counts // most), 1)
    pieces = [np.diff(np.linspace(0, count, part + 1).astype(int)) for count, part in zip(counts, parts, strict=True)]
    return np.concatenate(pieces), np.cumsum(parts) - 1


@compiled
def _descend(system: System, start: Any, learning_rate: Any, counts: Any, number: Any) -> tuple[Any, Any]:
    def to_record(i: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        state, records = carry
        state = jax.lax.fori_loop(0, counts[i], lambda _, at: system.step(at, learning_rate), state)
        return state, jax.tree.map(lambda leaf, found: leaf.at[i].set(found), records, system.record(state))

    shapes = jax.eval_shape(system.record, start)
    records = jax.tree.map(lambda leaf: jnp.zeros((len(counts), *leaf.shape), leaf.dtype), shapes)
    found: tuple[Any, Any] = jax.lax.fori_loop(0, number, to_record, (start, records))
    return found


class Stride(NamedTuple):
    """The state of descent by strides, in its precision."""

    state: Any
    silent: jax.Array  # the loss at zero weights
    before: Any  # the velocity at the start of the stride before
    width: jax.Array  # of that stride; zero before the first
    direction: Any  # of the largest curvature, nearly
    curvature: jax.Array  # zero until it was measured
    fallen: jax.Array  # whether the loss has


def begin(system: System, start: Any) -> Stride:
    """The state before the first step."""
    zero, nothing = jnp.zeros(()), jax.tree.map(jnp.zeros_like, start)
    silent, slope = jax.device_put(np.asarray(record_of(system, nothing)).sum()), jax.tree.map(jnp.ones_like, start)
    made = Stride(start, silent, nothing, zero, slope, zero, jnp.asarray(False))
    largest = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(start) if leaf.size)
    return _cast(made, jnp.float32) if largest >= 1e-15 else made  # else products are too small for it


def last(at: Stride) -> Any:
    """The weights, in double precision."""
    return _cast(at.state, jnp.float64)


def stride(
    system: System, start: Stride, learning_rate: float, counts: np.ndarray, most: int
) -> Generator[None, None, tuple[Stride, np.ndarray]]:
    """Take counts[i] steps before the i-th record, up to `most` at once, with pauses: the end, and the losses.

    A call whose losses fall below what single precision resolves is repeated in double precision.
    """
    pieces, ends = _pieces(counts, LOOK)  # stretches, between two measurements or records
    planned = np.append(pieces, np.zeros(-len(pieces) % CALL, int)).reshape(-1, CALL)
    single, at, losses = _cast(system, jnp.float32), start, []

    def advanced(at: Stride, part: np.ndarray) -> tuple[Stride, np.ndarray]:
        kind = at.silent.dtype
        rate, longest = np.asarray(learning_rate, kind), np.asarray(most, kind)
        with jax.default_matmul_precision("highest"):  # some devices have products of less than single precision
            after, found = _strides(single if kind == jnp.float32 else system, at, rate, longest, part)
        return after, np.asarray(found, np.float64)

    for part in planned:
        after, left = advanced(at, part)
        if at.silent.dtype == jnp.float32 and not np.all(left > SINGLE * float(at.silent)):
            after, left = advanced(_cast(at, jnp.float64), part)
        at = after
        losses.append(left)
        yield
    return at, np.concatenate(losses)[ends]


@compiled
def _strides(system: System, at: Stride, rate: Any, most: Any, counts: Any) -> tuple[Stride, jax.Array]:
    def one(moving: tuple[Any, Any, jax.Array], width: jax.Array) -> tuple[Any, Any, jax.Array]:
        state, before, former = moving
        velocity = system.velocity(state)
        share = jnp.where(former > 0, (width - rate) / (2 * jnp.where(former > 0, former, 1)), 0)
        state = jax.tree.map(lambda w, v, b: w + width * ((1 + share) * v - share * b), state, velocity, before)
        return state, velocity, width

    def stretch(carried: tuple[Stride, jax.Array], count: jax.Array) -> tuple[tuple[Stride, jax.Array], jax.Array]:
        at, since = carried
        due = jnp.where(at.curvature > 0, jnp.where(since >= LOOK, 1, 0), ROUNDS)
        rounds = jnp.where(at.fallen & (most > 1), due, 0)
        known = _curvature(system, at.state, (at.direction, at.curvature), rounds)
        # long strides are stable up to a width of 1 / curvature
        longest = jnp.where(at.fallen, jnp.clip(0.8 / (rate * known[1]), 1, most), 1)
        strides = jnp.ceil(count / jnp.where(jnp.isfinite(longest), longest, 1)).astype(int)
        width = rate * count.astype(rate.dtype) / jnp.maximum(strides, 1)
        moving = at.state, at.before, at.width
        state, before, former = jax.lax.fori_loop(0, strides, lambda i, inner: one(inner, width), moving)
        loss = jnp.sum(system.record(state))
        # before the loss has halved, weights grow many times over and errors grow with them
        fallen = at.fallen | (loss < 0.5 * at.silent)
        since = jnp.where(rounds > 0, 0, since) + count
        return (Stride(state, at.silent, before, former, *known, fallen), since), loss

    (after, _), losses = jax.lax.scan(stretch, (at, jnp.asarray(LOOK)), counts)
    return after, losses


@eqx.filter_jit
def _curvature(system: System, state: Any, known: tuple[Any, jax.Array], rounds: Any) -> tuple[Any, jax.Array]:
    """Rounds of the power iteration on the Jacobian, gates as they are: a direction and the curvature along it."""

    def turn(_: Any, found: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        length = norm(found[0])
        along = jax.tree.map(lambda leaf: leaf / jnp.where(length > 0, length, 1), found[0])
        pulled = jax.jvp(system.velocity, (state,), (along,))[1]
        return pulled, norm(pulled)

    return jax.lax.fori_loop(0, rounds, turn, known)


def _cast(tree: Any, kind: Any) -> Any:
    """All real numbers in one precision; arrays on the host stay there, so that nothing is compiled."""

    def cast(leaf: Any) -> Any:
        real = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(kind) if real else leaf

    return jax.tree.map(cast, tree)
