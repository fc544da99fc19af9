"""What every objective knows."""

from abc import ABC, abstractmethod

import jax
import numpy as np

from neuralrace.task import Task


class Objective(ABC):
    """A loss per row of outputs; rows are weighted and summed outside. A frozen value."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is asked for by."""

    @property
    @abstractmethod
    def compresses(self) -> bool:
        """Whether it sees the examples through their second moments only, so that fewer examples do."""

    @abstractmethod
    def rows(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        """The loss of each row."""

    @abstractmethod
    def silence(self, targets: np.ndarray) -> np.ndarray:
        """The loss of each row of targets where the output is zero."""

    @abstractmethod
    def check(self, task: Task) -> None:
        """Refuse targets that mean nothing to it."""
