"""How well networks do in terms that people use: accuracy or R^2 beside the loss, and what each module is worth."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neuralrace.axes import Weights
from neuralrace.reln.passing import received_by
from neuralrace.training import ReLUNetwork

MOST_CLASSES = 12  # that are told apart one by one
SILENT = 1e-3  # of the largest target: outputs that are smaller for every example answer nothing


@dataclass(frozen=True, eq=False)
class Measure:
    """What is counted: accuracy where targets are classes, R^2 otherwise; and which classes or groups are told apart.

    classes: (N,), a number for each example, None where there are none. names: of these numbers. constant: the score of
    the best answer that does not look at the inputs; R^2 of the mean is 0.
    """

    kind: str
    classes: np.ndarray | None = field(repr=False)
    names: tuple[str, ...] = ()
    constant: float = 0.0

    def score(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray, inside: Any = ...) -> float:
        """Of all examples, or of some; not a number for a network that is silent, whose zeros are no answers."""
        if np.abs(outputs).max(initial=0.0) <= SILENT * np.abs(targets).max(initial=0.0):
            return float("nan")
        if self.kind == "accuracy":
            right = _class_of(outputs, targets) == _class_of(targets, targets)
            return float(np.average(right[inside], weights=weights[inside]))
        outputs, targets, weights = outputs[inside], targets[inside], weights[inside]
        centerd = targets - np.average(targets, axis=0, weights=weights)
        spread = weights @ np.sum(centerd**2, axis=1)
        return float(1 - (weights @ np.sum((outputs - targets) ** 2, axis=1)) / spread) if spread > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class Score:
    """Mean over the networks. module: which was taken out, empty for none. by_class: the score of each class."""

    module: str
    loss: float
    score: float
    loss_by_class: tuple[float, ...] = ()
    by_class: tuple[float, ...] = ()


def measure_of(
    targets: np.ndarray, names: Sequence[str], groups: np.ndarray | None, weights: np.ndarray | None = None
) -> Measure:
    """What to count for some targets; names: of the outputs. Groups are told apart where targets are no classes."""
    one_hot = targets.shape[1] > 1 and np.isin(targets, (0, 1)).all() and bool((targets.sum(axis=1) == 1).all())
    values = np.unique(targets)
    if one_hot:
        titles = tuple(names) if names else tuple(f"class {i + 1}" for i in range(targets.shape[1]))
        return _told_apart("accuracy", targets.argmax(axis=1), titles, weights)
    if targets.shape[1] == 1 and len(values) == 2:
        title = names[0] if names else "target"
        classes = np.searchsorted(values, targets[:, 0])
        return _told_apart("accuracy", classes, tuple(f"{title} {value:g}" for value in values), weights)
    if groups is None:
        return Measure("R^2", None)
    labels, numbers = np.unique(groups, return_inverse=True)
    return _told_apart("R^2", numbers, tuple(str(label) for label in labels), weights)


def score_networks(
    measure: Measure,
    network: ReLUNetwork,
    weights: Sequence[Weights],
    modules: Sequence[tuple[str, str, np.ndarray]] = (),
) -> tuple[Score, ...]:
    """The networks as they are, and then with each module taken out; modules: name, layer and (seeds, neurons)."""
    whole: tuple[str, str, np.ndarray | None] = ("", "", None)
    return tuple(_score(measure, network, weights, *one) for one in (whole, *modules))


def outputs_of(network: ReLUNetwork, weights: Weights, layer: str = "", muted: np.ndarray | None = None) -> np.ndarray:
    """The outputs (N, outputs); muted: neurons of a layer that send nothing on."""
    sent = dict(weights)
    if muted is not None:
        sent |= {edge: np.where(muted, 0.0, weights[edge]) for edge in network.architecture.outgoing[layer]}
    return received_by(network, sent, "y").T


def _score(
    measure: Measure, network: ReLUNetwork, sets: Sequence[Weights], name: str, layer: str, members: np.ndarray | None
) -> Score:
    muted = [None] * len(sets) if members is None else members
    outputs = [outputs_of(network, weights, layer, out) for weights, out in zip(sets, muted, strict=True)]
    mean = np.mean([_numbers(measure, one, network.targets, network.task.weights) for one in outputs], axis=0)
    parts = len(measure.names)
    return Score(name, float(mean[0]), float(mean[1]), tuple(mean[2 : 2 + parts]), tuple(mean[2 + parts :]))


def _numbers(measure: Measure, outputs: np.ndarray, targets: np.ndarray, amount: np.ndarray) -> list[float]:
    """Loss and score of all examples, then the loss of each class, then its score."""
    errors = 0.5 * np.sum((outputs - targets) ** 2, axis=1)
    parts = [measure.classes == number for number in range(len(measure.names))]
    losses = [float(np.average(errors[inside], weights=amount[inside])) for inside in parts]
    scores = [measure.score(outputs, targets, amount, inside) for inside in parts]
    return [float(amount @ errors), measure.score(outputs, targets, amount), *losses, *scores]


def _class_of(rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The largest output, or the side of the middle that a single one is on."""
    if targets.shape[1] > 1:
        return np.asarray(rows.argmax(axis=1))
    return np.asarray(rows[:, 0] > 0.5 * (targets.min() + targets.max()))


def _told_apart(kind: str, classes: np.ndarray, names: tuple[str, ...], weights: np.ndarray | None) -> Measure:
    """With classes, unless they are too many for a table."""
    counts = np.bincount(classes, weights)
    constant = float(counts.max() / counts.sum()) if kind == "accuracy" else 0.0
    there = len(np.unique(classes)) == len(names)
    shown = there and 1 < len(names) <= MOST_CLASSES
    return Measure(kind, classes, names, constant) if shown else Measure(kind, None, constant=constant)
