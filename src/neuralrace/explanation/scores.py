"""How well networks do in terms that people use, accuracy or R^2 beside the loss, and what each module is worth."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from neuralrace.axes import Weights
from neuralrace.problem import Problem, side_by_side
from neuralrace.reln import Module

MOST_CLASSES = 12  # that are reported one by one
SILENT = 1e-3  # of the largest target: outputs that are smaller for every example answer nothing


@dataclass(frozen=True, eq=False)
class Measure:
    """What is counted: accuracy where targets are classes, R^2 otherwise; and which classes or groups are reported.

    classes: (N,), a number for each example, None where there are none. names: of these numbers. constant: the score of
    the best answer that does not look at the inputs; R^2 of the mean is 0.
    """

    kind: str
    classes: np.ndarray | None = field(repr=False)
    names: tuple[str, ...] = ()
    constant: float = 0.0

    def score(self, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray, inside: np.ndarray) -> float:
        """The score of some of the examples; not a number for a network that is silent, whose zeros are no answers."""
        if np.abs(outputs).max(initial=0.0) <= SILENT * np.abs(targets).max(initial=0.0):
            return float("nan")
        if self.kind == "accuracy":
            middle = 0.5 * (targets.min() + targets.max())
            one = targets.shape[1] == 1  # then the side of the middle counts, otherwise the largest output
            got, wanted = ((rows[:, 0] > middle if one else rows.argmax(axis=1)) for rows in (outputs, targets))
            return float(np.average((got == wanted)[inside], weights=weights[inside]))
        outputs, targets, weights = outputs[inside], targets[inside], weights[inside]
        spread = weights @ np.sum((targets - np.average(targets, axis=0, weights=weights)) ** 2, axis=1)
        return float(1 - (weights @ np.sum((outputs - targets) ** 2, axis=1)) / spread) if spread > 0 else float("nan")


class Score(NamedTuple):
    """Means over the networks. without: the module that was taken out, empty for none."""

    without: str
    loss: float
    score: float
    loss_by_class: tuple[float, ...] = ()
    by_class: tuple[float, ...] = ()


def measure_of(
    targets: np.ndarray, names: Sequence[str], groups: np.ndarray | None, weights: np.ndarray | None = None
) -> Measure:
    """What to count for some targets; names: of the outputs. Groups are reported where targets are no classes."""
    values = np.unique(targets)
    if targets.shape[1] > 1 and np.isin(targets, (0, 1)).all() and bool((targets.sum(axis=1) == 1).all()):
        classes = targets.argmax(axis=1)
        titles = tuple(names) if names else tuple(f"class {i + 1}" for i in range(targets.shape[1]))
    elif targets.shape[1] == 1 and len(values) == 2:
        classes, title = np.searchsorted(values, targets[:, 0]), names[0] if names else "target"
        titles = tuple(f"{title} {value:g}" for value in values)
    elif groups is None:
        return Measure("R^2", None)
    else:
        labels, numbers = np.unique(groups, return_inverse=True)
        apart = 1 < len(labels) <= MOST_CLASSES
        return Measure("R^2", numbers, tuple(map(str, labels))) if apart else Measure("R^2", None)
    counts = np.bincount(classes, weights)
    constant = float(counts.max() / counts.sum())
    if len(np.unique(classes)) == len(titles) <= MOST_CLASSES:
        return Measure("accuracy", classes, titles, constant)
    return Measure("accuracy", None, constant=constant)


def score_networks(
    measure: Measure, network: Problem, sets: Sequence[Weights], modules: Sequence[Module] = ()
) -> tuple[Score, ...]:
    """The networks as they are, and then with each module taken out."""
    scores, targets, amount = [], side_by_side(network.task.targets), network.task.weights
    parts = [np.ones(len(targets), dtype=bool)]
    parts += [np.asarray(measure.classes == number) for number in range(len(measure.names))]
    for module in (None, *modules):
        rows = []
        for seed, weights in enumerate(sets):
            sent = dict(weights)
            if module is not None:
                leaving = network.architecture.outgoing[module.layer]
                sent |= {edge: np.where(module.members[seed], 0.0, weights[edge]) for edge in leaving}
            outputs = side_by_side(network.forward(sent))
            errors = 0.5 * np.sum((outputs - targets) ** 2, axis=1)
            losses = [float(np.average(errors[inside], weights=amount[inside])) for inside in parts]
            rows.append((losses, [measure.score(outputs, targets, amount, inside) for inside in parts]))
        (loss, *by_class), (score, *each) = np.mean(rows, axis=0).tolist()
        scores.append(Score("" if module is None else module.name, loss, score, tuple(by_class), tuple(each)))
    return tuple(scores)
