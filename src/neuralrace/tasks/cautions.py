"""What about some data will decide how a network learns it, though it is no property of the problem behind them."""

from collections.abc import Mapping, Sequence

import numpy as np

from neuralrace.problem import side_by_side
from neuralrace.task import Task

UNCENTRED = 0.1  # share of the mean in the second moment of the targets
UNREACHED = 0.1  # share of a constant that no linear map of the inputs can make
UNEVEN = 30.0  # ratio of the sizes of two input columns


def cautions(task: Task, labels: Mapping[str, Sequence[str]] | None = None) -> tuple[str, ...]:
    """Warnings about a task, as sentences; none where there is nothing to say.

    labels: data node -> the names of its columns, as a NamedTask has them.
    """
    names = labels or {}
    return (*_uncenterd(task), *_uneven(task, names))


def _uncenterd(task: Task) -> tuple[str, ...]:
    inputs, targets = side_by_side(task.inputs), side_by_side(task.targets)
    largest = float(np.abs(targets).max())
    if largest == 0:
        return ()
    targets = targets / largest
    share = float(np.sum((task.weights @ targets) ** 2) / np.sum(task.weights @ targets**2))
    if share <= UNCENTRED or _unreached(inputs, task.weights) <= UNREACHED:
        return ()
    indicators = bool(np.isin(targets, (0, 1)).all() and (targets.sum(axis=1) == 1).all())
    return (
        f"the targets are not centerd ({share:.0%} of their second moment is their mean) and no input is constant: a "
        "network without biases has to build the mean from the inputs. Add a constant input (bias)"
        + ("" if indicators else ", or take the mean off the targets (standardize)"),
    )


def _unreached(inputs: np.ndarray, weights: np.ndarray) -> float:
    """How much of a constant is left when the best linear map of the inputs is taken off."""
    size = np.abs(inputs).max(axis=0)
    root = np.sqrt(weights)[:, None]
    scaled = root * inputs / np.where(size > 0, size, 1.0)
    found, *_ = np.linalg.lstsq(scaled, root[:, 0], rcond=None)
    return float(np.sum((root[:, 0] - scaled @ found) ** 2))


def _uneven(task: Task, labels: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    sizes: dict[str, float] = {}
    for node, rows in task.inputs.items():
        titles = labels.get(node) or [f"{node} {column + 1}" for column in range(rows.shape[1])]
        sizes |= {title: _size(column) for title, column in zip(titles, rows.T, strict=True) if column.any()}
    if not sizes:
        return ("every input is zero: there is nothing to learn from",)
    least, most = min(sizes, key=lambda name: sizes[name]), max(sizes, key=lambda name: sizes[name])
    if sizes[most] <= UNEVEN * sizes[least]:
        return ()
    return (
        f"the inputs differ in scale: {most!r} is of size {sizes[most]:.3g} and {least!r} of {sizes[least]:.3g}. The "
        "small ones are learned last or never, and more steps will not mend it: standardize them",
    )


def _size(column: np.ndarray) -> float:
    """The root mean square of what is not zero: a pixel that is rarely on is not small."""
    there = column[column != 0]
    largest = float(np.abs(there).max())
    return largest * float(np.sqrt(np.mean((there / largest) ** 2)))
