"""From a spectrum to its story: which mode is learned when, and where the loss stands still between.

Modes of an aligned, balanced path do not interact, so each has its own transition; a plateau is a stretch
in which none is under way. Small strengths stretch the plateaus and leave the transitions as they are.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import RangeError
from neuralrace.theory.exact._checks import AtLeastOne, Positive, Real, Strength, Times, formula
from neuralrace.theory.exact.depth import deep_time


class LearningOrder(NamedTuple):
    """The transitions in order of time, and the plateaus around them; n modes have n + 1 plateaus."""

    order: jax.Array  # index of the mode that is learned first, second, ...; (n,)
    starts: jax.Array  # when its transition begins, (n,)
    midpoints: jax.Array  # when it is half learned, (n,)
    ends: jax.Array  # when its transition is over, (n,)
    plateau_starts: jax.Array  # plateau k has k modes behind it, (n + 1,)
    plateau_ends: jax.Array  # inf for the last one
    plateau_lengths: jax.Array  # zero where transitions overlap and there is no plateau
    plateau_losses: jax.Array  # half the sum of s^2/d over the modes still to come
    separations: jax.Array  # gap between neighbors over the longer of their transitions, (n - 1,)


class Plateau(NamedTuple):
    """One stretch of constant loss."""

    start: jax.Array
    end: jax.Array  # inf for the last one
    learned: jax.Array  # how many modes are behind it
    loss: jax.Array


def _ordered(begin: np.ndarray, finish: np.ndarray) -> None:
    if not 0 < begin < 0.5 < finish < 1:
        raise RangeError(
            f"begin and finish must satisfy 0 < begin < 1/2 < finish < 1; they were {begin:g} and {finish:g}"
        )


@formula(_ordered)
def learning_order(
    singular_values: Positive,
    input_variances: Positive,
    initial_strengths: Strength,
    depth: AtLeastOne = 2,
    begin: Real = 0.1,
    finish: Real = 0.9,
) -> LearningOrder:
    """Return the order in which the modes of a spectrum are learned, with times and plateaus.

    singular_values s, input_variances d, initial_strengths a0 and depth L broadcast to one axis of modes. A
    transition runs from `begin` to `finish` of the final strength s/d (of the way there for a mode that
    starts above it); a mode past `begin` at the start begins at time zero.
    """
    given = jnp.broadcast_arrays(singular_values, input_variances, initial_strengths, depth)
    s, d, a0, layers = map(jnp.atleast_1d, given)
    if s.ndim != 1:
        raise RangeError(f"the spectrum must have one axis, the modes; its shape was {s.shape}")
    final = s / d

    fraction = jnp.stack([begin, 0.5, finish])[:, None]
    strength = jnp.where(a0 < final, jnp.maximum(fraction * final, a0), a0 + fraction * (final - a0))
    times = jnp.asarray(deep_time(strength, s, d, a0, layers))  # all at once, so that they are compiled once
    order = jnp.argsort(times[1])
    starts, midpoints, ends = times[:, order]
    power = (s * final)[order]
    before = jnp.concatenate([jnp.zeros(1), jax.lax.cummax(ends)])
    after = jnp.concatenate([jax.lax.cummin(starts, reverse=True), jnp.full(1, jnp.inf)])
    losses = 0.5 * jnp.concatenate([jnp.cumsum(power[::-1])[::-1], jnp.zeros(1)])
    widths = ends - starts
    longer = jnp.maximum(widths[1:], widths[:-1])
    return LearningOrder(
        order, starts, midpoints, ends, before, after, jnp.maximum(after - before, 0.0), losses,
        (starts[1:] - ends[:-1]) / longer,
    )  # fmt: skip


@formula()
def next_plateau(times: Times, story: LearningOrder) -> Plateau:
    """Return the plateau that each time is on, or else the next one to come.

    There always is one: the last, when all is learned, has no end.
    """
    candidate = (story.plateau_lengths > 0) & (story.plateau_ends > times[..., None])
    k = jnp.argmax(candidate, axis=-1)
    return Plateau(
        jnp.asarray(story.plateau_starts)[k],
        jnp.asarray(story.plateau_ends)[k],
        k,
        jnp.asarray(story.plateau_losses)[k],
    )
