"""The race of the graph of trained pairs: the strengths and untrained errors when trained pairs are learned.

Each singular value g_l of the trained pairs has a mode, in whose plane the encoder e, the hidden chain W and the
decoder d of wide layers stay. In the race's own time theta, which stops where trained pairs are right on average,

    de/dtheta = g_l W^T d,   dd/dtheta = g_l W e,   dW/dtheta = g_l d e^T,   tau_l = d^T W e   (depth three).

See docs/theory/pairs.md.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.arrays import real_array
from neuralrace.errors import AssumptionError, NeuralRaceError, RangeError, require_count
from neuralrace.theory.exact._base import Positive, Solution, Strength, together


@dataclass(frozen=True, eq=False)
class PairRace(Solution):
    """Mode strengths once the trained pairs are right on average, and the error of the untrained pairs.

    pairs: which are trained, (M, M), the same number for every domain. first: every singular value of each layer's
    initial weights. final: s/d, the strength that a path has to reach. first and final broadcast against each other.

    At infinite width the strengths are exact as long as one residual drives all modes, until the trained pairs are
    right on average. Their remaining error then decays over up to hundreds of times the time of the race, and
    untrained errors fall further, most where g_2/g_1 is near one; `theory.routed.wide_errors` follows this too.
    """

    pairs: Any
    first: Strength
    final: Positive
    depth: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("depth", self.depth, least=2)
        together(first=self.first, final=self.final)
        graph = real_array("pairs", self.pairs, RangeError)
        if graph.ndim != 2 or graph.shape[0] != graph.shape[1] or not np.isin(graph, (0, 1)).all() or not graph.any():
            raise RangeError(
                "pairs must be a square matrix of booleans, (input domains, output domains), with at least one that is "
                f"trained; its shape was {graph.shape}"
            )
        counts = np.concatenate([graph.sum(axis=0), graph.sum(axis=1)])
        if counts.min() < counts.max():
            raise AssumptionError(
                f"every domain must be in the same number of trained pairs, to share one clock; here domains are in "
                f"{counts.min():g} to {counts.max():g}: use theory.routed.wide_errors"
            )
        object.__setattr__(self, "pairs", graph.astype(bool))

    @cached_property
    def strengths(self) -> np.ndarray:
        """tau_l over s/d, (..., M); the uniform mode alone would have to reach M."""
        values = np.linalg.svd(self.pairs.astype(np.float64), compute_uv=False)
        targets = self.final / self.first**self.depth
        found = [_finish(self.depth, values, self.pairs.sum() * target) / target for target in targets.ravel()]
        return np.reshape(found, (*targets.shape, len(values)))

    @property
    def untrained(self) -> np.ndarray:
        """The squared error of untrained pairs in units of that of output zero; NaN where there are none."""
        if self.pairs.all():
            return np.full(self.strengths.shape[:-1], np.nan)
        left, _, right = np.linalg.svd(self.pairs.astype(np.float64))
        errors = (1 - (left * self.strengths[..., None, :]) @ right) ** 2
        return np.asarray(errors[..., ~self.pairs].mean(axis=-1))


def _finish(depth: int, values: np.ndarray, goal: float) -> np.ndarray:
    """Return tau_l in units of sigma^N where sum_l g_l tau_l is the goal.

    The state holds encoder and decoder, (2, M) each along the two directions of a mode, and the (2, 2, M) hidden
    matrices. The solver's time makes the mode that leads grow as e^t: in theta strengths beyond depth two diverge at a
    finite time, and the last steps would be lost in rounding.
    """
    from scipy.integrate import solve_ivp  # half a second of imports

    ends = np.repeat(np.eye(2)[..., None], len(values), axis=2)
    start = np.concatenate([ends.ravel(), *[ends.ravel()] * (depth - 2)])

    def forward(state: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """The activity after the encoder and every hidden matrix, and all of the state."""
        (encoder, _), *hidden = parts = state.reshape(-1, 2, 2, len(values))
        activity = [encoder]
        for matrix in hidden:
            activity.append(np.einsum("abm,bm->am", matrix, activity[-1]))
        return activity, parts

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        activity, ((_, decoder), *hidden) = forward(state)
        back, moved = values * decoder, []
        for matrix, before in zip(hidden[::-1], activity[-2::-1], strict=True):
            moved.append(back[:, None] * before)
            back = np.einsum("abm,am->bm", matrix, back)
        pace = np.sqrt(np.sum(back**2) / np.sum(activity[0] ** 2))
        return np.concatenate([back.ravel(), (values * activity[-1]).ravel(), *map(np.ravel, moved[::-1])]) / pace

    def strengths(state: np.ndarray) -> np.ndarray:
        activity, parts = forward(state)
        return np.asarray(np.sum(parts[0][1] * activity[-1], axis=0))

    def short(_: float, state: np.ndarray) -> float:
        return float(values @ strengths(state) / goal - 1)

    if short(0.0, start) >= 0:
        return strengths(start)
    short.terminal = True  # type: ignore[attr-defined]  # scipy's way to end at an event
    solved = solve_ivp(velocity, (0.0, 1e4), start, "DOP853", rtol=1e-10, atol=1e-10, events=short)
    if solved.status != 1:
        raise NeuralRaceError(f"the race of the pairs could not be integrated: {solved.message}")
    return strengths(solved.y_events[0][0])
