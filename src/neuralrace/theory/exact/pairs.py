"""The race of the graph of trained pairs: what untrained pairs of domains have learned when the trained ones are done.

The trained pairs G (M x M) have singular values g_1 >= g_2 >= ... Through M encoders, one hidden chain and M decoders
each of these modes grows by the same law, at a rate g_l and driven by the same residual. In the race's own time x,

    db/dx = w^(N-2) b,  dw/dx = b^2 w^(N-3),  w^2 - b^2 = C,  tau = b^2 w^(N-2)  at depth N,

mode l is at g_l theta, and theta stops where the trained pairs are right on average, sum_l g_l tau_l = |G| s/d. Wide
layers whose singular values are all sigma start every mode at w = sigma, b^2 = sigma^2 (1 + xi_l)/2, where the overlap
xi_l of its encoder and decoder is nothing at infinite width. See docs/theory/pairs.md.
"""

from functools import partial
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import RangeError, require_count
from neuralrace.theory.exact._checks import AtLeastOne, Numbers, Positive, Strength, entry_point

NODES, WEIGHTS = (0.5 * (part + add) for part, add in zip(np.polynomial.legendre.leggauss(48), (1, 0), strict=True))

HALVINGS, NEWTON = 60, 8  # rounds, to rounding

# an overlap of one leaves no difference of encoder and decoder, of minus one no sum
PairOverlaps = Annotated[Any, Numbers(least=-(1 - 1e-6), most=1 - 1e-6)]


class PairRace(NamedTuple):
    """The end of the race; errors are squared, in parts of the error of output zero."""

    strengths: jax.Array  # (..., M): tau_l, where M stands for a uniform mode that says all
    trained: jax.Array  # of trained pairs: what is still to be settled when they are right on average
    untrained: jax.Array  # of untrained pairs; NaN where there are none


@entry_point
def pair_left(ratio: Annotated[Any, Numbers(least=0.0, most=1.0)], growth: AtLeastOne, depth: int = 3) -> jax.Array:
    """Return what a mode has at the finish in parts of the leader, from equal, balanced layers.

    ratio: g_l / g_1. growth: final over first strength of the leader's path. The path strength is a mean of the first
    and the final one with weights 1 - ratio and ratio: the geometric mean at depth two, where the rest is
    growth^(ratio - 1), and beyond it the power mean with exponent -(1 - 2/depth).
    """
    return _left(require_count("depth", depth, least=2), ratio, growth)


@partial(jax.jit, static_argnums=0)
def _left(depth: int, ratio: jax.Array, growth: jax.Array) -> jax.Array:
    if depth == 2:
        return growth ** (ratio - 1)
    power = 1 - 2 / depth
    return ((1 - ratio) * growth**power + ratio) ** (-1 / power)


@entry_point
def pair_race(pairs: Any, first: Strength, final: Positive, depth: int = 3, overlaps: PairOverlaps = None) -> PairRace:
    """Return the strengths of the modes of the trained pairs, and the errors, when the trained pairs are learned.

    pairs: which are trained, (M, M). first: every singular value of each layer's first weights. final: s/d, what a
    path has to reach. overlaps: xi_l, (..., M), each between -1 and 1; none at infinite width. first and final
    broadcast against each other and the leading axes of overlaps. Has no derivatives.
    """
    graph, layers = _graph(pairs), require_count("depth", depth, least=2)
    met = np.zeros(len(graph)) if overlaps is None else overlaps
    if met.ndim == 0 or met.shape[-1] != len(graph):
        raise RangeError(f"overlaps must have one number for each of {len(graph)} modes; its shape was {met.shape}")
    return _races(layers, graph, *np.linalg.svd(graph.astype(np.float64)), first, final, met)


def _graph(pairs: Any) -> np.ndarray:
    graph = np.asarray(pairs)
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1] or not np.isin(graph, (0, 1)).all() or not graph.any():
        raise RangeError(
            "pairs must be a square matrix of booleans, (input domains, output domains), with at least one that is "
            f"trained; its shape was {graph.shape}"
        )
    return graph.astype(bool)


