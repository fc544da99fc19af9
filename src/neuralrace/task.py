"""A data set: inputs and targets by node, one example per row, each with its weight."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.arrays import frozen_array
from neuralrace.errors import ProblemError, TaskError, require_known


@dataclass(frozen=True, eq=False)
class Task:
    """Examples of an input-output map.

    inputs: node -> (N, size). targets: node -> (N, size). weights: (N,), not negative; they are scaled to sum
    to one, and None gives every example the same.
    """

    inputs: Mapping[str, np.ndarray]
    targets: Mapping[str, np.ndarray]
    weights: np.ndarray
    leads_to: ClassVar = "make a network of it, ReLUNetwork(task, hidden) or Problem(architecture, task, gates)"

    def __init__(self, inputs: Mapping[str, Any], targets: Mapping[str, Any], weights: Any = None) -> None:
        count: int | None = None
        for kind, given in (("inputs", inputs), ("targets", targets)):
            if not isinstance(given, Mapping) or not given:
                raise TaskError(f"{kind} must map at least one node to its rows; it was {type(given).__name__}")
            checked: dict[str, np.ndarray] = {}
            for node, value in given.items():
                rows = checked[node] = frozen_array(f"{kind}[{node!r}]", value, 2, TaskError)
                if not isinstance(node, str):
                    raise TaskError(f"{kind} must name each node with a text; one was {node!r}")
                if not rows.size:
                    raise TaskError(f"{kind}[{node!r}] needs at least one example and one column; it has none")
                count = len(rows) if count is None else count
                if len(rows) != count:
                    raise TaskError(
                        f"every array must hold the same examples; {kind}[{node!r}] has {len(rows)} rows and the "
                        f"first input has {count}"
                    )
            object.__setattr__(self, kind, checked)
        amount = frozen_array("weights", np.full(count or 0, 1.0) if weights is None else weights, 1, TaskError)
        if len(amount) != count:
            raise TaskError(f"weights must have one number per example, {count}; it has {len(amount)}")
        if (amount < 0).any():
            raise TaskError(f"weights must not be negative; example {int(np.argmin(amount))} has {amount.min():g}")
        total = amount.sum()
        if total <= 0:
            raise TaskError("weights must have a positive sum; every example has weight zero")
        normalized = amount if abs(total - 1) < 1e-12 else amount / total  # unchanged when made again
        normalized.setflags(write=False)
        object.__setattr__(self, "weights", normalized)

    def __repr__(self) -> str:
        inputs, targets = (
            ", ".join(f"{node}: {rows.shape[1]}" for node, rows in side.items()) for side in (self.inputs, self.targets)
        )
        return f"Task({len(self)} examples, {inputs} -> {targets})"

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, examples: np.ndarray) -> "Task":
        """Select examples by number or by a mask; their weights are scaled to sum to one."""
        return Task(
            {node: rows[examples] for node, rows in self.inputs.items()},
            {node: rows[examples] for node, rows in self.targets.items()},
            self.weights[examples],
        )

    def check_fit(self, architecture: Architecture) -> None:
        """Refuse rows that do not fit the input and output nodes of a graph."""
        for kind, nodes, rows, fault in (
            ("input", architecture.inputs, self.inputs, "no edge enters it, so it is unreachable"),
            ("output", architecture.outputs, self.targets, "no edge leaves it, so it is a dead end"),
        ):
            for node in nodes:
                if node not in rows:
                    raise ProblemError(
                        f"the task must give rows for every {kind} node; node {node!r} has none ({fault}): "
                        f"give it data, or join it to the rest; the task has {', '.join(map(repr, rows))}"
                    )
            for node, array in rows.items():
                require_known(node, nodes, f"the task has {kind} rows for {node!r}, which is no {kind} node")
                if array.shape[1] != architecture.nodes[node]:
                    raise ProblemError(
                        f"node {node!r} has size {architecture.nodes[node]} and its {kind} rows have {array.shape[1]} "
                        f"columns: make them equal"
                    )
