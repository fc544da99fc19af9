"""How well networks do in terms that people use: accuracy where targets are classes, R^2 otherwise."""

from collections.abc import Sequence

import numpy as np


def classes_of(targets: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Return the class of each example, None where targets are no classes, and names of at most 12 classes."""
    values = np.unique(targets)
    if targets.shape[1] > 1 and np.isin(targets, (0, 1)).all() and bool((targets.sum(axis=1) == 1).all()):
        classes = targets.argmax(axis=1)
        titles = tuple(names) or tuple(f"class {i + 1}" for i in range(targets.shape[1]))
        return classes, titles if len(np.unique(classes)) == len(titles) <= 12 else ()
    if targets.shape[1] == 1 and len(values) == 2:
        title = names[0] if names else "target"
        return np.searchsorted(values, targets[:, 0]), tuple(f"{title} {value:g}" for value in values)
    return None, ()


def score(outputs: np.ndarray, targets: np.ndarray, classes: np.ndarray | None, weights: np.ndarray) -> float:
    """Return accuracy or R^2; not a number for a network that is silent, whose zeros are no answers."""
    if np.abs(outputs).max(initial=0.0) <= 1e-3 * np.abs(targets).max(initial=0.0):
        return float("nan")
    if classes is not None:
        middle = 0.5 * (targets.min() + targets.max())
        answers = outputs.argmax(axis=1) if targets.shape[1] > 1 else outputs[:, 0] > middle
        return float(np.average(answers == classes, weights=weights))
    spread = weights @ np.sum((targets - np.average(targets, axis=0, weights=weights)) ** 2, axis=1)
    return float(1 - (weights @ np.sum((outputs - targets) ** 2, axis=1)) / spread) if spread > 0 else float("nan")
