"""The routing network of P1: a hidden layer that many routes share outgrows the outer layers.

    dB1/dt = g B2 B1 (S - B2 B1^2 D),  dB2/dt = g m B1^2 (S - B2 B1^2 D)

with m = sqrt(P), g = sqrt(P)/M^2 (eqs 16-17); full sharing, P = M^2, is eqs 13-14 whatever the number K
of trained routes per domain. C = m B1^2 - B2^2 is conserved, which leaves eq. 15,

    dB2/dt = g (B2^2 + C) (S - B2 (B2^2 + C) D/m).

Its cubic has one root b on the way, and with q = b^2 + C, Q(x) = x^2 + b x + q, A = 1/(q (3b^2 + C)),
K = m S/D the integrand splits exactly into A/(b - x) + 1/(K (x^2 + C)) + A (x - q/b)/Q(x): one
logarithm, one arc tangent (or logarithm, by the sign of C), and one more of each.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.theory.exact._checks import (
    AtLeastOne,
    NotNegative,
    Numbers,
    Positive,
    Real,
    Strength,
    Times,
    formula,
)
from neuralrace.theory.exact._inverse import invert_elapsed, solve_increasing
from neuralrace.theory.exact._special import reciprocal_square_integral


class RoutingLayers(NamedTuple):
    """Singular values of the layers for one mode."""

    outer: jax.Array  # B1, each input and output matrix
    hidden: jax.Array  # B2, the shared hidden matrix


class _Route(NamedTuple):
    s: jax.Array
    d: jax.Array
    outer: jax.Array  # B1(0)
    hidden: jax.Array  # B2(0)
    sharing: jax.Array  # m = sqrt(P)
    speed: jax.Array  # g = sqrt(P) / M^2
    invariant: jax.Array  # C
    final: jax.Array  # b, the hidden layer at the end


def _cubic(log_x: jax.Array, linear: jax.Array) -> jax.Array:
    x = jnp.exp(log_x)
    return x**3 + linear * x - 1


def _final_hidden(invariant: jax.Array, constant: jax.Array) -> jax.Array:
    """Return the one positive root of b^3 + C b = K; it has b^2 + C = K/b > 0."""
    scale = jnp.cbrt(constant)
    linear = invariant / scale**2
    return scale * jnp.exp(solve_increasing(_cubic, jnp.zeros_like(linear), linear))


def _route(
    s: jax.Array, d: jax.Array, first: jax.Array, second: jax.Array, sharing: jax.Array, speed: jax.Array
) -> _Route:
    invariant = sharing * first**2 - second**2
    s, d, sharing, invariant = jnp.broadcast_arrays(s, d, sharing, invariant)
    return _Route(s, d, first, second, sharing, speed, invariant, _final_hidden(invariant, sharing * s / d))


def _enough_routes(domains: np.ndarray, paths: np.ndarray | None) -> None:
    if paths is not None:
        hint = "no more paths can share a hidden layer than there are routes"
        Numbers(most=1.0, hint=hint).read("paths / domains^2", np.max(paths / domains**2))


def _sharing(domains: jax.Array, paths: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """m and g."""
    if paths is None:
        return domains, 1 / domains
    root = jnp.sqrt(paths)
    return root, root / domains**2


@jax.jit
def _clock(
    w: jax.Array,
    hidden: jax.Array,
    outer_square: jax.Array,
    invariant: jax.Array,
    final: jax.Array,
    constant: jax.Array,
) -> jax.Array:
    """Return the integral of 1/((x^2 + C)(K - x^3 - C x)) until the gap b - x is down by e^(-w).

    outer_square is B2(0)^2 + C = m B1(0)^2, final is b, constant is K = b (b^2 + C).
    """
    step = -(final - hidden) * jnp.expm1(-w)
    q = constant / final
    weight = 1 / (q * (2 * final**2 + q))
    quadratic0 = hidden**2 + final * hidden + q
    growth = jnp.log1p(step * (2 * hidden + step + final) / quadratic0)
    inner = reciprocal_square_integral(hidden, step, invariant, outer_square)
    outer = reciprocal_square_integral(hidden + final / 2, step, 0.75 * final**2 + invariant, quadratic0)
    return weight * (w + growth / 2 - (q / final + final / 2) * outer) + inner / constant


def _clock_arguments(r: _Route) -> tuple[jax.Array, ...]:
    return r.hidden, r.sharing * r.outer**2, r.invariant, r.final, r.sharing * r.s / r.d


def _log_gap(t: jax.Array, r: _Route) -> jax.Array:
    scaled_time = r.speed * r.d / r.sharing * t
    return invert_elapsed(_clock, *jnp.broadcast_arrays(scaled_time, *_clock_arguments(r)))


@formula(_enough_routes)
def routing_layers(
    times: Times,
    singular_value: Positive,
    input_variance: Positive,
    outer: Strength,
    hidden: Strength,
    domains: AtLeastOne,
    paths: AtLeastOne = None,
) -> RoutingLayers:
    """Return B1(t) and B2(t) of one mode, exact from any positive start (P1 eqs 13-17).

    singular_value S and input_variance D of the task's own data set, outer B1(0), hidden B2(0), domains
    M, paths P through each hidden layer (M^2, full sharing, if not given; less wants all routes trained
    and, for a real network, sqrt(P) to divide M). All broadcast.
    """
    r = _route(singular_value, input_variance, outer, hidden, *_sharing(domains, paths))
    w = _log_gap(times, r)
    step = -(r.final - r.hidden) * jnp.expm1(-w)
    outer_square = r.outer**2 + step * (2 * r.hidden + step) / r.sharing
    return RoutingLayers(jnp.sqrt(outer_square), r.hidden + step)


@formula(_enough_routes)
def routing_time(
    hidden_strength: Real,
    singular_value: Positive,
    input_variance: Positive,
    outer: Strength,
    hidden: Strength,
    domains: AtLeastOne,
    paths: AtLeastOne = None,
) -> jax.Array:
    """Return the time at which B2 reaches a value: eq. 15 of P1, integrated.

    Zero where it is past it from the start, inf where it never gets there.
    """
    r = _route(singular_value, input_variance, outer, hidden, *_sharing(domains, paths))
    travelled, remaining, whole = hidden_strength - r.hidden, r.final - hidden_strength, r.final - r.hidden
    forward = travelled * whole > 0
    reached = forward & (remaining * whole > 0)
    w = jnp.log1p(jnp.where(reached, travelled / jnp.where(reached, remaining, 1.0), 0.0))
    t = _clock(w, *_clock_arguments(r)) * r.sharing / (r.speed * r.d)
    return jnp.where(reached, t, jnp.where(forward, jnp.inf, 0.0))


@formula(_enough_routes)
def routing_loss(
    times: Times,
    singular_value: Positive,
    input_variance: Positive,
    outer: Strength,
    hidden: Strength,
    domains: AtLeastOne,
    paths: AtLeastOne = None,
) -> jax.Array:
    """Return the loss still to be lost in one mode, averaged over the trained routes.

    Half D times (S/D - B2 B1^2)^2; the sum over modes is the loss of the network.
    """
    r = _route(singular_value, input_variance, outer, hidden, *_sharing(domains, paths))
    w = _log_gap(times, r)
    now = r.hidden - (r.final - r.hidden) * jnp.expm1(-w)
    quadratic = now**2 + r.final * now + r.sharing * r.s / (r.d * r.final)
    return 0.5 * r.d * ((r.final - r.hidden) * jnp.exp(-w) * quadratic / r.sharing) ** 2


@formula(_enough_routes)
def routing_final(
    singular_value: Positive,
    input_variance: Positive,
    outer: Strength,
    hidden: Strength,
    domains: AtLeastOne,
    paths: AtLeastOne = None,
) -> RoutingLayers:
    """Return B1 and B2 at the end of learning, where B2 B1^2 = S/D and the invariant still holds."""
    r = _route(singular_value, input_variance, outer, hidden, *_sharing(domains, paths))
    return RoutingLayers(jnp.sqrt(r.s / r.d / r.final), r.final)


@formula(_enough_routes)
def routing_invariant(
    outer: NotNegative, hidden: NotNegative, domains: AtLeastOne, paths: AtLeastOne = None
) -> jax.Array:
    """Return C = sqrt(P) B1^2 - B2^2, the same at all times (M B1^2 - B2^2 for full sharing)."""
    return _sharing(domains, paths)[0] * outer**2 - hidden**2


def _possible(outer: np.ndarray, invariant: np.ndarray, domains: np.ndarray, paths: np.ndarray | None) -> None:
    _enough_routes(domains, paths)
    left = (domains if paths is None else np.sqrt(paths)) - invariant / outer**2
    Numbers(least=0.0, hint="B2^2 = sqrt(P) B1^2 - C cannot be negative").read("sqrt(P) - invariant / outer^2", left)


@formula(_possible)
def routing_ratio(outer: Strength, invariant: Real, domains: AtLeastOne, paths: AtLeastOne = None) -> jax.Array:
    """Return B2/B1 = sqrt(sqrt(P) - C/B1^2) at an outer strength B1, for the invariant C.

    The limits that P1 gives, sqrt(M) for full sharing and P^(1/4) in part (eqs 51 and 56), are those of
    C/B1^2 -> 0, that is of initial weights that are small beside the final ones.
    """
    return jnp.sqrt(_sharing(domains, paths)[0] - invariant / outer**2)
