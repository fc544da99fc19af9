"""A method of the theory: a frozen value that states its assumptions and then solves."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, TypeVar

import jax
import numpy as np

from neuralrace.architecture import Architecture, Path
from neuralrace.axes import Edge
from neuralrace.errors import require_count, require_number
from neuralrace.initial import Decoupled, Initializer
from neuralrace.memory import require_size
from neuralrace.objectives import Objective, Squared
from neuralrace.problem import Problem
from neuralrace.statistics import PathStatistics
from neuralrace.theory.certificate import SADDLE, Assumption
from neuralrace.theory.evolution import Evolution
from neuralrace.theory.reduction.system import ReducedSystem

Prepared = TypeVar("Prepared")  # the result of a method's setup, from which it solves


@dataclass(frozen=True, eq=False)
class Request:
    """The checked arguments of `predict`.

    make_statistics: of linear nodes. problem: the network with its examples, given only to methods that
    need them. linear: no node has an activation, and no neuron a gate of its own. initial: checked sets of weights, or
    an initializer. draw: draws weights from it, `draws` times from the stream. learning_rate: the planned step size,
    or the time of a step of the optimizer. descent: the same where steps are forecast, None for the flow. flow_first:
    whether the flow may be taken instead of very many steps. tolerance: of assumptions that must be exact. Statistics
    and weights are computed on first use.
    """

    architecture: Architecture
    make_statistics: Callable[[], PathStatistics]
    problem: Problem | None
    linear: bool
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
    objective: Objective = field(default_factory=Squared)
    optimizer: Any = None
    flow_first: bool = False
    reduced: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)  # systems that methods share

    @cached_property
    def statistics(self) -> PathStatistics:
        """The path statistics of linear nodes."""
        return self.make_statistics()

    @cached_property
    def weights(self) -> tuple[dict[Edge, np.ndarray], ...]:
        """The initial weights of every draw."""
        if isinstance(self.initial, tuple):
            return self.initial
        count = 1 if isinstance(self.initial, Decoupled) else self.draws
        require_size([self], count, "draws", evaluations=len(self.times))
        keys = (jax.random.fold_in(self.stream, number) for number in range(count))
        return tuple(dict(self.draw(key)) for key in keys)

    @property
    def plain(self) -> Assumption:
        """Squared error under gradient descent, which most methods assume."""
        if self.optimizer is not None:
            return Assumption("gradient descent", 1.0, 0.0, "an optimizer was given")
        other = self.objective != Squared()
        return Assumption("squared error", float(other), 0.0, f"the loss is {self.objective.name}")

    @property
    def end(self) -> float:
        """The last time."""
        return float(self.times[-1])


@dataclass(frozen=True, eq=False)
class Outcome:
    """The solution of a method.

    losses: (draws, T). assumptions: those that only the solution can show. simulated: the smaller network that the
    weights belong to, where one replaces the requested network.
    """

    losses: np.ndarray
    draws: tuple[Evolution, ...]
    paths: tuple[Path, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    reduction: ReducedSystem | None = None
    notes: tuple[str, ...] = ()
    simulated: Problem | None = None


@dataclass(frozen=True, repr=False)
class Method(ABC, Generic[Prepared]):
    """A method of `predict`; its options are its fields.

    force: use this method's solution although an assumption fails; the certificate then does not hold.
    """

    name: ClassVar[str]
    linear: ClassVar[bool] = True  # works from the statistics of linear nodes; otherwise from the examples
    general: ClassVar[bool] = False  # for any loss and any optimizer; otherwise squared error and gradient descent
    last: ClassVar[bool] = False  # gives a forecast even where its check fails; the certificate then does not hold
    force: bool = False

    def __post_init__(self) -> None:
        for option in fields(self):
            if option.type is float:
                require_number(option.name, getattr(self, option.name), least=0)
            elif option.type is int:
                require_count(option.name, getattr(self, option.name))

    @property
    def way(self) -> str:
        """Label that distinguishes variants of one method."""
        return ""

    @abstractmethod
    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], Prepared | None]:
        """Measure the assumptions, as far as possible without solving; prepared: None if there is nothing to solve."""

    @abstractmethod
    def solve(self, request: Request, prepared: Prepared) -> Outcome:
        """Solve from what `setup` prepared."""

    def __repr__(self) -> str:
        chosen = [(option.name, getattr(self, option.name)) for option in fields(self)]
        changed = (f"{name}={value!r}" for name, value in chosen if value != getattr(type(self), name))
        return f"{type(self).__name__}({', '.join(changed)})"


def saddle_notes(draws: Sequence[Mapping[Edge, np.ndarray]]) -> tuple[str, ...]:
    """Say that initial weights are all zero."""
    if any(np.any(matrix) for weights in draws for matrix in weights.values()):
        return ()
    return (SADDLE,)
