"""Warnings about the scales of a task's inputs and targets."""

import numpy as np

from neuralrace.errors import option
from neuralrace.problem import side_by_side
from neuralrace.task import Task


def cautions(task: Task) -> tuple[str, ...]:
    """Warn, in sentences, about scales that decide how a network learns."""
    found, inputs, targets = [], side_by_side(task.inputs), side_by_side(task.targets)
    if not inputs.any():
        return ("every input is zero: there is nothing to learn from",)
    largest = float(np.abs(targets).max())
    if largest > 0:
        unit, root = targets / largest, np.sqrt(task.weights)
        share = float(np.sum((task.weights @ unit) ** 2) / np.sum(task.weights @ unit**2))
        scaled = root[:, None] * inputs / np.maximum(np.abs(inputs).max(axis=0), np.finfo(float).tiny)
        left = float(np.sum((root - scaled @ np.linalg.lstsq(scaled, root, rcond=None)[0]) ** 2))
        if share > 0.1 and left > 0.1:  # left: of a constant, after the best linear map of the inputs
            indicators = bool(np.isin(unit, (0, 1)).all() and (unit.sum(axis=1) == 1).all())
            found.append(
                f"the targets are not centered ({share:.0%} of their second moment is their mean) and no input is "
                "constant: a network without biases has to build the mean from the inputs. Add a constant input "
                f"({option('bias')})"
                + ("" if indicators else f", or subtract the mean of the targets ({option('standardize')})")
            )
    sizes: dict[str, float] = {}
    for node, rows in task.inputs.items():
        titles = task.names.get(node) or [f"{node} {column + 1}" for column in range(rows.shape[1])]
        for title, column in zip(titles, np.abs(rows).T, strict=True):
            if column.any():  # the mean of what is not zero: a pixel that is rarely on is not small
                sizes[title] = float(column[column > 0].mean())
    least, most = min(sizes, key=lambda name: sizes[name]), max(sizes, key=lambda name: sizes[name])
    if sizes[most] > 30 * sizes[least]:
        found.append(
            f"the inputs differ in scale: {most!r} is of size {sizes[most]:.3g} and {least!r} of {sizes[least]:.3g}. "
            "The small ones are learned last or never, and more steps do not help: standardize them "
            f"({option('standardize')})"
        )
    return tuple(found)
