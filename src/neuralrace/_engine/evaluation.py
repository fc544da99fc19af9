"""The loss and the accuracy of a network on some examples, as a function of its weights."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled
from neuralrace._engine.network import LossOfRows, Network, Stacks, half_squares
from neuralrace.axes import Array, Weights

AT_ONCE = 64  # sets of weights in one compiled call


class Evaluation(eqx.Module):
    """A network on examples.

    targets: node -> (N, size); None: the rows of the network stand for all examples. amount: (N,), the weights of the
    examples. classes: (N,), None where targets are no classes.
    """

    network: Network
    of_rows: LossOfRows = eqx.field(static=True)
    targets: dict[str, Array] | None
    amount: Array
    classes: Array | None

    def stack(self, weights: Weights) -> Stacks:
        """Arrange weights for computing; leading axes are kept."""
        return self.network.stack(weights)

    def __call__(self, stacks: Stacks) -> dict[str, jax.Array]:
        """The loss and, of classes, the accuracy."""
        if self.targets is None:
            return {"loss": self.network.loss(stacks, self.of_rows)}
        outputs, loss = self.outputs(stacks), jnp.zeros(())
        for node, targets in self.targets.items():
            loss = loss + jnp.dot(self.amount, self.of_rows(outputs[node], jnp.asarray(targets)))
        if self.classes is None:
            return {"loss": loss}
        answers, targets = (jnp.hstack(list(rows.values())) for rows in (outputs, self.targets))
        middle = 0.5 * (jnp.min(targets) + jnp.max(targets))
        found = jnp.argmax(answers, axis=1) if answers.shape[1] > 1 else answers[:, 0] > middle
        return {"loss": loss, "accuracy": jnp.dot(self.amount, found == self.classes)}

    def outputs(self, stacks: Stacks) -> dict[str, jax.Array]:
        """The outputs for every example, (N, size) each."""
        rows, _ = self.network.rows(stacks)
        return {node: self.network.per_example(rows, node) for node in self.targets or ()}


def make_evaluation(problem: Any, of_rows: LossOfRows = half_squares, *, moments: bool = True) -> Evaluation:
    """Plan the evaluation of a problem. moments: the loss depends on the examples through second moments only."""
    classes = problem.task.classes
    if moments and classes is None and not problem.activations and not problem.gates.neurons:
        return Evaluation(problem.network, of_rows, None, np.ones(0), None)
    task = problem.task
    return Evaluation(problem.every_example, of_rows, dict(task.targets), task.weights, classes)


def over_time(evaluation: Evaluation, sets: Iterable[Weights]) -> dict[str, np.ndarray]:
    """Evaluate many sets of weights, one after the other; (sets,) each."""
    parts = list(_mapped(evaluation, sets))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def entry_losses(outputs: Any, targets: Any, loss: str) -> Any:
    """The part of each output in the loss of each example, (..., N, size); loss: "squared" or "cross-entropy"."""
    if loss == "cross-entropy":
        return -targets * jax.nn.log_softmax(outputs, axis=-1)
    return 0.5 * (outputs - targets) ** 2


def loss_tables(evaluation: Evaluation, sets: Iterable[Weights], labels: np.ndarray, loss: str) -> np.ndarray:
    """The loss by label and output of many sets of weights, (sets, labels, outputs); labels: (labels, N), 0 or 1."""
    return np.concatenate([part["table"] for part in _mapped(evaluation, sets, labels, loss)])


def _mapped(evaluation: Evaluation, sets: Iterable[Weights], *table: Any) -> Iterator[dict[str, np.ndarray]]:
    remaining = iter(sets)
    while some := list(itertools.islice(remaining, AT_ONCE)):
        padded = some + [some[-1]] * (AT_ONCE - len(some))  # one program for any number
        stacks = evaluation.stack({edge: np.stack([one[edge] for one in padded]) for edge in some[0]})
        found = _tables(evaluation, stacks, *table) if table else _evaluated(evaluation, stacks)
        yield {name: np.asarray(values)[: len(some)] for name, values in found.items()}


@compiled
def _evaluated(evaluation: Evaluation, stacks: Stacks) -> dict[str, jax.Array]:
    found: dict[str, jax.Array] = jax.lax.map(evaluation, stacks)
    return found


@compiled
def _tables(evaluation: Evaluation, stacks: Stacks, labels: Array, loss: str) -> dict[str, jax.Array]:
    def one(stacks: Stacks) -> jax.Array:
        outputs, targets = evaluation.outputs(stacks), evaluation.targets or {}
        parts = [entry_losses(outputs[node], targets[node], loss) for node in targets]
        return jnp.asarray(labels * evaluation.amount) @ jnp.hstack(parts)

    return {"table": jax.lax.map(one, stacks)}
