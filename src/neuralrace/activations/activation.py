"""What every activation has."""

from abc import ABC, abstractmethod

import jax


class Activation(ABC):
    """A function of what a neuron receives, applied to each neuron alone; a frozen value."""

    @abstractmethod
    def __call__(self, received: jax.Array) -> jax.Array:
        """The activity; zero where nothing is received."""

    @abstractmethod
    def as_data(self) -> dict[str, float | str]:
        """The activation in plain values, from which it can be made again."""

    @property
    @abstractmethod
    def homogeneous(self) -> bool:
        """Whether f(g z) = g f(z) for every g that is not negative; otherwise gates can only be 0 or 1."""
