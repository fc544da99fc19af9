"""The scales of data: warnings about those that decide what is learned, a common scale, and a constant input."""

from collections.abc import Mapping, Sequence

import numpy as np

from neuralrace.problem import side_by_side
from neuralrace.task import Task


def cautions(task: Task, labels: Mapping[str, Sequence[str]] | None = None) -> tuple[str, ...]:
    """Warn, in sentences, about scales that decide how a network learns; labels: data node -> names of its columns."""
    found, inputs, targets = [], side_by_side(task.inputs), side_by_side(task.targets)
    largest = float(np.abs(targets).max())
    if largest > 0:
        unit = targets / largest
        share = float(np.sum((task.weights @ unit) ** 2) / np.sum(task.weights @ unit**2))
        size, root = np.abs(inputs).max(axis=0), np.sqrt(task.weights)[:, None]
        scaled = root * inputs / np.where(size > 0, size, 1.0)
        best, *_ = np.linalg.lstsq(scaled, root[:, 0], rcond=None)
        left = float(np.sum((root[:, 0] - scaled @ best) ** 2))
        if share > 0.1 and left > 0.1:  # left: of a constant, after the best linear map of the inputs
            indicators = bool(np.isin(unit, (0, 1)).all() and (unit.sum(axis=1) == 1).all())
            found.append(
                f"the targets are not centered ({share:.0%} of their second moment is their mean) and no input is "
                "constant: a network without biases has to build the mean from the inputs. Add a constant input (bias)"
                + ("" if indicators else ", or take the mean off the targets (standardize)")
            )
    sizes: dict[str, float] = {}
    for node, rows in task.inputs.items():
        titles = (labels or {}).get(node) or [f"{node} {column + 1}" for column in range(rows.shape[1])]
        for title, column in zip(titles, rows.T, strict=True):
            if column.any():  # the root mean square of what is not zero: a pixel that is rarely on is not small
                unit = column[column != 0] / np.abs(column).max()
                sizes[title] = float(np.abs(column).max() * np.sqrt(np.mean(unit**2)))
    if not sizes:
        return (*found, "every input is zero: there is nothing to learn from")
    least, most = min(sizes, key=lambda name: sizes[name]), max(sizes, key=lambda name: sizes[name])
    if sizes[most] > 30 * sizes[least]:
        found.append(
            f"the inputs differ in scale: {most!r} is of size {sizes[most]:.3g} and {least!r} of {sizes[least]:.3g}. "
            "The small ones are learned last or never, and more steps do not help: standardize them"
        )
    return tuple(found)


def standardized(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Give columns mean 0 and standard deviation 1 over the weighted examples, and constant ones size 1."""
    size = np.abs(rows).max(axis=0, initial=0.0)
    unit = rows / np.where(size > 0, size, 1.0)  # so that no square overflows or vanishes
    centered = unit - weights @ unit
    deviation = np.sqrt(weights @ centered**2)
    constant = deviation <= 1e-12
    return np.where(constant, np.sign(unit), centered / np.where(constant, 1.0, deviation))


def with_constant(rows: np.ndarray, names: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Add an input that is always one: its weights are the biases of the first hidden layer."""
    name = "constant" if "constant" not in names else "constant 2"
    return np.hstack([rows, np.ones((len(rows), 1))]), (*names, name)
