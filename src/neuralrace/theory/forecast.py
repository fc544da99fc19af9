"""A forecast: the predicted learning curve, its certificate, and quantities computed from the weights."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from neuralrace.analysis import time_to
from neuralrace.architecture import Architecture, Path
from neuralrace.arrays import float64, real_array
from neuralrace.axes import Edge, Weights
from neuralrace.errors import (
    ProblemError,
    RangeError,
    TaskError,
    UnknownNameError,
    nearest,
    require_kind,
    require_place,
)
from neuralrace.problem import Problem
from neuralrace.theory.certificate import Certificate
from neuralrace.theory.evolution import Evolution
from neuralrace.theory.reduction.system import ReducedSystem
from neuralrace.trajectory import Trajectory


class Learned(NamedTuple):
    """When a mode of a path reached half of its final strength; infinite if it was not learned.

    step: of a training with the learning rate of the forecast, None where that was not given.
    """

    path: Path
    mode: int
    time: float
    step: float | None = None


@dataclass(frozen=True, eq=False)
class Modes:
    """Mode strengths of a forecast over its times, (modes, T), the mean over the draws."""

    time: np.ndarray
    paths: tuple[Path, ...]
    edges: tuple[Edge, ...]
    draws: tuple[Evolution, ...] = field(repr=False)
    linear: bool = True

    def require_linear(self) -> None:
        """Refuse simulations of networks, where a path is not a product of matrices, or has no modes of its own."""
        if not self.linear:
            raise ProblemError(
                "modes of paths, and their order, require linear nodes, squared error and no optimizer: look at "
                "weights(), outputs() or modes.edge(e)"
            )

    def path(self, path: Path) -> np.ndarray:
        """B_p: the strength of each mode of a path."""
        self.require_linear()
        if path not in self.paths:
            raise UnknownNameError(
                f"an open path is required, one of modes.paths; {path!r} is not one; {nearest(path, self.paths)}"
            )
        return self.of_paths((path,))[0]

    @float64
    def of_paths(self, paths: Sequence[Path]) -> list[np.ndarray]:
        """B_p of several open paths from one pass over the times."""
        return _mean([draw.paths(paths, self.time) for draw in self.draws])

    def edge(self, edge: Edge) -> np.ndarray:
        """B_e: the strength of each mode of an edge (for the flow its singular values)."""
        return self.of_edges((edge,))[0]

    @float64
    def of_edges(self, edges: Sequence[Edge]) -> list[np.ndarray]:
        """B_e of several edges from one pass over the times."""
        for edge in edges:
            if edge not in self.edges:
                raise UnknownNameError(f"there is no edge {edge!r}; {nearest(edge, self.edges)}")
        return _mean([draw.edges(edges, self.time) for draw in self.draws])


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Trajectory):
    """A predicted learning curve: a trajectory whose seeds are draws of the initial weights, with a certificate.

    simulated: the smaller network whose weights the forecast has, where representatives replace the neurons; otherwise
    None. Networks with activations have no modes, no order of them and no reduction.
    """

    certificate: Certificate
    architecture: Architecture
    modes: Modes
    reduction: ReducedSystem | None = None
    simulated: Problem | None = None

    @property
    def method(self) -> str:
        """The method that solved: closed_form, reduction, aligned, representatives or flow."""
        return self.certificate.method

    @property
    def loss(self) -> np.ndarray:
        """(T,): the mean over the draws."""
        return np.asarray(self.losses.mean(axis=0))

    @float64
    def weights(  # type: ignore[override]
        self, time: float | None = None, draw: int = 0
    ) -> dict[Edge, np.ndarray]:
        """The predicted weights at a time, the last one if none is given."""
        return self.weights_at([self.time[-1] if time is None else time], draw)[0]

    @float64
    def weights_at(self, times: Sequence[float] | np.ndarray, draw: int = 0) -> list[dict[Edge, np.ndarray]]:
        """The predicted weights at increasing times."""
        require_place("draw", draw, len(self.losses))
        moments = real_array("times", times, RangeError)
        inside = (moments >= 0) & (moments <= self.time[-1] * (1 + 1e-12))  # False for NaN too
        if not inside.all() or (np.diff(moments) < 0).any():
            raise RangeError(f"times must increase and lie between 0 and {self.time[-1]:g}, the end of the forecast")
        return list(self.modes.draws[draw].weights(moments))

    @float64
    def outputs(
        self, problem: Problem | None = None, *, time: float | None = None, draw: int = 0
    ) -> dict[str, np.ndarray]:
        """Predicted outputs for every example of the problem, or of another with the same graph (untrained routes)."""
        chosen = self.problem if problem is None else problem
        if chosen is None:
            raise TaskError("this forecast was made from statistics alone: give a problem with the examples to predict")
        require_kind("problem", chosen, Problem, TaskError)
        if chosen.architecture.nodes != self.architecture.nodes:
            raise TaskError("the problem must have the architecture of the forecast; its nodes differ")
        if self.simulated is not None:
            chosen = Problem(self.simulated.architecture, chosen.task, chosen.gates, chosen.activations)
        return chosen.forward(self.weights(time, draw))

    @property
    def followed(self) -> Problem | None:
        """The problem whose weights the forecast has."""
        return self.problem if self.simulated is None else self.simulated

    def weights_over_time(self, seed: int) -> tuple[Weights, Iterable[Weights]]:
        """The initial weights of a draw, and those at every time."""
        (start,) = self.weights_at([0.0], seed)
        return start, self.modes.draws[seed].weights(self.time)

    def time_to(self, criterion: float) -> float:
        """When the mean loss first comes down to a value, between recorded times by interpolation; inf if never."""
        return float(time_to(self.time, self.loss, criterion))

    def order(self) -> tuple[Learned, ...]:
        """The modes of all paths in the order in which they reach half of their final strength."""
        self.modes.require_linear()
        strengths = [np.abs(values) for values in self.modes.of_paths(self.modes.paths)]
        scale = max((float(values.max(initial=0.0)) for values in strengths), default=0.0)
        found, rate = [], self.settings["learning_rate"]
        for path, values in zip(self.modes.paths, strengths, strict=True):
            for mode, strength in enumerate(values):
                final, time = strength[-1], float("inf")
                if final > 0 and (final > 2 * strength[0] or final > 1e-2 * scale):  # it left its start
                    time = float(self.time[int(np.argmax(strength >= 0.5 * final))])
                found.append(Learned(path, mode, time, rate and float(np.rint(time / rate))))
        return tuple(sorted(found, key=lambda entry: entry.time))


def _mean(draws: list[list[np.ndarray]]) -> list[np.ndarray]:
    """(modes, T) of each thing, the mean over the draws."""
    return [np.mean(values, axis=0).T if len(values) > 1 else values[0].T for values in zip(*draws, strict=True)]
