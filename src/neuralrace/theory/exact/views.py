"""The race of views: paths of depth L >= 2 that feed one output and share what is left to explain.

    da_m/dt = r_m a_m^(L-1) (1 - sum_n a_n^L / A^L)

Every view runs on one clock T, dT/dt = 1 - sum_n a_n^L / A^L: a_m = a_m(0) e^(r_m T) at L = 2, and
a_m^(2-L) = a_m(0)^(2-L) - (L-2) r_m T beyond. The race ends where the clock stops, a scalar root, so the
final shares are exact. The time t(T) is one integral with a simple pole at the end; the pole and the
free growth are split off, and the analytic rest is summed by a fixed Gauss-Legendre rule (to 1e-12).

As clock serves y = -log(1 - (L-2) x T)/(L-2), with x the largest r_m a_m(0)^(L-2): the logarithm of the
growth that a view with that x has made. It stays of order log(A/a) where T runs into a blow-up.
"""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from neuralrace.theory.exact._checks import Numbers, Positive, Strength, Times, formula
from neuralrace.theory.exact._inverse import invert_elapsed, solve_increasing
from neuralrace.theory.exact._special import expm1_ratio, log1p_ratio

PANELS = 10
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
POINTS = ((np.arange(PANELS)[:, None] + (NODES + 1) / 2) / PANELS).ravel()  # on the unit interval
POINT_WEIGHTS = np.tile(WEIGHTS / (2 * PANELS), PANELS)
RaceDepth = Annotated[Any, Numbers(least=2.0, hint="one layer has no race: its views add linearly")]
STARTED = 1e-30  # a race that starts at its end gets this much to go, so that no 0/0 arises


class RaceEnd(NamedTuple):
    """How a race of views ends; the last axis is the view."""

    amplitudes: jax.Array  # a_m at the end
    shares: jax.Array  # a_m^L / A^L, which sum to one
    winner: jax.Array  # index of the largest amplitude


class _ScaledRace(NamedTuple):
    log_start: jax.Array  # log a_m(0), (..., M)
    lead: jax.Array  # r_m a_m(0)^(L-2) over its largest, rho_m in (0, 1], (..., M)
    lag: jax.Array  # 1 - rho_m without cancellation, (..., M)
    fastest: jax.Array  # x, the largest r_m a_m(0)^(L-2), (...)
    depth: jax.Array  # L, (...)
    log_saturation: jax.Array  # log A, (...)


def _race(start: jax.Array, rate: jax.Array, layers: jax.Array, limit: jax.Array) -> _ScaledRace:
    start, rate = jnp.broadcast_arrays(jnp.atleast_1d(start), rate)
    batch = jnp.broadcast_shapes(start.shape[:-1], layers.shape, limit.shape)
    start, rate = (jnp.broadcast_to(x, (*batch, start.shape[-1])) for x in (start, rate))
    layers, limit = jnp.broadcast_to(layers, batch), jnp.broadcast_to(limit, batch)
    log_start = jnp.log(start)
    log_speed = jnp.log(rate) + (layers - 2)[..., None] * log_start
    fastest = jnp.take_along_axis(log_speed, log_speed.argmax(-1, keepdims=True), -1)
    behind = log_speed - fastest
    lag = -jnp.expm1(behind)
    return _ScaledRace(log_start, jnp.exp(behind), lag, jnp.exp(fastest[..., 0]), layers, jnp.log(limit))


def _log_growth(y: jax.Array, lead: jax.Array, lag: jax.Array, q: jax.Array) -> jax.Array:
    """Return log(a_m / a_m(0)) = -log(lag + lead e^(-q y)) / q, and lead * y at q = 0."""
    y, q = y[..., None], q[..., None]
    x = q * y
    moderate = x < 1.0
    near_y = jnp.where(moderate, y, 0.0)
    inner = lead * jnp.expm1(-jnp.where(moderate, x, 0.0))
    near = lead * near_y * expm1_ratio(-q * near_y) * log1p_ratio(inner)
    far_x = jnp.where(moderate, 1.0, x)
    log_lag = jnp.log(jnp.where(lag > 0, lag, 1.0)) + jnp.where(lag > 0, 0.0, -1e30)
    huge = jnp.logaddexp(log_lag, jnp.log(lead) - far_x)
    direct = jnp.log(lag + lead * jnp.exp(-jnp.minimum(far_x, 600.0)))
    far = -jnp.where(far_x < 600.0, direct, huge) / jnp.where(moderate, 1.0, q)
    return jnp.where(moderate, near, far)


def _excess(y: jax.Array, *race: jax.Array) -> jax.Array:
    """Return log(sum a_m^L / A^L) when the clock is at y, zero at the end."""
    r = _ScaledRace(*race)
    logs = r.log_start + _log_growth(y, r.lead, r.lag, r.depth - 2)
    return logsumexp(r.depth[..., None] * logs, axis=-1) - r.depth * r.log_saturation


