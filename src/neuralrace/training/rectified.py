"""A ReLU network as a learner."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.partition import partition, representatives
from neuralrace.training.learner import Data, Views
from neuralrace.training.objective import Objective
from neuralrace.training.relu import ReLUNetwork, layer_gradients, propagate, rectify
from neuralrace.types import Edge, Weights

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
        return [jnp.asarray(weights[edge]) for edge in self.architecture.edges]

    def unpack(self, parameters: Layers) -> dict[Edge, jax.Array]:
        """Weights by edge again; leading axes are kept."""
        return dict(zip(self.architecture.edges, parameters, strict=True))

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
            output, received, _ = propagate(parameters, data[0], network.slope)
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

    def _on(
        self, layers: Layers, inputs: jax.Array, targets: jax.Array, weights: jax.Array
    ) -> tuple[jax.Array, Layers]:
        slope = self.network.slope
        outputs, received, entering = propagate(layers, inputs, slope)
        loss = jnp.dot(weights, self.objective.rows(outputs, targets))
        output_slope = weights[:, None] * self.objective.slope(outputs, targets)
        return loss, layer_gradients(layers, received, entering, output_slope, slope)
