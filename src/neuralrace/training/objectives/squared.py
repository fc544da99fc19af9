"""Half the squared error."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.task import Task
from neuralrace.training.objectives.objective import Objective


@dataclass(frozen=True)
class Squared(Objective):
    """|output - target|^2 / 2."""

    name: str = "squared"
    compresses: bool = True

    def rows(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        """Half the squared error of each row."""
        return 0.5 * jnp.sum((outputs - targets) ** 2, axis=-1)

    def silence(self, targets: np.ndarray) -> np.ndarray:
        """Half the squared length of each target."""
        return 0.5 * np.asarray((targets**2).sum(axis=-1))

    def check(self, task: Task) -> None:
        """Any targets will do."""


OBJECTIVE = Squared()
