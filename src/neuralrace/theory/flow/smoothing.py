"""Gates that open over a small width, so that a flow along thresholds is smooth.

Many neurons of a rectified layer come to the threshold of some example and stay there: the velocity drives them back
from both sides, and the gate takes a value in between (sliding). An integrator that sees the bare gate jump in every
step can only take first-order steps; with a gate that rises over a width the same motion is smooth.
"""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from neuralrace._engine.network import Network, Stacks
from neuralrace.activations import Activation, LeakyReLU
from neuralrace.axes import Array


@dataclass(frozen=True, eq=False)
class SmoothedReLU(Activation):
    """A leaky rectifier whose gate rises linearly while the input is within `width` of zero.

    The width is relative to the root mean square of what the neuron receives over the examples, so that neurons of any
    size are smoothed alike. weights: those of the rows.
    """

    slope: float
    width: Array
    weights: Array

    def __call__(self, received: jax.Array) -> jax.Array:
        """Return z where z is large, slope * z where it is very negative, and a parabola between."""
        weights = jnp.asarray(self.weights)
        size = jnp.sqrt(weights @ jax.lax.stop_gradient(received) ** 2 / jnp.sum(weights))
        reach = self.width * size + 1e-290
        inner = jnp.clip(received, -reach, reach)
        rising = jnp.maximum(received - reach, 0.0) + inner + (reach - inner) ** 2 / (4 * reach)
        return self.slope * received + (1 - self.slope) * jnp.where(received > -reach, rising, 0.0)

    def as_data(self) -> dict[str, float | str]:
        """Return its name and numbers."""
        return {"name": "smoothed_relu", "slope": self.slope, "width": float(self.width)}

    @property
    def homogeneous(self) -> bool:
        """The width grows with the input."""
        return True


@dataclass(frozen=True, eq=False)
class HeldActivation(Activation):
    """The tangent of an activation at `at`: its gates stay as they are there."""

    kind: Activation
    at: jax.Array

    def __call__(self, received: jax.Array) -> jax.Array:
        """Evaluate the tangent."""
        activity, gate = jax.jvp(self.kind, (self.at,), (jnp.ones_like(self.at),))
        return activity + gate * (received - self.at)

    def as_data(self) -> dict[str, float | str]:
        """Return the data of the activation."""
        return self.kind.as_data()

    @property
    def homogeneous(self) -> bool:
        """A tangent need not go through zero."""
        return False


def smoothed(network: Network, width: Array | None) -> Network:
    """Smooth every rectifier; width None changes nothing.

    Called where a program is traced, so that one program serves all widths and weights of examples.
    """
    if width is None:
        return network
    activations = tuple(
        (node, SmoothedReLU(kind.slope, width, network.row_weights[node]) if isinstance(kind, LeakyReLU) else kind)
        for node, kind in network.activations
    )
    return replace(network, activations=activations)


def held(network: Network, stacks: Stacks) -> Network:
    """Hold the gates of smoothed rectifiers as they are at some weights."""
    _, received = network.rows(stacks)
    activations = tuple(
        (node, HeldActivation(kind, network.node_rows(received, node)) if isinstance(kind, SmoothedReLU) else kind)
        for node, kind in network.activations
    )
    return replace(network, activations=activations)
