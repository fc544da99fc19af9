"""Gradient descent followed several steps at a time.

A step of descent moves by the slope where it begins, that is by the slope half a step ago. A stride of several steps
moves by the slope that the line through its own start and the start of the stride before has at that moment, half a
step before the middle of the stride: the method of Adams and Bashforth with the lag of descent. A stride of one step is
descent itself. Rounding is far below what one draw of first weights differs from another, so that single precision
serves until little is left of the loss.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled, each_on_a_device
from neuralrace.progress import LongWait
from neuralrace.theory.integration.system import System, norm, record_of

FALLEN = 0.5  # of the loss of silence: before, weights grow many times over and what is wrong grows with them
STABLE = 0.8  # width of a stride times the largest curvature; long strides are stable up to 1
LOOK = 128  # steps after which the curvature is looked at again
ROUNDS = 8  # of the power iteration when it is first looked at; one in each look after
CALL = 8  # stretches in one compiled call, between which the work can be interrupted
SINGLE = 1e-6  # of the loss of silence, down to which single precision serves
REPRESENTED = 1e-15  # first weights from which on their products are numbers of single precision


class Stride(NamedTuple):
    """Where descent stands, in the precision that it has there."""

    state: Any
    silent: jax.Array  # the loss of weights that are zero
    before: Any  # the velocity at the start of the stride before
    width: jax.Array  # of that stride; zero before the first
    direction: Any  # near that of the largest curvature
    curvature: jax.Array  # zero until it was looked at
    fallen: jax.Array  # whether the loss has


def begin(system: System, start: Any) -> Stride:
    """Before the first step."""
    zero, nothing = jnp.zeros(()), jax.tree.map(jnp.zeros_like, start)
    silent, slope = jax.device_put(np.asarray(record_of(system, nothing)).sum()), jax.tree.map(jnp.ones_like, start)
    made = Stride(start, silent, nothing, zero, slope, zero, jnp.asarray(False))
    largest = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(start) if leaf.size)
    return _cast(made, jnp.float32) if largest >= REPRESENTED else made


def last(at: Stride) -> Any:
    """The weights, in double precision."""
    return _cast(at.state, jnp.float64)


def sharpest(system: System, at: Stride) -> float:
    """The largest curvature; not a number where it was never looked at."""
    if not float(at.curvature) > 0:
        return float("nan")
    same = _cast(system, at.silent.dtype)
    return float(_looked(same, at.state, (at.direction, at.curvature), ROUNDS)[1])


def stride(
    system: System, starts: Sequence[Stride], learning_rate: float, counts: np.ndarray, most: int
) -> tuple[list[Stride], np.ndarray]:
    """Take counts[i] steps before the i-th record, up to `most` at once: where each start ends, and its losses.

    A call whose losses come below what single precision can tell is made again in double precision.
    """
    pieces, ends = _stretches(counts)
    planned = np.append(pieces, np.zeros(-len(pieces) % CALL, int)).reshape(-1, CALL)
    wait = LongWait("descent", "a larger learning_rate, an earlier end, or dynamics='flow'")
    at, losses, single = list(starts), [], _cast(system, jnp.float32)
    for done, part in enumerate(planned):

        def advanced(one: Stride, part: np.ndarray = part) -> tuple[Stride, np.ndarray]:
            same = single if one.silent.dtype == jnp.float32 else system
            after, found = _call(same, one, learning_rate, most, part)
            return after, np.asarray(found, np.float64)

        found = each_on_a_device(advanced, at, short=True)
        for place, (one, (_, fallen)) in enumerate(zip(at, found, strict=True)):
            if one.silent.dtype == jnp.float32 and not np.all(fallen > SINGLE * float(one.silent)):
                found[place] = advanced(_cast(one, jnp.float64))
        at = [after for after, _ in found]
        losses.append(np.stack([fallen for _, fallen in found]))
        wait.look(float(planned[: done + 1].sum()), float(planned.sum()))
    return at, np.concatenate(losses, axis=1)[:, ends]


def _stretches(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Steps between two looks or records, and after which of these stretches a record is."""
    parts = np.maximum(-(-counts // LOOK), 1)
    pieces = np.concatenate([np.diff(np.linspace(0, n, k + 1).astype(int)) for n, k in zip(counts, parts, strict=True)])
    return pieces, np.cumsum(parts) - 1


def _call(system: System, at: Stride, rate: float, most: int, counts: np.ndarray) -> tuple[Stride, jax.Array]:
    kind = at.silent.dtype
    with jax.default_matmul_precision("highest"):  # some devices have products of less than single precision
        return _compiled(system, at, np.asarray(rate, kind), np.asarray(most, kind), counts)


@compiled
def _compiled(system: System, at: Stride, rate: Any, most: Any, counts: Any) -> tuple[Stride, jax.Array]:
    def one(_: Any, moving: tuple[Any, Any, jax.Array], width: jax.Array) -> tuple[Any, Any, jax.Array]:
        state, before, former = moving
        velocity = system.velocity(state)
        share = jnp.where(former > 0, (width - rate) / (2 * jnp.where(former > 0, former, 1)), 0)
        state = jax.tree.map(lambda w, v, b: w + width * ((1 + share) * v - share * b), state, velocity, before)
        return state, velocity, width

    def stretch(carried: tuple[Stride, jax.Array], count: jax.Array) -> tuple[tuple[Stride, jax.Array], jax.Array]:
        at, since = carried
        due = jnp.where(at.curvature > 0, jnp.where(since >= LOOK, 1, 0), ROUNDS)
        rounds = jnp.where(at.fallen & (most > 1), due, 0)
        seen = _looked(system, at.state, (at.direction, at.curvature), rounds)
        longest = jnp.where(at.fallen, jnp.clip(STABLE / (rate * seen[1]), 1, most), 1)
        strides = jnp.ceil(count / jnp.where(jnp.isfinite(longest), longest, 1)).astype(int)
        width = rate * count.astype(rate.dtype) / jnp.maximum(strides, 1)
        moving = at.state, at.before, at.width
        state, before, former = jax.lax.fori_loop(0, strides, lambda i, inner: one(i, inner, width), moving)
        loss = jnp.sum(system.record(state))
        fallen = at.fallen | (loss < FALLEN * at.silent)
        since = jnp.where(rounds > 0, 0, since) + count
        return (Stride(state, at.silent, before, former, *seen, fallen), since), loss

    (after, _), losses = jax.lax.scan(stretch, (at, jnp.asarray(LOOK)), counts)
    return after, losses


@eqx.filter_jit
def _looked(system: System, state: Any, seen: tuple[Any, jax.Array], rounds: Any) -> tuple[Any, jax.Array]:
    """Rounds of the power iteration on the Jacobian, gates as they are: a direction and the curvature along it."""

    def turn(_: Any, found: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        length = norm(found[0])
        along = jax.tree.map(lambda leaf: leaf / jnp.where(length > 0, length, 1), found[0])
        pulled = jax.jvp(system.velocity, (state,), (along,))[1]
        return pulled, norm(pulled)

    return jax.lax.fori_loop(0, rounds, turn, seen)


def _cast(tree: Any, kind: Any) -> Any:
    """All real numbers in one precision."""

    def cast(leaf: Any) -> Any:
        real = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(kind) if real else leaf  # what is on the host stays there: nothing to compile

    return jax.tree.map(cast, tree)
