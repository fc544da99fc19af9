"""The front door to a chain of rectified layers with one linear read-out."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.activations import leaky_relu
from neuralrace.architecture import Architecture
from neuralrace.axes import Weights
from neuralrace.errors import RangeError, TaskError, require_count, require_number
from neuralrace.precision import float64
from neuralrace.problem import Problem
from neuralrace.task import Task


@dataclass(frozen=True, eq=False, repr=False)
class ReLUNetwork(Problem):
    """A fully connected network x -> h1 -> h2 -> ... -> y with rectified hidden layers, and the task that it learns.

    Several input nodes of the task are put side by side as one, several outputs likewise. hidden: the width of each
    hidden layer. slope: what a negative pre-activation is multiplied by; 0 is the ReLU. biases: see Problem.
    """

    hidden: tuple[int, ...]
    slope: float
    given: Task  # as it came, with its own nodes

    def __init__(
        self, task: Task, hidden: int | Sequence[int] = (128,), slope: float = 0.0, biases: bool = False
    ) -> None:
        if not isinstance(task, Task):
            raise TaskError(f"task must be of type Task; it was {type(task).__name__}")
        widths: tuple[Any, ...] = (hidden,) if np.ndim(hidden) == 0 else tuple(hidden)  # type: ignore[arg-type]
        if not widths:
            raise RangeError("hidden must name the width of at least one hidden layer; it was empty")
        checked = tuple(require_count(f"the width of hidden layer {i + 1}", w) for i, w in enumerate(widths))
        slope = require_number("slope", slope)
        one = Task({"x": side_by_side(task.inputs)}, {"y": side_by_side(task.targets)}, task.weights)
        layers = [f"h{i + 1}" for i in range(len(checked))]
        sizes = [one.inputs["x"].shape[1], *checked, one.targets["y"].shape[1]]
        nodes = dict(zip(["x", *layers, "y"], sizes, strict=True))
        chain = Architecture(nodes, list(itertools.pairwise(nodes)))
        super().__init__(chain, one, activations=dict.fromkeys(layers, leaky_relu(slope)), biases=biases)
        object.__setattr__(self, "hidden", checked)
        object.__setattr__(self, "slope", slope)
        object.__setattr__(self, "given", task)

    @property
    def inputs(self) -> np.ndarray:
        """All inputs side by side, (N, inputs)."""
        return self.task.inputs["x"]

    @property
    def targets(self) -> np.ndarray:
        """All targets side by side, (N, outputs)."""
        return self.task.targets["y"]

    @float64
    def forward(self, weights: Weights) -> dict[str, np.ndarray]:
        """The outputs for every example: {output: (N, size)}, by the output nodes of the task."""
        output = self.activity(weights)["y"]
        sizes = [rows.shape[1] for rows in self.given.targets.values()]
        return dict(zip(self.given.targets, np.split(output, np.cumsum(sizes)[:-1], axis=1), strict=True))

    def describe(self) -> dict[str, object]:
        """What the network is, in plain values that can be stored with a result."""
        name = "ReLU" if self.slope == 0 else f"leaky ReLU ({self.slope:g})"
        return super().describe() | {"network": name, "slope": self.slope}


def side_by_side(by_node: Any) -> np.ndarray:
    """The rows of several nodes as one array."""
    return np.hstack(list(by_node.values()))
