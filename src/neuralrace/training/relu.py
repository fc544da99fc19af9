"""Bias-free ReLU and leaky-ReLU networks of any depth, with one linear read-out."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Weights
from neuralrace.errors import RangeError, TaskError, require_count, require_number
from neuralrace.precision import float64
from neuralrace.problem import check_weights
from neuralrace.task import Task


@dataclass(frozen=True, eq=False)
class ReLUNetwork:
    """A fully connected network with rectified hidden layers and the task that it learns.

    Several input nodes are concatenated to one, several outputs likewise, in the order of the task. hidden: the width
    of each hidden layer. slope: what a negative pre-activation is multiplied by; 0 is the ReLU. There are no biases;
    append a constant input for one.
    """

    task: Task
    hidden: tuple[int, ...]
    slope: float = 0.0

    def __init__(self, task: Task, hidden: int | Sequence[int] = (128,), slope: float = 0.0) -> None:
        if not isinstance(task, Task):
            raise TaskError(f"task must be of type Task; it was {type(task).__name__}")
        widths: tuple[Any, ...] = (hidden,) if np.ndim(hidden) == 0 else tuple(hidden)  # type: ignore[arg-type]
        if not widths:
            raise RangeError("hidden must name the width of at least one hidden layer; it was empty")
        checked = tuple(require_count(f"the width of hidden layer {i + 1}", w) for i, w in enumerate(widths))
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "hidden", checked)
        object.__setattr__(self, "slope", require_number("slope", slope))

    @cached_property
    def architecture(self) -> Architecture:
        """The chain of layers x -> h1 -> h2 -> ... -> y."""
        names = ["x", *(f"h{i + 1}" for i in range(len(self.hidden))), "y"]
        sizes = [self.inputs.shape[1], *self.hidden, self.targets.shape[1]]
        return Architecture(dict(zip(names, sizes, strict=True)), list(itertools.pairwise(names)))

    @cached_property
    def inputs(self) -> np.ndarray:
        """All inputs side by side, (N, inputs)."""
        return np.hstack(list(self.task.inputs.values()))

    @cached_property
    def targets(self) -> np.ndarray:
        """All targets side by side, (N, outputs)."""
        return np.hstack(list(self.task.targets.values()))

    @float64
    def forward(self, weights: Weights) -> dict[str, np.ndarray]:
        """The outputs for every example: {output: (N, size)}, by the output nodes of the task."""
        layers = [check_weights(self.architecture, weights)[edge] for edge in self.architecture.edges]
        output = np.asarray(propagate(layers, jnp.asarray(self.inputs), self.slope)[0])
        sizes = [rows.shape[1] for rows in self.task.targets.values()]
        return dict(zip(self.task.targets, np.split(output, np.cumsum(sizes)[:-1], axis=1), strict=True))

    @float64
    def preactivations(self, weights: Weights) -> dict[str, np.ndarray]:
        """What each hidden neuron receives for every example: {layer: (N, width)}."""
        layers = [check_weights(self.architecture, weights)[edge] for edge in self.architecture.edges]
        received = propagate(layers, jnp.asarray(self.inputs), self.slope)[1]
        return {node: np.asarray(z) for node, z in zip(self.architecture.hidden, received, strict=True)}

    @float64
    def loss(self, weights: Weights) -> float:
        """Half the weighted mean squared error, summed over the outputs."""
        errors = np.hstack(list(self.forward(weights).values())) - self.targets
        return float(0.5 * self.task.weights @ (errors**2).sum(axis=1))

    def describe(self) -> dict[str, object]:
        """What the network is, in plain values that can be stored with a result."""
        return {
            "network": "ReLU" if self.slope == 0 else f"leaky ReLU ({self.slope:g})",
            "slope": self.slope,
            "nodes": dict(self.architecture.nodes),
            "examples": len(self.task),
        }


def propagate(layers: Sequence[Any], inputs: jax.Array, slope: float) -> tuple[jax.Array, list[jax.Array]]:
    """Return the outputs and the pre-activations of every hidden layer; one example per row."""
    activity, received = inputs, []
    for layer in layers[:-1]:
        received.append(activity @ layer.T)
        activity = rectify(received[-1], slope)
    return activity @ layers[-1].T, received


def rectify(received: jax.Array, slope: float) -> jax.Array:
    """z where z > 0, slope * z elsewhere."""
    return jnp.where(received > 0, received, slope * received)
