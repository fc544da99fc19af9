"""The cross-entropy of a softmax."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import TaskError
from neuralrace.task import Task
from neuralrace.training.objectives import Objective


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """-sum target log softmax(output)."""

    name: str = "cross-entropy"
    compresses: bool = False

    def rows(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        """The cross-entropy of each row."""
        return -jnp.sum(targets * jax.nn.log_softmax(outputs, axis=-1), axis=-1)

    def silence(self, targets: np.ndarray) -> np.ndarray:
        """All classes alike."""
        return np.asarray(targets.sum(axis=-1)) * float(np.log(targets.shape[-1]))

    def check(self, task: Task) -> None:
        """Targets must be probabilities; a row of zeros is let through: an output that an example does not ask for."""
        for node, rows in task.targets.items():
            total = rows.sum(axis=1)
            wrong = (rows < 0).any(axis=1) | ((np.abs(total - 1) > 1e-9) & (np.abs(rows).sum(axis=1) > 0))
            if wrong.any():
                example = int(np.flatnonzero(wrong)[0])
                raise TaskError(
                    f"cross-entropy needs targets that are probabilities, each row summing to one; example {example} "
                    f"of {node!r} sums to {total[example]:g} with least entry {rows[example].min():g}"
                )


OBJECTIVE = CrossEntropy()
