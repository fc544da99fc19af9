"""What a method of the theory is: a frozen value that first says what it assumes and then solves."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.path_statistics import PathStatistics
from neuralrace.theory.alignment import InitialStrength
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.evolution import Evolution
from neuralrace.theory.reduction.system import ReducedSystem

Ground = TypeVar("Ground")
Options = ParamSpec("Options")
Found = TypeVar("Found")


class Descent(NamedTuple):
    """Gradient descent in place of the flow: times are whole numbers of steps."""

    learning_rate: float

    def steps(self, times: np.ndarray) -> np.ndarray:
        """The step numbers of times."""
        return np.rint(times / self.learning_rate).astype(int)


@dataclass(frozen=True, eq=False)
class Request:
    """What was asked for, checked.

    weights: one set per draw. learning_rate: the step size that is planned, if any. descent: set where that step size
    is to be taken and not only judged. tolerance: for assumptions that a method needs exactly. law: see
    InitialStrength.
    """

    statistics: PathStatistics
    weights: tuple[Mapping[Edge, np.ndarray], ...]
    times: np.ndarray
    learning_rate: float | None
    descent: Descent | None
    rtol: float
    max_steps: int
    tolerance: float
    law: Mapping[str, tuple[float, float]]
    _found: dict[Hashable, object] = field(default_factory=dict, init=False, repr=False)

    @property
    def end(self) -> float:
        """The last time."""
        return float(self.times[-1])

    def once(
        self,
        find: Callable[Concatenate["Request", Options], Found],
        *args: Options.args,
        **kwargs: Options.kwargs,
    ) -> Found:
        """What a function makes of the request, computed once although several methods may ask."""
        key = (find, args, tuple(kwargs.items()))
        if key not in self._found:
            self._found[key] = find(self, *args, **kwargs)
        return cast(Found, self._found[key])


@dataclass(frozen=True, eq=False)
class Examined(Generic[Ground]):
    """What a method assumes of a request, and what it found on the way, from which it solves.

    ground: None where an assumption fails without which there is nothing to solve. certain: False where solving may
    still show that an assumption fails.
    """

    assumptions: tuple[Assumption, ...]
    ground: Ground | None
    certain: bool = True


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method found; assumptions: those that only the solution can show."""

    losses: np.ndarray  # (draws, T)
    draws: tuple[Evolution, ...]
    paths: tuple[Path, ...]
    assumptions: tuple[Assumption, ...] = ()
    reduction: ReducedSystem | None = None
    initial_strength: InitialStrength | None = None
    handover: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Method(ABC, Generic[Ground]):
    """One rung of the ladder; its options are its fields.

    force: go on with this method's own solution although an assumption of it fails; the certificate then says so.
    """

    name: ClassVar[str]
    force: bool = False

    @abstractmethod
    def assumptions(self, request: Request) -> Examined[Ground]:
        """Measure what the method needs, as far as that can be had without solving."""

    @abstractmethod
    def solve(self, request: Request, ground: Ground) -> Outcome:
        """Solve from what was found."""

    def __repr__(self) -> str:
        chosen = [(option.name, getattr(self, option.name)) for option in fields(self)]
        told = (f"{name}={value!r}" for name, value in chosen if value != getattr(type(self), name))
        return f"{type(self).__name__}({', '.join(told)})"
