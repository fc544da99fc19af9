"""The coefficients of all explicit methods, padded to one size: Tsitouras' first, then the stabilised ones."""

from functools import cache
from typing import NamedTuple

import diffrax
import numpy as np

from neuralrace.theory.integration import chebyshev

SLOTS = 7  # slopes that are kept for the last stages; the one of the start is in the first, of the end in the last
LONGEST = chebyshev.extent(chebyshev.STAGES[-1])
APART = np.pad(diffrax.Tsit5.tableau.a_lower[5], (0, 1)) - np.pad(diffrax.Tsit5.tableau.a_lower[4], (0, 2))

HALF_WAY = np.array(  # weights of Tsitouras' slopes in the state half way, by his interpolation
    [
        0.10741235230096871,
        0.01135625,
        0.39560903056045305,
        -0.34475214352593553,
        1.3161853649581645,
        -1.0170608542936508,
        0.031249999999999993,
    ]
)


class Tableaus(NamedTuple):
    """A recurrence of some length (see chebyshev.py), then stages that mix the slopes in their slots.

    When slot i is known the next stage is the base plus the width times weights[i] @ slopes; the base is the
    state after the recurrence. The state half way is y_0 + chord (y_1 - y_0) and the width times middle @ slopes.
    """

    extent: np.ndarray  # (methods,): stable on [-extent, 0]
    length: np.ndarray  # (methods,): of the recurrence
    first: np.ndarray  # (methods,): the slot with which the last stages begin
    mu: np.ndarray  # (methods, longest)
    nu: np.ndarray
    weights: np.ndarray  # (methods, SLOTS, SLOTS)
    error: np.ndarray  # (methods, SLOTS)
    chord: np.ndarray  # (methods,)
    middle: np.ndarray  # (methods, SLOTS)


@cache
def tableaus() -> Tableaus:
    """The methods, computed once."""
    rows = [_tsitouras(), *(_stabilised(chebyshev.make_method(stages)) for stages in chebyshev.STAGES)]
    return Tableaus(*(np.array(column) for column in zip(*rows, strict=True)))


def _tsitouras() -> Tableaus:
    """No recurrence; the second stage is written as the first of one."""
    table = diffrax.Tsit5.tableau
    weights = np.array([np.pad(row, (0, SLOTS - len(row))) for row in (*table.a_lower, table.a_lower[-1])])
    mu = _padded(np.array([weights[0, 0]]))
    return Tableaus(3.5, 0, 1, mu, 0 * mu, weights, table.b_error, 0.0, HALF_WAY)  # type: ignore[arg-type]


def _stabilised(method: chebyshev.Method) -> Tableaus:
    """The state half way is on the cubic through both ends with their slopes."""
    weights = np.zeros((SLOTS, SLOTS))
    weights[2:6, 2:6], weights[6, 2:6] = method.last, method.last[-1]
    ends = np.eye(SLOTS)[0] - np.eye(SLOTS)[-1]
    return Tableaus(
        method.extent,  # type: ignore[arg-type]
        len(method.mu),  # type: ignore[arg-type]
        2,  # type: ignore[arg-type]
        _padded(method.mu),
        _padded(method.nu),
        weights,
        np.pad(method.error, (2, 0)),
        0.5,  # type: ignore[arg-type]
        ends / 8,
    )


def _padded(row: np.ndarray) -> np.ndarray:
    return np.pad(row, (0, chebyshev.STAGES[-1] - 4 - len(row)))
