"""A data set: inputs and targets by node, one example per row, each with its weight."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.arrays import frozen_array
from neuralrace.errors import ProblemError, TaskError, require_known
from neuralrace.tables import as_table, examples_of_table

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Task:
    """Examples of an input-output map.

    inputs: node -> (N, size). targets: node -> (N, size). weights: (N,), not negative; they are scaled to sum
    to one, and None gives every example the same. names: node -> the names of its columns. notes: what was changed when
    a table was read.

    Task(X, y), with arrays or data frames, has one input node "x" and one output node "y": words, and few different
    whole numbers, in y are classes, with an output for each (see `from_frame`; classes=False: they are numbers).
    """

    inputs: Mapping[str, np.ndarray]
    targets: Mapping[str, np.ndarray]
    weights: np.ndarray = field(repr=False)
    names: Mapping[str, tuple[str, ...]] = field(repr=False)
    notes: tuple[str, ...] = field(repr=False)
    leads_to: ClassVar = "make a network of it, ReLUNetwork(task, hidden) or Problem(architecture, task, gates)"

    def __init__(
        self,
        inputs: Any,
        targets: Any,
        weights: Any = None,
        *,
        classes: bool | None = None,
        names: Mapping[str, Sequence[str]] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        if not isinstance(inputs, Mapping) and not isinstance(targets, Mapping) and np.ndim(inputs) == 2:
            frame, wanted = as_table(inputs, targets)
            read, _ = examples_of_table(frame, wanted, classes=classes, weights=weights)
            inputs, targets, weights = read["inputs"], read["targets"], read["weights"]
            names, notes = names or read["names"], notes or read["notes"]
        count: int | None = None
        for kind, given in (("inputs", inputs), ("targets", targets)):
            if not isinstance(given, Mapping) or not given:
                raise TaskError(
                    f"{kind} must map at least one node to its rows, or be one array with an example per row; it was "
                    f"{type(given).__name__}"
                )
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
        titles = {node: tuple(map(str, listed)) for node, listed in (names or {}).items()}
        for node, listed in titles.items():
            data = {**self.inputs, **self.targets}
            require_known(node, data, f"names are given for unknown node {node!r}")
            if len(listed) != data[node].shape[1]:
                raise TaskError(
                    f"names of node {node!r} must be one for each of its {data[node].shape[1]} columns; there are "
                    f"{len(listed)}"
                )
        object.__setattr__(self, "names", titles)
        object.__setattr__(self, "notes", tuple(notes))

    @classmethod
    def from_frame(
        cls,
        frame: "pandas.DataFrame",
        targets: str | Sequence[str],
        *,
        classes: bool | None = None,
        drop: str | Sequence[str] = (),
        missing: str = "error",
        standardize: bool = False,
        bias: bool = False,
        weights: np.ndarray | None = None,
    ) -> "Task":
        """Make a task of a table with one example per row: `targets`, columns, are learned from the others.

        Columns of words become an input for each word. classes: whether targets are classes, with an output for each
        (default: words are, and so are 2 to 20 different whole numbers). drop: columns that are left out. missing: what
        becomes of cells without a value: "error" lists them, "drop" leaves out their examples, "mean" puts the mean of
        the column of inputs there. standardize: inputs and numeric targets get mean 0 and standard deviation 1,
        constant ones size 1. bias: a constant input is added unless there is one. weights: one for each example.
        """
        options: dict[str, Any] = {"classes": classes, "drop": drop, "missing": missing, "weights": weights}
        arrays, _ = examples_of_table(frame, targets, standardize=standardize, bias=bias, **options)
        return cls(**arrays)

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
            names=self.names,
            notes=self.notes,
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

    @property
    def classes(self) -> np.ndarray | None:
        """The class of each example, (N,): the output of its one, or which of two values a single output has; or None.

        None where targets are no classes.
        """
        targets = np.hstack(list(self.targets.values()))
        if targets.shape[1] > 1:
            indicators = bool(np.isin(targets, (0, 1)).all() and (targets.sum(axis=1) == 1).all())
            return targets.argmax(axis=1) if indicators else None
        values = np.unique(targets)
        return np.searchsorted(values, targets[:, 0]) if len(values) == 2 else None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, in the order of `classes`; empty where targets are no classes."""
        if self.classes is None:
            return ()
        targets, names = np.hstack(list(self.targets.values())), self.output_names
        if targets.shape[1] == 1:
            return tuple(f"{names[0] if names else 'target'} {value:g}" for value in np.unique(targets))
        return names or tuple(f"class {i + 1}" for i in range(targets.shape[1]))

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of all columns of inputs, node after node; empty unless all have one."""
        return self._all_names(self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of all columns of targets, node after node; empty unless all have one."""
        return self._all_names(self.targets)

    def _all_names(self, nodes: Mapping[str, np.ndarray]) -> tuple[str, ...]:
        complete = all(node in self.names for node in nodes)
        return tuple(name for node in nodes for name in self.names[node]) if complete else ()
