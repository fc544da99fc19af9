"""What may be done to columns before they are learned: a common scale, and a constant input."""

import numpy as np

CONSTANT = "constant"  # the name of the added input


def standardized(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and standard deviation 1 over the weighted examples; constant ones get size 1."""
    size = np.abs(rows).max(axis=0, initial=0.0)
    unit = rows / np.where(size > 0, size, 1.0)  # so that no square overflows or vanishes
    centerd = unit - weights @ unit
    spread = np.sqrt(weights @ centerd**2)
    constant = (np.ptp(unit, axis=0) <= 1e-12) | (spread <= 1e-12)  # for all, or for those that count
    own = np.abs(unit[weights > 0]).max(axis=0, initial=0.0)
    return np.asarray(np.where(constant, unit / np.where(own > 0, own, 1.0), centerd / np.where(constant, 1.0, spread)))


def with_constant(rows: np.ndarray, names: tuple[str, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
    """A further input that is always one: its weights are the biases of the first hidden layer."""
    name = next(n for n in (CONSTANT, *(f"{CONSTANT} {i}" for i in range(2, len(names) + 3))) if n not in names)
    return np.hstack([rows, np.ones((len(rows), 1))]), (*names, name)


def has_constant(rows: np.ndarray) -> bool:
    """Whether some column is the same number, other than zero, for every example."""
    return bool(((np.ptp(rows, axis=0) == 0) & (rows[0] != 0)).any())