@partial(jax.jit, static_argnums=0)
def _races(
    depth: int,
    graph: jax.Array,
    left: jax.Array,
    values: jax.Array,
    right: jax.Array,
    first: jax.Array,
    final: jax.Array,
    overlaps: jax.Array,
) -> PairRace:
    def race(sigma: jax.Array, final: jax.Array, overlap: jax.Array) -> PairRace:
        square = (1 + overlap) / 2  # b^2 of the start, in units of sigma^2
        goal = jnp.sum(graph) * final / sigma**depth
        strengths = _finish(depth, values, square, goal) * sigma**depth / final
        off = (1 - (left * strengths) @ right) ** 2
        unseen = jnp.sum(~graph)
        errors = jnp.sum(off * graph) / jnp.sum(graph), jnp.sum(off * ~graph) / unseen
        return PairRace(strengths, errors[0], jnp.where(unseen > 0, errors[1], jnp.nan))

    return PairRace(*jnp.vectorize(race, signature="(),(),(m)->(m),(),()")(first, final, overlaps))


def _finish(depth: int, values: jax.Array, square: jax.Array, goal: jax.Array) -> jax.Array:
    """tau_l in units of sigma^N where sum_l g_l tau_l is the goal: halving of the leader's growth of log b^2.

    The leader is the mode that would be the first to grow without bound (at depth two none would, and any may lead).
    """
    bound = _remaining(depth, jnp.ones_like(square), square) if depth > 2 else jnp.ones_like(square)
    leader = jnp.argmin(bound / jnp.maximum(values, 1e-300))

    def strengths(grown: jax.Array) -> jax.Array:
        if depth == 2:
            return square * jnp.exp(grown * values / values[leader])
        hidden = jnp.sqrt(1 + square[leader] * jnp.expm1(grown))
        theta = (bound[leader] - _remaining(depth, hidden, square[leader])) / values[leader]
        return _strength(depth, _hidden(depth, bound - values * theta, square), square)

    def halve(_: Any, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        middle = (ends[0] + ends[1]) / 2
        short = jnp.sum(values * strengths(middle)) < goal
        return jnp.where(short, middle, ends[0]), jnp.where(short, ends[1], middle)

    first = _strength(depth, jnp.ones_like(square), square)
    most = jnp.log(goal) - jnp.log(values[leader] * first[leader])  # tau grows no slower than b^2
    low, high = jax.lax.fori_loop(0, HALVINGS, halve, (jnp.zeros_like(most), most))
    return jnp.where(jnp.sum(values * first) < goal, strengths((low + high) / 2), first)


def _strength(depth: int, hidden: jax.Array, square: jax.Array) -> jax.Array:
    """tau = b^2 w^(N-2), with w^2 - b^2 as it was at the start, 1 - square."""
    return (hidden**2 - 1 + square) * hidden ** (depth - 2)


def _remaining(depth: int, hidden: jax.Array, square: jax.Array) -> jax.Array:
    """The time from w on in which a mode that nothing stops would grow without bound.

    The integral of 1/((y^2 - C) y^(N-3)) from w, which with y = w/z has no end at infinity and is smooth.
    """
    z = jnp.asarray(NODES)
    kernel = z ** (depth - 3) / (1 - ((1 - square) / hidden**2)[..., None] * z**2)
    return hidden ** (2 - depth) * (kernel @ jnp.asarray(WEIGHTS))


def _hidden(depth: int, remaining: jax.Array, square: jax.Array) -> jax.Array:
    """The inverse: w from the remaining time, by Newton's method on a power of it that is nearly w itself."""
    power = 1 / (depth - 2)
    wanted = ((depth - 2) * remaining) ** -power

    def newton(_: Any, hidden: jax.Array) -> jax.Array:
        reached = ((depth - 2) * _remaining(depth, hidden, square)) ** -power
        slope = reached ** (depth - 1) / ((hidden**2 - 1 + square) * hidden ** (depth - 3))
        return jnp.maximum(hidden - (reached - wanted) / slope, 1.0)

    return jax.lax.fori_loop(0, NEWTON, newton, jnp.maximum(wanted, 1.0))
