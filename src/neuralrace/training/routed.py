"""Networks on routed images (P1 section 5): an encoder for each input domain, a shared layer, decoders likewise.

In the learner all encoders are one product, all decoders another, and pairs are a matrix of numbers. The hidden
activity of an input domain is computed once for all its outputs. Every decoder is then applied to it, in one product,
and the pairs that are not trained count for nothing: this costs less than gathering K decoders for every encoder, and
leaves the trained pairs an argument of the program, so that K is one more axis to map over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.network import Matrices, Stacks, on_device, stack_matrices
from neuralrace.activations import Activation, as_activation
from neuralrace.architecture import Architecture
from neuralrace.axes import Array, Edge, Weights
from neuralrace.errors import ProblemError, require_count
from neuralrace.images import RoutedImages
from neuralrace.problem import BIAS
from neuralrace.training.learner import Learner
from neuralrace.training.objectives import Objective

OUTPUTS_AT_ONCE = 4_000_000  # numbers: outputs of all pairs for as many images as are evaluated at once
LOOKED = 256  # training images that the recorded loss is over, where training goes by mini-batches


@dataclass(frozen=True, eq=False)
class RoutedNetwork:
    """M encoders x_i -> h1, a shared layer h1 -> h2, M decoders h2 -> y_j, and the routed images that they learn.

    Every batch is shown in all input domains; the loss is the mean over the trained pairs. hidden: the width of h1 and
    of h2. activation: of both, linear unless given. biases: one for each encoder, for the shared layer and for each
    decoder. Permutations of pixels and labels are a gauge: weights, given or found, are those for plain ones. looked:
    with mini-batches, the recorded loss is over so many training images. tested: test images that errors are measured
    on; all, unless given.
    """

    task: RoutedImages
    hidden: int
    activation: Activation | None
    biases: bool
    looked: int
    tested: int

    def __init__(
        self,
        task: RoutedImages,
        hidden: int = 128,
        activation: Any = None,
        biases: bool = True,
        looked: int = LOOKED,
        tested: int | None = None,
    ) -> None:
        if not isinstance(task, RoutedImages):
            raise ProblemError(f"task must be routed images, tasks.routed_images(...); it was {type(task).__name__}")
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "hidden", require_count("hidden", hidden))
        object.__setattr__(self, "activation", None if activation is None else as_activation(activation))
        object.__setattr__(self, "biases", bool(biases))
        object.__setattr__(self, "looked", min(require_count("looked", looked), len(task)))
        held = len(task.base.test_labels)
        object.__setattr__(self, "tested", held if tested is None else min(require_count("tested", tested), held))

    def __repr__(self) -> str:
        return f"RoutedNetwork({self.task!r}, hidden={self.hidden}, activation={self.activation})"

    @property
    def domains(self) -> int:
        """M."""
        return len(self.task.pairs)

    @property
    def activations(self) -> dict[str, Activation]:
        """Node -> activation."""
        return {} if self.activation is None else {"h1": self.activation, "h2": self.activation}

    @cached_property
    def architecture(self) -> Architecture:
        """The graph; edges are named by their ends, the bias of encoder i "bias->h1 of xi"."""
        count, base = self.domains, self.task.base
        first, last = [f"x{i}" for i in range(count)], [f"y{j}" for j in range(count)]
        nodes: dict[str, int] = dict.fromkeys(first, int(base.images.shape[-1]))
        nodes |= dict.fromkeys(("h1", "h2"), self.hidden)
        edges = {f"{node}->h1": (node, "h1") for node in first} | {"h1->h2": ("h1", "h2")}
        edges |= {f"h2->{node}": ("h2", node) for node in last}
        if self.biases:
            nodes[BIAS] = 1
            edges |= {f"{BIAS}->h1 of {node}": (BIAS, "h1") for node in first} | {f"{BIAS}->h2": (BIAS, "h2")}
            edges |= {f"{BIAS}->{node}": (BIAS, node) for node in last}
        nodes |= dict.fromkeys(last, base.classes)
        return Architecture(nodes, edges)

    def with_pairs(self, pairs: np.ndarray) -> "RoutedNetwork":
        """The same network with other trained pairs; it shares everything else."""
        other = replace(self, task=self.task.with_pairs(pairs))
        other.__dict__["architecture"] = self.architecture
        return other

    def arrays(self) -> dict[str, np.ndarray]:
        """All that training depends on, for the identity of a checkpoint."""
        base, shown = self.task.base, self.task.shown
        found = {"images": base.images, "labels": base.labels, "pairs": self.task.pairs}
        return found if shown is None else found | {"shown": shown}

    def describe(self) -> dict[str, object]:
        """What the network is, in plain values that can be stored with a result."""
        return {
            "network": "routed",
            "hidden": self.hidden,
            "activation": None if self.activation is None else self.activation.as_data(),
            "biases": self.biases,
            "looked": self.looked,
            "tested": self.tested,
            "examples": len(self.task),
            "task": dict(self.task.settings),
        }


class RoutedLearner(Learner):
    """M encoders, a shared layer and M decoders, on base images that are shown in every domain.

    images: as stored; `scale` brings them to [0, 1]. shown: index maps of the input domains; None: all domains see the
    base images. pairs: (M, M) booleans. looked: how many images the loss is over, from the first.
    """

    architecture: Architecture = eqx.field(static=True)
    objective: Objective = eqx.field(static=True)
    activation: Activation | None = eqx.field(static=True)
    example_count: int = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    looked: int = eqx.field(static=True)
    tested: int = eqx.field(static=True)
    images: Array
    labels: Array
    shown: Array | None
    pairs: Array
    test_images: Array | None
    test_labels: Array | None

    def pack(self, weights: Weights) -> Stacks:
        """Encoders (M, hidden, pixels), hidden (hidden, hidden), decoders (M, classes, hidden), and their biases."""
        domains = range(self.pairs.shape[-1])
        stacks = {
            "encoders": stack_matrices([weights[f"x{i}->h1"] for i in domains]),
            "hidden": on_device(weights["h1->h2"]),
            "decoders": stack_matrices([weights[f"h2->y{j}"] for j in domains]),
        }
        if BIAS in self.architecture.nodes:
            stacks |= {
                "encoder biases": stack_matrices([weights[f"{BIAS}->h1 of x{i}"][..., 0] for i in domains], -2),
                "hidden bias": on_device(weights[f"{BIAS}->h2"][..., 0]),
                "decoder biases": stack_matrices([weights[f"{BIAS}->y{j}"][..., 0] for j in domains], -2),
            }
        return stacks

    def unpack(self, parameters: Mapping[str, Matrices]) -> dict[Edge, Matrices]:
        """Weights by edge again; leading axes are kept."""
        domains = range(self.pairs.shape[-1])
        found: dict[Edge, Matrices] = {f"x{i}->h1": parameters["encoders"][..., i, :, :] for i in domains}
        found["h1->h2"] = parameters["hidden"]
        found |= {f"h2->y{j}": parameters["decoders"][..., j, :, :] for j in domains}
        if BIAS in self.architecture.nodes:
            found |= {f"{BIAS}->h1 of x{i}": parameters["encoder biases"][..., i, :, None] for i in domains}
            found[f"{BIAS}->h2"] = parameters["hidden bias"][..., None]
            found |= {f"{BIAS}->y{j}": parameters["decoder biases"][..., j, :, None] for j in domains}
        return found

    def loss(self, parameters: Stacks) -> jax.Array:
        """The mean over the trained pairs and the images that are looked at, a few images at a time."""

        def more(total: jax.Array, place: jax.Array) -> tuple[jax.Array, None]:
            rows = self._losses(parameters, jnp.minimum(place, self.looked - 1))
            return total + jnp.sum(jnp.where(place < self.looked, rows, 0.0)), None

        begin = jnp.zeros((), parameters["hidden"].dtype)
        return jax.lax.scan(more, begin, self._pieces(self.looked))[0] / self.looked

    def loss_and_gradient(self, parameters: Stacks) -> tuple[jax.Array, Stacks]:
        """The loss over all images, and its gradient."""
        return jax.value_and_grad(self._mean_loss)(parameters, jnp.arange(self.example_count))

    def batch_gradient(self, parameters: Stacks, chosen: jax.Array, *, by_weight: bool) -> Stacks:
        """The gradient of the loss over some images; all images weigh alike."""
        return jax.grad(self._mean_loss)(parameters, chosen)

    def draw(self, key: jax.Array, size: int) -> jax.Array:
        """All images are as likely."""
        return jax.random.randint(key, (size,), 0, self.example_count, dtype=jnp.int32)

    def pair_errors(self, parameters: Stacks) -> jax.Array:
        """The part of the test images that each pair of domains gets wrong, (M, M), a few images at a time."""
        assert self.test_images is not None
        assert self.test_labels is not None
        images, labels, domains = jnp.asarray(self.test_images), jnp.asarray(self.test_labels), self.pairs.shape[0]

        def more(wrong: jax.Array, place: jax.Array) -> tuple[jax.Array, None]:
            chosen = jnp.minimum(place, self.tested - 1)
            answers = jnp.argmax(self._outputs(parameters, images[..., chosen, :]), axis=-1)
            missed = (answers != labels[chosen][:, None, None]) & (place < self.tested)[:, None, None]
            return wrong + jnp.sum(missed, axis=0, dtype=jnp.int32), None

        begin = jnp.zeros((domains, domains), dtype=jnp.int32)
        wrong, _ = jax.lax.scan(more, begin, self._pieces(self.tested))
        return wrong.astype(parameters["hidden"].dtype) / self.tested

    def _pieces(self, count: int) -> jax.Array:
        """The places of so many images, (pieces, images); those of the last piece may be beyond the end."""
        outputs = self.pairs.shape[0] ** 2 * self.classes
        number = -(-count * outputs // OUTPUTS_AT_ONCE)
        size = -(-count // number)
        return jnp.arange(number * size).reshape(number, size)

    def _mean_loss(self, parameters: Stacks, chosen: jax.Array) -> jax.Array:
        return jnp.mean(self._losses(parameters, chosen))

    def _losses(self, parameters: Stacks, chosen: jax.Array) -> jax.Array:
        """The mean over the trained pairs for each of some images."""
        outputs = self._outputs(parameters, jnp.asarray(self.images)[..., chosen, :])
        targets = jnp.asarray(self.labels)[chosen][:, None] == jnp.arange(self.classes)
        losses = self.objective.rows(outputs, targets.astype(outputs.dtype)[:, None, None, :])  # (images, M, M)
        trained = jnp.asarray(self.pairs).astype(outputs.dtype)
        return jnp.sum(losses * (trained / jnp.sum(trained)), axis=(1, 2))

    def _outputs(self, parameters: Stacks, images: jax.Array) -> jax.Array:
        """(images, input domains, output domains, classes)."""
        encoders, hidden, decoders = (parameters[name] for name in ("encoders", "hidden", "decoders"))
        rows = images.astype(hidden.dtype) * self.scale
        if self.shown is not None:
            beyond = jnp.zeros((len(rows), 1), rows.dtype)  # what comes from outside an image is dark
            rows = jnp.concatenate([rows, beyond], axis=1)[:, self.shown]  # (images, M, pixels)
            received = jnp.einsum("bmd,mhd->bmh", rows, encoders)
        elif rows.ndim == 3:
            received = jnp.einsum("mbd,mhd->bmh", rows, encoders)
        else:
            received = jnp.einsum("bd,mhd->bmh", rows, encoders)
        near = self._active(received + parameters.get("encoder biases", 0.0))
        far = self._active(near @ hidden.T + parameters.get("hidden bias", 0.0))
        return jnp.einsum("bmh,nch->bmnc", far, decoders) + parameters.get("decoder biases", 0.0)

    def _active(self, received: jax.Array) -> jax.Array:
        return received if self.activation is None else self.activation(received)


def make_routed_learner(network: RoutedNetwork, objective: Objective, *, batches: bool, test: bool) -> RoutedLearner:
    """What a training needs; test: errors on test images are recorded."""
    task, base = network.task, network.task.base
    return RoutedLearner(
        architecture=network.architecture,
        objective=objective,
        activation=network.activation,
        example_count=len(task),
        classes=base.classes,
        scale=base.scale,
        looked=network.looked if batches else len(task),
        tested=network.tested,
        images=base.images,
        labels=base.labels,
        shown=task.shown,
        pairs=task.pairs,
        test_images=base.test_images if test else None,
        test_labels=base.test_labels if test else None,
    )
