"""The losses that training can descend: squared error and cross-entropy, with their derivatives at the output."""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import TaskError, UnknownNameError, nearest
from neuralrace.task import Task

OBJECTIVES = ("squared", "cross-entropy")


@dataclass(frozen=True)
class Objective:
    """A loss per row of outputs; rows are weighted and summed outside."""

    name: str

    def rows(self, outputs: jax.Array, targets: jax.Array, axis: int = -1) -> jax.Array:
        """The loss of each row: half the squared error, or -sum target log softmax(output)."""
        if self.name == "squared":
            return 0.5 * jnp.sum((outputs - targets) ** 2, axis=axis)
        return -jnp.sum(targets * jax.nn.log_softmax(outputs, axis=axis), axis=axis)

    def slope(self, outputs: jax.Array, targets: jax.Array, axis: int = -1) -> jax.Array:
        """The derivative of each row's loss with respect to its outputs."""
        if self.name == "squared":
            return outputs - targets
        return jax.nn.softmax(outputs, axis=axis) * jnp.sum(targets, axis=axis, keepdims=True) - targets


def make_objective(name: str, task: Task) -> Objective:
    """Look an objective up and check that the targets suit it."""
    if name not in OBJECTIVES:
        raise UnknownNameError(
            f"loss must be one of {', '.join(OBJECTIVES)}; it was {name!r}; {nearest(name, OBJECTIVES)}"
        )
    if name == "cross-entropy":
        _check_probabilities(task.targets)
    return Objective(name)


def _check_probabilities(targets: Mapping[str, np.ndarray]) -> None:
    """Rows of zeros are let through: an output that an example does not ask for."""
    for node, rows in targets.items():
        total = rows.sum(axis=1)
        wrong = (rows < 0).any(axis=1) | ((np.abs(total - 1) > 1e-9) & (np.abs(rows).sum(axis=1) > 0))
        if wrong.any():
            example = int(np.flatnonzero(wrong)[0])
            raise TaskError(
                f"cross-entropy needs targets that are probabilities, each row summing to one; example {example} of "
                f"{node!r} sums to {total[example]:g} with least entry {rows[example].min():g}"
            )
