"""A forecast: the predicted learning curve, its certificate, and everything that can be read off the weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from neuralrace.analysis import time_to
from neuralrace.architecture import Architecture, Path
from neuralrace.arrays import float64, real_array
from neuralrace.axes import Edge
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
from neuralrace.theory.alignment import InitialStrength
from neuralrace.theory.certificate import Certificate
from neuralrace.theory.evolution import Evolution
from neuralrace.theory.method import Outcome
from neuralrace.theory.reduction.system import ReducedSystem
from neuralrace.trajectory import STATUS, Trajectory, make_dataset

ORDER_PATHS = 500  # more paths than this are not ranked one by one


class Band(NamedTuple):
    """Quantiles of the loss over draws of the initial weights, (T,) each."""

    low: np.ndarray  # one tenth of the draws lie below
    middle: np.ndarray
    high: np.ndarray  # one tenth lie above


class Learned(NamedTuple):
    """When a mode of a path reached half of what it comes to; infinite if it comes to nothing."""

    path: Path
    mode: int
    time: float


@dataclass(frozen=True, eq=False)
class Modes:
    """Mode strengths of a forecast over its times, (modes, T), the mean over the draws."""

    time: np.ndarray
    paths: tuple[Path, ...]
    edges: tuple[Edge, ...]
    draws: tuple[Evolution, ...] = field(repr=False)
    linear: bool = True

    def require_linear(self) -> None:
        """Refuse where nodes have activations: a path then is no product of matrices."""
        if not self.linear:
            raise ProblemError(
                "modes of paths, and their order, are those of linear nodes; this network has activations: look at "
                "weights(), outputs(), loss_by() or modes.edge(e)"
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

    handover: the times, one per draw, at which the exact flow gave way to the reduction, or None. simulated: the
    smaller network whose weights the forecast has, where representatives replace the neurons; otherwise None. Networks
    with activations have no modes, no order of them and no reduction.
    """

    certificate: Certificate
    architecture: Architecture
    modes: Modes
    initial_strength: InitialStrength | None = None
    handover: tuple[float, ...] | None = None
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

    @property
    def band(self) -> Band | None:
        """How the loss varies with the draw of the initial weights; None for given weights."""
        if len(self.losses) < 2:
            return None
        return Band(*np.quantile(self.losses, (0.1, 0.5, 0.9), axis=0))

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
        inside = (moments >= 0) & (moments <= self.time[-1] * (1 + 1e-12))  # what is no number is not
        if not inside.all() or (np.diff(moments) < 0).any():
            raise RangeError(f"times must increase and lie between 0 and {self.time[-1]:g}, the end of the forecast")
        return self.modes.draws[draw].weights(moments)

    @float64
    def outputs(
        self, problem: Problem | None = None, *, time: float | None = None, draw: int = 0
    ) -> dict[str, np.ndarray]:
        """Predicted outputs for every example of the problem, or of another with the same graph (untrained routes)."""
        return self._example_problem(problem).forward(self.weights(time, draw))

    @float64
    def similarity(
        self, node: str, problem: Problem | None = None, *, time: float | None = None, draw: int = 0
    ) -> np.ndarray:
        """Inner products of the predicted activity of a node between all pairs of examples, (N, N)."""
        examples = self._example_problem(problem)
        if node in examples.architecture.inputs:
            activity = examples.task.inputs[node]
        elif node in examples.architecture.nodes:
            activity = examples.activity(self.weights(time, draw))[node]
        else:
            raise UnknownNameError(f"there is no node {node!r}; {nearest(node, examples.architecture.nodes)}")
        return np.asarray(activity @ activity.T)

    @float64
    def loss_by(
        self, labels: Any, problem: Problem | None = None, *, times: Any = None, draw: int = 0
    ) -> dict[Any, np.ndarray]:
        """Half the mean squared error of each group of examples over time; labels: (N,), a context or a task."""
        examples = self._example_problem(problem)
        groups = np.asarray(labels)
        if groups.shape != (len(examples.task),):
            raise TaskError(f"labels must have one entry per example, {len(examples.task)}; shape {groups.shape} came")
        moments = self.time if times is None else np.atleast_1d(real_array("times", times, RangeError))
        found: dict[Any, list[float]] = {label: [] for label in dict.fromkeys(groups.tolist())}
        for label in found:
            if not examples.task.weights[groups == label].sum() > 0:
                raise TaskError(f"every group must have examples that count; those of {label!r} have no weight")
        for weights in self.weights_at(moments, draw):
            outputs = examples.activity(weights)
            errors = sum(np.sum((outputs[n] - y) ** 2, axis=1) for n, y in examples.task.targets.items())
            for label, values in found.items():
                inside = groups == label
                values.append(0.5 * float(np.average(errors[inside], weights=examples.task.weights[inside])))
        return {label: np.array(values) for label, values in found.items()}

    def time_to(self, criterion: float) -> float:
        """When the mean loss first comes down to a value, between recorded times by interpolation; inf if never."""
        return float(time_to(self.time, self.loss, criterion))

    def order(self) -> tuple[Learned, ...]:
        """The modes of all paths in the order in which they are learned: half of their last strength reached."""
        self.modes.require_linear()
        if len(self.modes.paths) > ORDER_PATHS:
            raise RangeError(
                f"at most {ORDER_PATHS} paths are ranked; there are {len(self.modes.paths)}: look at "
                f"reduction.variables, or at modes.path(p) for the paths of interest"
            )
        strengths = [np.abs(values) for values in self.modes.of_paths(self.modes.paths)]
        scale = max((float(values.max(initial=0.0)) for values in strengths), default=0.0)
        found = [
            Learned(path, mode, _half_time(self.time, strength, scale))
            for path, values in zip(self.modes.paths, strengths, strict=True)
            for mode, strength in enumerate(values)
        ]
        return tuple(sorted(found, key=lambda entry: entry.time))

    def _example_problem(self, problem: Problem | None) -> Problem:
        chosen = self.problem if problem is None else problem
        if chosen is None:
            raise TaskError("this forecast was made from statistics alone: give a problem with the examples to predict")
        require_kind("problem", chosen, Problem, TaskError)
        if chosen.architecture.nodes != self.architecture.nodes:
            raise TaskError("the problem must have the architecture of the forecast; its nodes differ")
        if self.simulated is None:
            return chosen
        return Problem(self.simulated.architecture, chosen.task, chosen.gates, chosen.activations)


