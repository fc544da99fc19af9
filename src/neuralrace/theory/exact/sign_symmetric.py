"""Bias-free ReLU and leaky ReLU networks on sign-symmetric data: a linear network in slower time.

A leaky ReLU of slope alpha is c z + (1 - c)|z| with c = (1 + alpha)/2. Let every example x with target y
come with -x and target -y, and let the even part of the network, (1 - c) sum_k W2[:, k] |W1[k] x|, be zero.
Then the error is odd, every even factor averages out, and gradient flow is

    dW1/dt = c W2^T (Sigma_yx - c W2 W1 Sigma_x),  dW2/dt = c (Sigma_yx - c W2 W1 Sigma_x) W1^T:

sqrt(c) W1, sqrt(c) W2 move like a linear network at the time c t (Zhang, Saxe and Latham). The even part
stays zero if the neurons come in antipodal pairs (w1, w2), (-w1, -w2), or if all weights are of rank one,
W1 = u p^T and W2 = b u^T, with sum_k u_k |u_k| = 0. No neuron may be at its kink on an example (there take
the slope c).
"""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import RangeError
from neuralrace.theory.exact._checks import Numbers, RealMatrix, Times, entry_point
from neuralrace.theory.exact.lambda_balanced import TwoLayerFlow, lambda_balanced_flow
from neuralrace.theory.exact.two_layer import two_layer_loss, two_layer_mode, two_layer_time


class SignSymmetry(NamedTuple):
    """How far data and weights are from the assumptions, relative; zero is exact."""

    data: float  # examples and targets without an antipode
    even_part: float  # even part of the initial network over its size


SLOPE_HINT = "the slope of the negative side: 0 for ReLU, 1 for a linear network"
Slope = Annotated[Any, Numbers(above=-1.0, hint=SLOPE_HINT)]


@entry_point
def linear_time_factor(slope: Slope = 0.0) -> jax.Array:
    """Return c = (1 + alpha)/2, by which time runs slower than in the linear network; 1/2 for ReLU."""
    return (1 + slope) / 2


@entry_point
def sign_symmetric_mode(
    times: Times, singular_value: Any, input_variance: Any, initial_strength: Any, slope: Slope = 0.0
) -> jax.Array:
    """Return the strength of a mode of the function that a (leaky) ReLU network computes.

    As `two_layer_mode` at the time c t; initial_strength is that of the function, c W2 W1, aligned and
    balanced. slope alpha is that of the negative side, 0 for ReLU.
    """
    return two_layer_mode((1 + slope) / 2 * times, singular_value, input_variance, initial_strength)


@entry_point
def sign_symmetric_time(
    strength: Any, singular_value: Any, input_variance: Any, initial_strength: Any, slope: Slope = 0.0
) -> jax.Array:
    """Return the time at which such a mode reaches a strength; 0 and inf as in `two_layer_time`."""
    return two_layer_time(strength, singular_value, input_variance, initial_strength) / ((1 + slope) / 2)


@entry_point
def sign_symmetric_loss(
    times: Times, singular_value: Any, input_variance: Any, initial_strength: Any, slope: Slope = 0.0
) -> jax.Array:
    """Return the loss still to be lost in such a mode."""
    return two_layer_loss((1 + slope) / 2 * times, singular_value, input_variance, initial_strength)


@entry_point
def sign_symmetric_flow(
    times: Times, correlation: Any, first_layer: RealMatrix, second_layer: RealMatrix, slope: Slope = 0.0
) -> TwoLayerFlow:
    """Return the exact course of a (leaky) ReLU network from unaligned, lambda-balanced weights.

    correlation Sigma_yx of white inputs, first_layer W1(0) and second_layer W2(0) of the ReLU network, whose
    neurons come in antipodal pairs (see `sign_symmetry`). `function` is the map c W2 W1 that the network
    computes; the Gram matrices are those of its own weights.
    """
    c = (1 + slope) / 2
    root = jnp.sqrt(c)
    flow = lambda_balanced_flow(c * times, correlation, root * first_layer, root * second_layer)
    return TwoLayerFlow(flow.function, flow.input_gram / c, flow.output_gram / c)


@entry_point
def sign_symmetry(
    inputs: RealMatrix, targets: RealMatrix, first_layer: RealMatrix, second_layer: RealMatrix
) -> SignSymmetry:
    """Return how far the assumptions are from holding at the start, for examples in rows.

    Both numbers at rounding level mean that the network is linear at the start; that it stays so wants
    antipodal pairs or weights of rank one (see the top of this file).
    """
    x, y, first, second = (np.asarray(rows) for rows in (inputs, targets, first_layer, second_layer))
    if len(x) != len(y):
        raise RangeError(f"inputs and targets must have as many rows; they had {len(x)} and {len(y)}")
    even = np.abs(x @ first.T) @ second.T
    whole = np.abs(x @ first.T) @ np.abs(second.T)
    return SignSymmetry(_antipodes(np.hstack([x, y])), float(np.max(np.abs(even)) / np.max(whole)))


def _antipodes(rows: np.ndarray) -> float:
    """Return the largest difference between the sorted rows and their sorted negatives."""
    size = np.max(np.abs(rows))
    rounded = np.round(rows / size, 9) + 0.0
    there = rounded[np.lexsort(rounded.T)]
    back = -rounded + 0.0
    return float(np.max(np.abs(there - back[np.lexsort(back.T)])))
