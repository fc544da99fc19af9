"""Training of networks on routed images (P1 section 5): encoders and decoders by domain, and shared layers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.network import Matrices, Stacks
from neuralrace._engine.routed import routed_architecture, routed_outputs, stack_routed, unstack_routed
from neuralrace.activations import Activation, as_activation
from neuralrace.architecture import Architecture
from neuralrace.arrays import float64
from neuralrace.axes import Array, Edge, Weights
from neuralrace.errors import ProblemError, require_count, require_kind
from neuralrace.objectives import Objective
from neuralrace.tasks.images import RoutedImages
from neuralrace.training.learner import Learner

OUTPUTS_AT_ONCE = 4_000_000  # numbers: outputs of all pairs for the images that are evaluated at once
LOSS_IMAGES = 64  # training images that the recorded loss is over, where training goes by mini-batches


@dataclass(frozen=True, eq=False)
class RoutedNetwork:
    """M encoders x_i -> h1, layers that all domains share, M decoders -> y_j, and the routed images that they learn.

    Every batch is shown in all input domains; the loss is the mean over the trained pairs. With mini-batches the
    recorded loss is over the first 64 training images. hidden: the width of h1, h2, ... activation: of all of them,
    linear unless given. biases: one for each encoder, shared layer and decoder. depth: layers of weights. Permutations
    of pixels and labels are a gauge: weights, given or found, are those for plain images.
    """

    task: RoutedImages
    hidden: int = 128
    activation: Activation | None = None
    biases: bool = True
    depth: int = 3

    def __post_init__(self) -> None:
        given: object = self.task
        if not isinstance(given, RoutedImages):
            kind = type(given).__name__
            raise ProblemError(f"task must be routed images, tasks.routed_images(...); it was {kind}")
        require_count("hidden", self.hidden)
        require_count("depth", self.depth, least=2)
        if self.activation is not None:
            object.__setattr__(self, "activation", as_activation(self.activation))

    def __repr__(self) -> str:
        return f"RoutedNetwork({self.task!r}, hidden={self.hidden}, activation={self.activation})"

    @property
    def activations(self) -> dict[str, Activation]:
        """Node -> activation."""
        return {} if self.activation is None else {f"h{layer}": self.activation for layer in range(1, self.depth)}

    @cached_property
    def architecture(self) -> Architecture:
        """The graph; edges are named by their ends, the bias of encoder i "bias->h1 of xi"."""
        task = self.task
        sizes = (task.images.shape[-1], self.hidden, task.classes)
        return routed_architecture(task.domains, *sizes, self.depth, self.biases)

    def with_pairs(self, pairs: np.ndarray) -> "RoutedNetwork":
        """Return the same network with other trained pairs."""
        other = replace(self, task=self.task.with_pairs(pairs))
        other.__dict__["architecture"] = self.architecture
        return other

    @float64
    def forward(self, weights: Weights) -> np.ndarray:
        """Return the outputs of all pairs of domains for all plain training images, (images, M, M, classes)."""
        rows = jnp.asarray(self.task.images * self.task.scale)
        return np.asarray(routed_outputs(stack_routed(self.architecture, weights), rows, self.activation))


class RoutedLearner(Learner):
    """The loss of a routed network over base images that are shown in every domain; pairs: (M, M) booleans."""

    architecture: Architecture = eqx.field(static=True)
    objective: Objective = eqx.field(static=True)
    activation: Activation | None = eqx.field(static=True)
    example_count: int = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    loss_images: int = eqx.field(static=True)
    images: Array
    labels: Array
    maps: Array | None
    pairs: Array

    def pack(self, weights: Weights) -> Stacks:
        """Arrange weights as stacks."""
        return stack_routed(self.architecture, weights)

    def unpack(self, parameters: Mapping[str, Matrices]) -> dict[Edge, Matrices]:
        """Return weights by edge again."""
        return unstack_routed(self.architecture, parameters)

    def loss(self, parameters: Stacks) -> jax.Array:
        """Return the mean over the trained pairs and the first images."""
        return self._mean_loss(parameters, jnp.arange(self.loss_images))

    def loss_and_gradient(self, parameters: Stacks) -> tuple[jax.Array, Stacks]:
        """Return the loss over all images, and its gradient."""
        return jax.value_and_grad(self._mean_loss)(parameters, jnp.arange(self.example_count))

    def batch_gradient(self, parameters: Stacks, chosen: jax.Array, *, by_weight: bool) -> Stacks:
        """Return the gradient of the loss over some images; all images have equal weight."""
        return jax.grad(self._mean_loss)(parameters, chosen)

    def draw(self, key: jax.Array, size: int) -> jax.Array:
        """Draw images uniformly."""
        return jax.random.randint(key, (size,), 0, self.example_count, dtype=jnp.int32)

    def _mean_loss(self, parameters: Stacks, chosen: jax.Array) -> jax.Array:
        outputs, labels = self.outputs(parameters, jnp.asarray(self.images)[..., chosen, :]), jnp.asarray(self.labels)
        targets = (labels[chosen, None] == jnp.arange(self.classes)).astype(outputs.dtype)
        losses = self.objective.rows(outputs, targets[:, None, None, :])
        trained = jnp.asarray(self.pairs).astype(outputs.dtype)
        return jnp.mean(jnp.sum(losses * (trained / jnp.sum(trained)), axis=(1, 2)))

    def outputs(self, parameters: Stacks, images: jax.Array) -> jax.Array:
        """Return the outputs of every pair of domains, (images, M, M, classes)."""
        rows = images.astype(parameters["encoders"].dtype) * self.scale
        if self.maps is not None:
            dark = jnp.zeros((len(rows), 1), rows.dtype)
            rows = jnp.concatenate([rows, dark], axis=1)[:, self.maps]
        elif rows.ndim == 3:
            rows = jnp.swapaxes(rows, 0, 1)
        return routed_outputs(parameters, rows, self.activation)


class RoutedEvaluation(eqx.Module):
    """The loss and the accuracy over the chosen pairs and all images of other routed images; NaN without a pair."""

    learner: RoutedLearner

    def stack(self, weights: Weights) -> Stacks:
        """Arrange weights for computing."""
        return self.learner.pack(weights)

    def __call__(self, stacks: Stacks) -> dict[str, jax.Array]:
        """Go through the images in blocks, because the outputs of all pairs for all images take much memory."""
        learner, labels = self.learner, jnp.asarray(self.learner.labels)
        pairs = jnp.asarray(learner.pairs)

        def one(place: jax.Array) -> tuple[jax.Array, jax.Array]:
            outputs = learner.outputs(stacks, jnp.asarray(learner.images)[..., place[None], :])[0]
            target = (labels[place] == jnp.arange(learner.classes)).astype(outputs.dtype)
            losses = learner.objective.rows(outputs, target)
            right = (jnp.argmax(outputs, axis=-1) == labels[place]).astype(outputs.dtype)
            mean_loss, share = (jnp.sum(jnp.where(pairs, one, 0.0)) / jnp.sum(pairs) for one in (losses, right))
            return mean_loss, share

        numbers = pairs.size * learner.classes  # of one image
        at_once = max(OUTPUTS_AT_ONCE // numbers, 1)
        loss, accuracy = jax.lax.map(one, jnp.arange(learner.example_count), batch_size=at_once)
        return {"loss": jnp.mean(loss), "accuracy": jnp.mean(accuracy)}


def routed_evaluations(
    network: RoutedNetwork, evaluate: Mapping[str, Any] | None, objective: Objective
) -> dict[str, RoutedEvaluation]:
    """Plan the evaluation of a network on other routed images of as many domains."""
    found = {}
    for name, images in (evaluate or {}).items():
        require_kind(f"evaluate[{name!r}]", images, RoutedImages, ProblemError)
        other = replace(network, task=images)
        if other.architecture.nodes != network.architecture.nodes:
            raise ProblemError(f"evaluate[{name!r}] must have the domains, pixels and classes of the training images")
        found[name] = RoutedEvaluation(make_routed_learner(other, objective, batches=False))
    return found


def make_routed_learner(network: RoutedNetwork, objective: Objective, *, batches: bool) -> RoutedLearner:
    """Plan a training."""
    task = network.task
    return RoutedLearner(
        architecture=network.architecture,
        objective=objective,
        activation=network.activation,
        example_count=len(task),
        classes=task.classes,
        scale=task.scale,
        loss_images=min(LOSS_IMAGES, len(task)) if batches else len(task),
        images=task.images,
        labels=task.labels,
        maps=task.maps,
        pairs=task.pairs,
    )