def _end(r: _ScaledRace) -> jax.Array:
    """Return y at the end of the race: positive, or negative where the views start above saturation."""
    guess = r.log_saturation - r.log_start.max(-1)
    return solve_increasing(_excess, guess, *r)


def _to_go(v: jax.Array, k: jax.Array, q: jax.Array) -> jax.Array:
    """Return log(a_m(end) / a_m) when the clock has v to go, log(1 + k (e^(q v) - 1)) / q."""
    v, q = v[..., None], q[..., None]
    moderate = q * v < 1.0
    near_v = jnp.where(moderate, v, 0.0)
    reach = near_v * expm1_ratio(q * near_v)
    near = k * reach * log1p_ratio(k * q * reach)
    far_x = jnp.where(moderate, 1.0, q * v)
    far = v + jnp.log(k + (1 - k) * jnp.exp(-far_x)) / jnp.where(moderate, 1.0, q)
    return jnp.where(moderate, near, far)


def _elapsed(w: jax.Array, end: jax.Array, *race: jax.Array) -> jax.Array:
    """Return x t when all but e^(-w) of the clock has run: free growth, pole and Gauss-Legendre rest."""
    r = _ScaledRace(*race)
    q = r.depth - 2
    final = _log_growth(end, r.lead, r.lag, q)
    share = jnp.exp(r.depth[..., None] * (r.log_start + final - r.log_saturation[..., None]))
    k = jnp.exp(jnp.log(r.lead) - (q * end)[..., None] + q[..., None] * final)
    pole = jnp.exp(-q * end) / (r.depth * (share * k).sum(-1))
    y = -end * jnp.expm1(-w)

    def rest(v: jax.Array) -> jax.Array:
        missing = -(share * jnp.expm1(-r.depth[..., None] * _to_go(v, k, q))).sum(-1)  # 1 - G
        return (jnp.exp(-q * (end - v)) * (1 - missing) * v / missing - pole) / v

    # v = sinh(angle)/L spreads the end of the race, where the integrand turns within 1/L, over the nodes
    low, high = (jnp.arcsinh(r.depth * v) for v in (end * jnp.exp(-w), end))
    angle = low + (high - low) * POINTS.reshape(-1, *[1] * low.ndim)
    values = rest(jnp.sinh(angle) / r.depth) * jnp.cosh(angle) / r.depth
    regular = (high - low) * jnp.tensordot(POINT_WEIGHTS, values, 1)
    return y * expm1_ratio(-q * y) + pole * w + regular


@formula()
def race_end(strengths: Strength, rates: Positive, depth: RaceDepth = 2, saturation: Positive = 1.0) -> RaceEnd:
    """Return where a race of views ends: amplitudes, shares and winner, from a scalar root.

    strengths a_m(0) > 0 are layer amplitudes (P3's s_m at depth two), rates r_m > 0 (sigma_m), depth L >= 2,
    saturation A (s_max). The view is the last axis of strengths and rates; leading axes are races, and
    depth and saturation broadcast over those.
    """
    r = _race(strengths, rates, depth, saturation)
    logs = r.log_start + _log_growth(_end(r), r.lead, r.lag, r.depth - 2)
    log_shares = r.depth[..., None] * logs
    shares = jnp.exp(log_shares - logsumexp(log_shares, axis=-1, keepdims=True))
    return RaceEnd(jnp.exp(logs), shares, logs.argmax(-1))


@formula()
def race_amplitudes(
    times: Times, strengths: Strength, rates: Positive, depth: RaceDepth = 2, saturation: Positive = 1.0
) -> jax.Array:
    """Return the amplitudes a_m(t) of a race of views, view last.

    Arguments as in `race_end`; times broadcast against the leading axes of the races, so for one race any
    shape of times serves and the answer has that shape and then the view.
    """
    r = _race(strengths, rates, depth, saturation)
    end = _end(r)
    end = jnp.where(jnp.abs(end) < STARTED, STARTED, end)
    batch = jnp.broadcast_shapes(times.shape, end.shape)
    r = _ScaledRace(*(jnp.broadcast_to(x, (*batch, x.shape[-1]) if x.ndim > end.ndim else batch) for x in r))
    end = jnp.broadcast_to(end, batch)
    w = invert_elapsed(_elapsed, jnp.broadcast_to(times, batch) * r.fastest, end, *r)
    return jnp.exp(r.log_start + _log_growth(-end * jnp.expm1(-w), r.lead, r.lag, r.depth - 2))


@formula()
def race_invariants(amplitudes: Positive, rates: Positive, depth: RaceDepth = 2) -> jax.Array:
    """Return the conserved differences between the views' own clocks, the first view's being zero.

    View m reads T_m = log(a_m)/r_m at depth two and (1 - a_m^(2-L))/((L-2) r_m) beyond; all advance together,
    so T_m - T_1 stays. At depth two this is the logarithm of a_m^(1/r_m) / a_1^(1/r_1).
    """
    logs = jnp.log(amplitudes)
    reading = logs * expm1_ratio(-(depth[..., None] - 2) * logs) / rates
    return reading - reading[..., :1]