def make_forecast(
    times: np.ndarray,
    outcome: Outcome,
    certificate: Certificate,
    settings: Mapping[str, Any],
    architecture: Architecture,
    problem: Problem | None,
    *,
    linear: bool,
) -> Forecast:
    """Put what a method found together with its certificate; every draw is a seed."""
    losses = np.maximum(outcome.losses, 0.0)  # interpolated between two steps, the last rest can pass below zero
    rate = settings.get("learning_rate")
    steps = np.rint(times / rate).astype(int) if rate else np.arange(len(times))
    status = np.where(np.isfinite(losses).all(axis=1), STATUS.index("running"), STATUS.index("diverged"))
    told = {**settings, "method": certificate.method, "certificate": str(certificate)}
    return Forecast(
        make_dataset(times, steps, {"loss": (("seed", "time"), losses)}, status, told),
        problem=problem,
        certificate=certificate,
        architecture=architecture,
        modes=Modes(times, outcome.paths, tuple(architecture.edges), outcome.draws, linear),
        initial_strength=outcome.initial_strength,
        handover=outcome.handover,
        reduction=outcome.reduction,
        simulated=outcome.simulated,
    )


def _mean(draws: list[list[np.ndarray]]) -> list[np.ndarray]:
    """(modes, T) of each thing, the mean over the draws."""
    return [np.mean(values, axis=0).T if len(values) > 1 else values[0].T for values in zip(*draws, strict=True)]


def _half_time(time: np.ndarray, strength: np.ndarray, scale: float) -> float:
    """When a strength first has half of its last value; a mode that never left its start is not learned."""
    final = strength[-1]
    if final == 0 or (final <= 2 * strength[0] and final <= 1e-2 * scale):
        return float("inf")
    return float(time[int(np.argmax(strength >= 0.5 * final))])
