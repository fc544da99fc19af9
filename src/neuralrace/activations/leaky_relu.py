"""The rectifier and its leaky kin: z where z > 0, slope * z elsewhere."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from neuralrace.activations.activation import Activation
from neuralrace.errors import require_number


@dataclass(frozen=True)
class LeakyReLU(Activation):
    """slope: what a negative input is multiplied by; 0 is the ReLU, 1 a linear node."""

    slope: float = 0.0

    def __call__(self, received: jax.Array) -> jax.Array:
        """z where z > 0, slope * z elsewhere."""
        return jnp.where(received > 0, received, self.slope * received)

    def as_data(self) -> dict[str, float | str]:
        """Its name and slope."""
        return {"name": "leaky_relu", "slope": self.slope}

    @property
    def homogeneous(self) -> bool:
        """A gate that is not negative may stand before or behind it."""
        return True


def leaky_relu(slope: float = 0.01) -> LeakyReLU:
    """A leaky rectifier with the given slope for negative inputs."""
    return LeakyReLU(require_number("slope", slope))


ACTIVATIONS = {"relu": LeakyReLU, "leaky_relu": leaky_relu}
