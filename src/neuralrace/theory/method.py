"""What a method of the theory is: a frozen value that first says what it assumes and then solves.

The certificate of a forecast is made of what its methods said, and of nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast

import jax
import numpy as np

from neuralrace.architecture import Architecture, Path
from neuralrace.axes import Edge
from neuralrace.errors import require_count, require_known, require_number, shortened
from neuralrace.initial import Decoupled, Initializer
from neuralrace.memory import require_memory
from neuralrace.path_statistics import PathStatistics
from neuralrace.problem import Problem
from neuralrace.theory.alignment import InitialStrength, gaussian_law
from neuralrace.theory.evolution import Evolution
from neuralrace.theory.reduction.system import ReducedSystem

Ground = TypeVar("Ground")
Options = ParamSpec("Options")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Assumption:
    """One condition of a method.

    name: what is assumed. residual: how far it is from true, zero where it is exact. tolerance: up to where it is taken
    to hold, zero for what is so or not so. detail: the worst statistic, path, edge or mode. needed: whether the method
    rests on it; what is measured for information is not.
    """

    name: str
    residual: float
    tolerance: float
    detail: str
    needed: bool = True

    @property
    def holds(self) -> bool:
        """Whether the residual is within the tolerance."""
        return self.residual <= self.tolerance

    @property
    def reason(self) -> str:
        """Why a method that needs it does not apply."""
        if self.tolerance == 0:  # a thing that is so or not so, and the detail says what it is
            return f"{self.name} required; {self.detail}"
        return f"{self.name} is required to {self.tolerance:.2g}; {self.detail} is off by {self.residual:.2g}"

    def __str__(self) -> str:
        if not self.needed:
            return f"{self.name:<28} {self.residual:>9.2g}  {self.detail}"
        verdict = "holds" if self.holds else "FAILS"
        return f"{self.name:<28} {verdict:<6} {self.residual:>9.2g} (tolerance {self.tolerance:.2g})  {self.detail}"


def first_failing(assumptions: Iterable[Assumption]) -> Assumption | None:
    """The first assumption that is needed and does not hold."""
    return next((entry for entry in assumptions if entry.needed and not entry.holds), None)


CHECKED = "checked against the flow"


@dataclass(frozen=True)
class Declined:
    """A method that was not taken, and the assumption of it that fails; way: see Method."""

    method: str
    failed: Assumption
    way: str = field(default="", compare=False)


@dataclass(frozen=True)
class Certificate:
    """All assumptions of the method that was used, and why no stronger one was taken.

    method: that the forecast used. assumptions: those that the method requires, among them the check against the exact
    flow where it was made, and others that were only measured. declined: the stronger methods. notes: facts worth
    knowing that are not conditions: modes that are lost, a saddle, a hand-over, why nothing was checked.
    """

    method: str
    assumptions: tuple[Assumption, ...]
    declined: tuple[Declined, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every required assumption holds: then the forecast is right within its tolerance."""
        return first_failing(self.assumptions) is None

    @property
    def checked(self) -> float | None:
        """The normalized L1 distance from the exact flow of one draw; None where it was not measured."""
        return self[CHECKED].residual if CHECKED in self else None

    def __getitem__(self, name: str) -> Assumption:
        known = {assumption.name: assumption for assumption in self.assumptions}
        require_known(name, list(known), f"the certificate has no assumption {shortened(name)}")
        return known[name]

    def __iter__(self) -> Iterator[Assumption]:
        return iter(self.assumptions)

    def __contains__(self, name: object) -> bool:
        return any(name in (assumption.name, assumption) for assumption in self.assumptions)

    def __str__(self) -> str:
        state = "holds" if self.holds else "does NOT hold"
        distance = "not checked against the flow" if self.checked is None else f"{self.checked:.2g} from the exact flow"
        lines = [f"method: {self.method} ({state}; {distance})"]
        for title, needed in (("required", True), ("measured only", False)):
            rows = [f"    {assumption}" for assumption in self.assumptions if assumption.needed is needed]
            lines += [f"  {title}:", *rows] if rows else []
        for entry in self.declined:
            way = f" with {entry.way}" if entry.way else ""
            lines.append(f"  not {entry.method}{way}: {entry.failed.reason}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def saddle_notes(draws: Sequence[Mapping[Edge, np.ndarray]]) -> tuple[str, ...]:
    """What any method's user should know of initial weights that are all zero."""
    if any(np.any(matrix) for weights in draws for matrix in weights.values()):
        return ()
    return ("all initial strengths are zero: a saddle, where the loss stays that of output zero",)


@dataclass(frozen=True, eq=False)
class Request:
    """What was asked for, checked.

    moments: makes the statistics of linear nodes, all that most methods see of the task. problem: the network with its
    examples, only where a method was asked for that needs them. initial: checked sets of weights, or a law. draw: makes
    weights of it, `draws` times from the stream. learning_rate: the step size that is planned, if any. descent: the
    same where it is to be taken and not only judged. tolerance: for assumptions that a method needs exactly. check: see
    `predict`. Statistics
    and weights are made when they are first asked for.
    """

    architecture: Architecture
    moments: Callable[[], PathStatistics]
    problem: Problem | None
    linear: bool  # moments say all: no node has an activation, and no neuron a gate of its own
    initial: Initializer | tuple[dict[Edge, np.ndarray], ...]
    draw: Callable[[jax.Array], Mapping[Edge, Any]]
    stream: jax.Array
    draws: int
    times: np.ndarray
    learning_rate: float | None
    descent: float | None
    rtol: float
    max_steps: int
    tolerance: float
    check: bool | Literal["auto"] = "auto"
    _found: dict[Hashable, object] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def statistics(self) -> PathStatistics:
        """The moments of the examples; of linear nodes only."""
        return self.moments()

    @cached_property
    def weights(self) -> tuple[dict[Edge, np.ndarray], ...]:
        """One set per draw, of every neuron."""
        if isinstance(self.initial, tuple):
            return self.initial
        count = 1 if isinstance(self.initial, Decoupled) else self.draws
        size = self.architecture.weight_count
        require_memory(f"{count:,} draws of {size:,} weights", 8 * count * size, "give fewer draws, or fewer neurons")
        keys = (jax.random.fold_in(self.stream, number) for number in range(count))
        return tuple(dict(self.draw(key)) for key in keys)

    @property
    def law(self) -> dict[str, tuple[float, float]]:
        """What is known of the initial strengths in advance; see InitialStrength."""
        return gaussian_law(self.initial, self.architecture)

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

    ground: None where an assumption fails without which there is nothing to solve.
    """

    assumptions: tuple[Assumption, ...]
    ground: Ground | None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method found; assumptions: those that only the solution can show.

    simulated: the network that the weights belong to, where that is a smaller one than was asked about.
    """

    losses: np.ndarray  # (draws, T)
    draws: tuple[Evolution, ...]
    paths: tuple[Path, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    reduction: ReducedSystem | None = None
    initial_strength: InitialStrength | None = None
    handover: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()
    simulated: Problem | None = None


@dataclass(frozen=True, repr=False)
class Method(ABC, Generic[Ground]):
    """One rung of the ladder; its options are its fields.

    force: go on with this method's own solution although an assumption of it fails; the certificate then says so.
    """

    name: ClassVar[str]
    linear: ClassVar[bool] = True  # works on the statistics of linear nodes; otherwise on the examples themselves
    last: ClassVar[bool] = False  # always gives a forecast; where its check fails, the certificate does not hold
    force: bool = False

    def __post_init__(self) -> None:
        """Tolerances are numbers, and whatever is counted is at least one."""
        for option in fields(self):
            if option.type is float:
                require_number(option.name, getattr(self, option.name), least=0)
            elif option.type is int:
                require_count(option.name, getattr(self, option.name))

    @property
    def way(self) -> str:
        """What this value follows, where others of its name follow something else."""
        return ""

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
