"""Gates that open over a small width, so that a flow along thresholds is smooth.

Many neurons of a rectified layer come to the threshold of some example and stay there: the velocity drives them back
from both sides, and the gate takes a value in between (sliding). An integrator that sees the bare gate jump in every
step can only take first-order steps; with a gate that rises over a width the same motion is smooth.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp

from neuralrace._engine.network import Network, Stacks
from neuralrace.activations import LeakyReLU
from neuralrace.axes import Array


def smoothed_relu(slope: float, width: Array, weights: Array, received: jax.Array) -> jax.Array:
    """Evaluate a leaky rectifier whose gate rises linearly while the input is within `width` of zero.

    The width is relative to the root mean square of what the neuron receives over the rows with these weights, so that
    neurons of any size are smoothed alike.
    """
    size = jnp.sqrt(jnp.asarray(weights) @ jax.lax.stop_gradient(received) ** 2 / jnp.sum(weights))
    reach = width * size + 1e-290
    inner = jnp.clip(received, -reach, reach)
    rising = jnp.maximum(received - reach, 0.0) + inner + (reach - inner) ** 2 / (4 * reach)
    return slope * received + (1 - slope) * jnp.where(received > -reach, rising, 0.0)


def smoothed(network: Network, width: Array | None, at: Stacks | None = None) -> Network:
    """Smooth every rectifier, or hold its gates as they are at the weights `at`: it becomes its tangent there.

    width: None changes nothing. Called where a program is traced, so that one program serves all widths and weights of
    examples.
    """
    if width is None:
        return network
    received = None if at is None else smoothed(network, width).rows(at)[1]

    def activation(node: str, kind: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
        if not isinstance(kind, LeakyReLU):
            return kind
        smooth = partial(smoothed_relu, kind.slope, width, network.row_weights[node])
        if received is None:
            return smooth
        there = network.node_rows(received, node)
        activity, gate = jax.jvp(smooth, (there,), (jnp.ones_like(there),))
        return lambda rows: activity + gate * (rows - there)

    return replace(network, activations=tuple((node, activation(node, kind)) for node, kind in network.activations))
