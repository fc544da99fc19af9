"""Which gate patterns one ReLU neuron can have: linear separability, by linear programming."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from neuralrace.arrays import frozen_array
from neuralrace.errors import GateError, NeuralRaceError, RangeError

TOLERANCE = 1e-7  # the accuracy of the solver, relative to the scale of the inputs
MOST_PATTERNS = 100_000


@dataclass(frozen=True, eq=False)
class Implementable:
    """Whether a neuron's pre-activation w.x can be positive for exactly the examples of a pattern, and the proof.

    weights: a witness w, with w.x >= 1 where the pattern is on and w.x <= 0 elsewhere (with a bias, its last entry), or
    None. strict: it has w.x < 0 where the pattern is off, so that a whole region of weights has the pattern.
    certificate: or, where there is no such w, numbers m >= 0 with sum_on m = 1 and sum_on m x = sum_off m x, which
    leave w no room: w would have to be positive and not positive on the same vector.
    """

    weights: np.ndarray | None
    strict: bool = False
    certificate: np.ndarray | None = None

    @property
    def possible(self) -> bool:
        """Whether there is a witness."""
        return self.weights is not None

    def __bool__(self) -> bool:
        return self.possible


def implementable(pattern: Any, inputs: Any, bias: bool = False) -> Implementable:
    """Say whether one ReLU neuron can be on for exactly the examples of a pattern.

    pattern: (N,) of 0 and 1. inputs: (N, size). bias: the neuron has one, which is a further input of 1.
    """
    values, rows = frozen_array("a pattern", pattern, 1, GateError), _checked_inputs(inputs, bias)
    on = values == 1
    if not (on | (values == 0)).all():
        wrong = values[~np.isin(values, (0, 1))][0]
        raise GateError(f"a pattern must hold 0 and 1 only; it holds {wrong:g}: threshold it first")
    if len(on) != len(rows):
        raise GateError(f"a pattern must have one entry per example, {len(rows)}; it has {len(on)}")
    weights, margin = _witness(on, rows)
    if weights is not None:
        return Implementable(weights, margin > TOLERANCE)
    # Farkas' alternative: m >= 0, sum_on m = 1, sum_on m x - sum_off m x = 0
    equations = np.vstack([(np.where(on, 1.0, -1.0)[:, None] * rows).T, on.astype(float)])
    right = np.append(np.zeros(rows.shape[1]), 1.0)
    solved = linprog(np.zeros(len(on)), A_eq=equations, b_eq=right, bounds=(0, None), method="highs")
    if solved.status != 0:
        raise NeuralRaceError(
            "the linear program found neither weights nor a proof that there are none: scale the inputs to comparable "
            "sizes and try again"
        )
    return Implementable(None, certificate=np.asarray(solved.x))


def implementable_patterns(inputs: Any, bias: bool = False, *, strict: bool = False) -> np.ndarray:
    """Return every pattern that one ReLU neuron can have on some inputs, (patterns, N) of bool; at most 100,000.

    The examples are hyperplanes in the space of weights and the patterns its cells. They are found by adding one
    example after the other and keeping the patterns that exist so far, so the work grows with the number of patterns
    and not with 2^N. strict: only cells that are open, where no pre-activation has to be exactly zero.
    """
    rows = _checked_inputs(inputs, bias)
    too_many = RangeError(
        f"at most {MOST_PATTERNS:,} patterns are listed and these inputs have more: take fewer examples, or inputs of "
        "lower rank; `implementable` answers for one pattern"
    )
    if rows.size and 2.0 ** np.linalg.matrix_rank(rows) > MOST_PATTERNS:  # independent examples have all patterns
        raise too_many
    known: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros(0, dtype=bool), np.zeros(rows.shape[1]))]
    for count in range(1, len(rows) + 1):
        extended: list[tuple[np.ndarray, np.ndarray]] = []
        clear = TOLERANCE * (np.abs(rows[:count]).max(initial=0) or 1.0)
        for pattern, witness in known:
            free = float(rows[count - 1] @ witness)
            for on in (False, True):  # the old witness is valid for one of them
                longer = np.append(pattern, on)
                serves = free > clear if on else (free < -clear if strict else free <= 0)
                weights, margin = (witness, 1.0) if serves else _witness(longer, rows[:count])
                if weights is not None and (margin > TOLERANCE or not strict):
                    extended.append((longer, weights))
        if len(extended) > MOST_PATTERNS:
            raise too_many
        known = extended
    found = np.array([pattern for pattern, _ in known], dtype=bool).reshape(-1, len(rows))
    return found[np.lexsort(found.T[::-1])] if found.size else found


def _witness(on: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray | None, float]:
    """Weights with w.x >= 1 on and w.x <= -t off, t from 0 to 1 as large as can be; None if there are none."""
    size = rows.shape[1]
    constraints = np.hstack([np.where(on, -1.0, 1.0)[:, None] * rows, np.where(on, 0.0, 1.0)[:, None]])
    bounds, cost = [(None, None)] * size + [(0.0, 1.0)], np.append(np.zeros(size), -1.0)
    solved = linprog(cost, A_ub=constraints, b_ub=np.where(on, -1.0, 0.0), bounds=bounds, method="highs")
    if solved.status != 0:
        return None, 0.0
    return np.asarray(solved.x[:size]), float(solved.x[size])


def _checked_inputs(inputs: Any, bias: bool) -> np.ndarray:
    rows = frozen_array("inputs", inputs, 2, GateError)
    return np.hstack([rows, np.ones((len(rows), 1))]) if bias else rows
