"""The losses that can be descended; own ones are values of a subclass of `Objective`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.example_rows import carrying_gates
from neuralrace._engine.network import Network, half_squares
from neuralrace.errors import TaskError, require_name
from neuralrace.problem import Problem
from neuralrace.task import Task

__all__ = ["CrossEntropy", "Objective", "Squared", "as_objective"]


class Objective(ABC):
    """A loss of each row of outputs; rows are weighted and summed outside. A frozen value."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in settings."""

    @property
    @abstractmethod
    def compresses(self) -> bool:
        """Whether the loss depends on the examples through their second moments only, so that fewer rows suffice."""

    @abstractmethod
    def rows(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        """Compute the loss of each row."""

    def check(self, task: Task) -> None:
        """Raise if targets are invalid for this objective (default: accept all)."""
        return


@dataclass(frozen=True)
class Squared(Objective):
    """|output - target|^2 / 2."""

    name: str = "squared"
    compresses: bool = True

    def rows(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        """Half the squared error of each row."""
        return half_squares(outputs, targets)


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """-sum target log softmax(output)."""

    name: str = "cross-entropy"
    compresses: bool = False

    def rows(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        """The cross-entropy of each row."""
        return -jnp.sum(targets * jax.nn.log_softmax(outputs, axis=-1), axis=-1)

    def check(self, task: Task) -> None:
        """Targets must be probabilities; a row of zeros is allowed: that output does not count for the example."""
        for node, rows in task.targets.items():
            total = rows.sum(axis=1)
            wrong = (rows < 0).any(axis=1) | ((np.abs(total - 1) > 1e-9) & (np.abs(rows).sum(axis=1) > 0))
            if wrong.any():
                example = int(np.flatnonzero(wrong)[0])
                raise TaskError(
                    f"cross-entropy needs targets that are probabilities, each row summing to one; example {example} "
                    f"of {node!r} sums to {total[example]:g} with least entry {rows[example].min():g}"
                )


NAMED = {objective.name: objective for objective in (Squared(), CrossEntropy())}


def as_objective(given: str | Objective, task: Task | None = None) -> Objective:
    """Find an objective by name, or take a value, after checking the targets of a task."""
    if not isinstance(given, Objective):
        given = NAMED[require_name("loss", given, NAMED)]
    if task is not None:
        given.check(task)
    return given


def planned(problem: Problem, objective: Objective) -> Network:
    """Plan the network on as few rows as the objective allows, with the loss that no weights can change."""
    if objective.compresses:
        return problem.network
    counted = problem.with_weight
    carrying = carrying_gates(problem.architecture, counted.task, counted.gates)
    constant = 0.0
    for node, rows in counted.task.targets.items():
        reached = np.logical_or.reduce([carrying[edge] != 0 for edge in problem.architecture.incoming[node]])
        if not reached.all():
            silent = jnp.asarray(rows[~reached])
            constant += float(counted.task.weights[~reached] @ objective.rows(jnp.zeros_like(silent), silent))
    return replace(problem.examples_apart, constant_loss=np.asarray(constant))
