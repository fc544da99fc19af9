"""The task between XOR and a linear margin, and which of two gatings learns it first (P2 appendix C).

Four examples carry XOR in two coordinates and the label times Delta in a third. One gating has two paths
(one per label), the other has four (one per example). Each path is a two-layer mode.
"""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from neuralrace.errors import RangeError
from neuralrace.theory.exact._checks import NotNegative, Numbers, Real, entry_point
from neuralrace.theory.exact._inverse import solve_increasing
from neuralrace.theory.exact.two_layer import two_layer_loss, two_layer_time_to_loss

MARGIN_HINT = "at Delta = 0 the linear gating has nothing to learn from"


class GatingStatistics(NamedTuple):
    """What one path of a gating sees; its other paths see the same by symmetry."""

    singular_value: jax.Array  # s of Sigma_yx(p)
    input_variance: jax.Array  # d, the variance of Sigma_x(p, p) along that singular vector
    paths: int  # how many paths, each open for its own share of the four examples


@entry_point
def linear_gating(margin: Annotated[Any, Numbers(above=0.0, hint=MARGIN_HINT)]) -> GatingStatistics:
    """Return the statistics of the two-path gating: s = Delta/2, d = Delta^2/2 (P2 eqs 13-17)."""
    return GatingStatistics(margin / 2, margin**2 / 2, 2)


@entry_point
def xor_gating(margin: NotNegative) -> GatingStatistics:
    """Return the statistics of the four-path gating: s = sqrt(2 + Delta^2)/4, d = (2 + Delta^2)/4.

    The d is that of the data; P2 appendix C prints 1/8 + Delta^2/16, which is s^2 (see the errata).
    At Delta = 0 this is the XOR task of P1 appendix A.1.
    """
    power = 2 + margin**2  # |x|^2 of each example
    return GatingStatistics(jnp.sqrt(power) / 4, power / 4, 4)


@entry_point
def gating_loss(times: Any, statistics: GatingStatistics, initial_strength: Any) -> jax.Array:
    """Return the loss of all paths together, 1/2 - n s a + n d a^2/2 (P2 eqs 22 and 23)."""
    s, d, paths = statistics
    return paths * two_layer_loss(times, s, d, initial_strength)


@entry_point
def gating_time(loss: Real, statistics: GatingStatistics, initial_strength: Any) -> jax.Array:
    """Return the time at which the loss of a gating has fallen to a criterion (P2 Fig. 2d uses 0.2)."""
    s, d, paths = statistics
    return two_layer_time_to_loss(loss / paths, s, d, initial_strength)


def _rate_lead(log_margin: jax.Array) -> jax.Array:
    margin = jnp.exp(log_margin)
    return linear_gating(margin).singular_value - xor_gating(margin).singular_value


def _time_lead(log_margin: jax.Array, loss: jax.Array, strength: jax.Array) -> jax.Array:
    margin = jnp.exp(log_margin)
    slow = gating_time(loss, linear_gating(margin), strength)
    return jnp.log(gating_time(loss, xor_gating(margin), strength)) - jnp.log(slow)


@entry_point
def crossover_margin(
    loss: Annotated[Any, Numbers(above=0.0, most=0.49)] = None,
    initial_strength: Annotated[Any, Numbers(above=0.0, most=0.1)] = None,
) -> jax.Array:
    """Return the margin Delta at which both gatings learn equally fast, found by solving for it.

    Without arguments the growth rates 2s are compared, which is what decides from vanishing strength
    (P2 eqs 24-26). With a loss criterion and an initial strength, both in (0, 1/2) and small enough that
    neither gating meets the criterion at the start, the times themselves are compared.
    """
    if (loss is None) != (initial_strength is None):
        missing = "loss" if loss is None else "initial_strength"
        raise RangeError(
            f"crossover_margin needs loss and initial_strength together, or neither; {missing} was left out"
        )
    if loss is None:
        return jnp.exp(solve_increasing(_rate_lead, jnp.zeros(())))
    guess = jnp.zeros(jnp.broadcast_shapes(loss.shape, initial_strength.shape))
    return jnp.exp(solve_increasing(_time_lead, guess, loss, initial_strength))
