"""A ReLU network as a learner."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.equal_rows import partition, representatives
from neuralrace.architecture import Architecture
from neuralrace.axes import Edge, Weights
from neuralrace.training.learner import Data, Views
from neuralrace.training.objective import Objective
from neuralrace.training.relu import ReLUNetwork, propagate, rectify

Layers = list[jax.Array]


@dataclass(frozen=True, eq=False)
class RectifiedLearner:
    """A ReLU network that descends an objective; equal inputs are computed once."""

    network: ReLUNetwork
    objective: Objective

    @property
    def architecture(self) -> Architecture:
        """The graph whose edges carry the weights."""
        return self.network.architecture

    @property
    def example_count(self) -> int:
        """How many examples mini-batches are drawn from."""
        return len(self.network.task)

    def data(self, mini_batches: bool) -> Data:
        """All inputs, for looking; and what is trained on: distinct inputs, or every example for mini-batches."""
        network = self.network
        if mini_batches:
            return network.inputs, (network.targets, network.task.weights)
        inputs, targets, weights, _ = self._distinct
        return network.inputs, (inputs, targets, weights)

    def pack(self, weights: Weights) -> Layers:
        """Arrange weights for computing."""
        first, *rest = (jnp.asarray(weights[edge]) for edge in self.architecture.edges)
        return [first.T, *rest]

    def unpack(self, parameters: Layers) -> dict[Edge, jax.Array]:
        """Weights by edge again; leading axes are kept."""
        return dict(zip(self.architecture.edges, self._layers(parameters), strict=True))

    def loss_and_gradient(self, parameters: Layers, data: Data) -> tuple[jax.Array, Layers]:
        """The loss over all examples and its gradient."""
        loss, gradient = self._on(parameters, *data[1])
        return loss + self._distinct[3], gradient

    def batch_gradient(self, parameters: Layers, data: Data, examples: jax.Array) -> Layers:
        """The gradient of the loss over some examples, scaled to stand for all of them."""
        inputs, (targets, weights) = jax.tree.map(lambda rows: rows[examples], data)
        return self._on(parameters, inputs, targets, weights * (self.example_count / examples.shape[0]))[1]

    def views(self, names: tuple[str, ...]) -> Callable[[Layers, Data], Views]:
        """What to record of the network itself: outputs, hidden activity and which neurons are on."""
        network, hidden = self.network, self.architecture.hidden

        def look(parameters: Layers, data: Data) -> Views:
            output, received = propagate(self._layers(parameters), data[0], network.slope)
            seen: Views = {"outputs[y]": output} if "outputs" in names else {}
            for node, z in zip(hidden, received, strict=True):
                if "activity" in names:
                    seen[f"activity[{node}]"] = rectify(z, network.slope)
                if "gate_patterns" in names:
                    seen[f"gate_patterns[{node}]"] = z > 0
            return seen

        return look

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Distinct inputs, their mean targets and total weights, and the loss that no output can remove."""
        task, inputs, targets = self.network.task, self.network.inputs, self.network.targets
        labels = partition(len(task), inputs.T)
        weights = np.bincount(labels, weights=task.weights)
        first = representatives(labels)
        mean = np.zeros((len(first), targets.shape[1]))
        np.add.at(mean, labels, task.weights[:, None] * targets)
        mean /= np.where(weights > 0, weights, 1.0)[:, None]
        if self.objective.name != "squared":
            return inputs[first], mean, weights, 0.0
        left = ((targets - mean[labels]) ** 2).sum(axis=1)
        return inputs[first], mean, weights, 0.5 * float(task.weights @ left)

    @staticmethod
    def _layers(parameters: Layers) -> Layers:
        """The layers as (target, source) matrices; leading axes are kept."""
        first, *rest = parameters
        return [jnp.swapaxes(first, -1, -2), *rest]

    def _on(
        self, parameters: Layers, inputs: jax.Array, targets: jax.Array, weights: jax.Array
    ) -> tuple[jax.Array, Layers]:
        """Loss and gradient, by back-propagation written out.

        The first layer is kept transposed and the error has one example per column: with these layouts every
        product runs along contiguous rows, which takes a quarter off the time of differentiating `propagate`.
        The tests hold the two together.
        """
        first, *rest = parameters
        slope = self.network.slope
        received = [inputs @ first]
        activity = [rectify(received[0], slope)]
        for layer in rest[:-1]:
            received.append(activity[-1] @ layer.T)
            activity.append(rectify(received[-1], slope))
        outputs, columns = rest[-1] @ activity[-1].T, targets.T
        loss = jnp.dot(weights, self.objective.rows(outputs, columns, axis=0))
        error = weights * self.objective.slope(outputs, columns, axis=0)
        gradients = [error @ activity[-1]]
        back = error.T
        for index in range(len(rest) - 1, -1, -1):
            arriving = back @ rest[index]
            back = jnp.where(received[index] > 0, arriving, slope * arriving)
            if index > 0:
                gradients.append(back.T @ activity[index - 1])
        gradients.append(inputs.T @ back)
        return loss, gradients[::-1]
