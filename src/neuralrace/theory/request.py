"""What a method is asked, what it answers, and the assumptions that it meets on the way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.errors import AssumptionError, NeuralRaceError
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.evolution import Evolution
from neuralrace.theory.prepared import Prepared
from neuralrace.theory.reduction.system import Reduction
from neuralrace.theory.strength import InitialStrength


@dataclass(frozen=True, eq=False)
class Request:
    """What was asked for, checked."""

    prepared: Prepared
    weights: tuple[Mapping[Edge, np.ndarray], ...]  # one set per draw
    times: np.ndarray
    steps: np.ndarray | None  # step numbers, for gradient descent
    learning_rate: float | None
    rtol: float
    atol: float
    max_steps: int
    tolerance: float  # for conditions that a method needs exactly
    small: float  # for conditions that hold in the limit of small initial weights
    diagonal: bool | None  # None: where it stays so
    lump: bool
    symmetric: bool
    law: Mapping[str, tuple[float, float]]

    @property
    def end(self) -> float:
        """The last time."""
        return float(self.times[-1])


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method found."""

    method: str
    losses: np.ndarray  # (draws, T)
    evolution: Evolution
    paths: tuple[Path, ...] | None
    reduction: Reduction | None = None
    initial_strength: InitialStrength | None = None
    handover: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()


@dataclass
class Findings:
    """The assumptions met on the way; `force` lets a failing one pass and remembers it."""

    force: bool
    assumptions: dict[str, Assumption] = field(default_factory=dict)
    forced: bool = False
    needed: set[str] = field(default_factory=set)

    def note(self, assumption: Assumption, *, needed: bool = False) -> None:
        """Note an assumption, for information or because the method rests on it."""
        self.assumptions[assumption.name] = assumption
        if needed:
            self.needed.add(assumption.name)

    def require(self, assumption: Assumption, otherwise: str) -> None:
        """Note an assumption, and refuse to go on if it fails."""
        self.note(assumption, needed=True)
        if not assumption.holds:
            if not self.force:
                raise AssumptionError(
                    f"{assumption.name} is required to {assumption.tolerance:.2g}; {assumption.detail} is off by "
                    f"{assumption.residual:.2g}: {otherwise}"
                )
            self.forced = True


OTHERWISE = "use method='flow', or go on with force=True"


def solver(request: Request, reduction: Reduction) -> Callable[[np.ndarray], np.ndarray]:
    """The variables of the reduced system at any times; the last answer is kept."""
    last: dict[str, Any] = {}

    def states(times: np.ndarray) -> np.ndarray:
        if "times" in last and np.array_equal(last["times"], times):
            return np.asarray(last["states"])
        if request.steps is not None and request.learning_rate is not None:
            steps = np.rint(times / request.learning_rate).astype(int)
            found = reduction.descend(request.learning_rate, steps)
        else:
            found = reduction.solve(times, rtol=request.rtol, max_steps=request.max_steps)
        last.update(times=times, states=found)
        return found

    return states


def listed_paths(prepared: Prepared) -> tuple[Path, ...] | None:
    """The open paths, or None where there are too many to list."""
    try:
        return tuple(prepared.statistics.open_paths)
    except NeuralRaceError:
        return None
