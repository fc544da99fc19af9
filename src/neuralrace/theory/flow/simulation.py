"""Draws of a network with activations, followed together: by the flow, or by steps of gradient descent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np

from neuralrace._engine.devices import map_on_devices, shard
from neuralrace._engine.network import Stacks
from neuralrace.axes import Edge
from neuralrace.problem import Problem
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.evolution import Evolution, matrix_evolution
from neuralrace.theory.flow.system import NetworkSystem
from neuralrace.theory.integration.descent import begin, descend, last, steps_between, stride
from neuralrace.theory.integration.integrate import Solution
from neuralrace.theory.method import Request
from neuralrace.theory.sharpness import sharpness

SMOOTHING = 5.0  # width over which a gate opens, as a multiple of rtol
CHEAP = 1 << 31  # products of weights and examples: compiling strides takes longer than this many
Translate = Callable[[dict[Edge, np.ndarray]], dict[Edge, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Simulation:
    """Several draws of one network from their initial weights, with the step, rtol and dynamics of a request.

    at_once: the most steps of descent that are taken as one, in single precision; None: single steps in double
    precision, which are also taken where they are cheap.
    """

    problem: Problem
    first: Sequence[Mapping[Edge, np.ndarray]]
    request: Request
    at_once: int | None = None

    @cached_property
    def system(self) -> NetworkSystem:
        """The smoothed flow, corrected for the planned step; descent takes the plain gradient."""
        rate, width = self.request.learning_rate, np.asarray(SMOOTHING * self.request.rtol)
        if self.request.descent is not None:
            return NetworkSystem(self.problem.network)
        return NetworkSystem(self.problem.network, None if rate is None else np.asarray(rate), width)

    @cached_property
    def strides(self) -> int | None:
        """The most steps of descent that are taken as one; None for single steps or the flow."""
        return None if self.request.descent is None or self._cheap else self.at_once

    @cached_property
    def _cheap(self) -> bool:
        steps = round(self.request.end / (self.request.descent or np.inf))
        return steps * self.problem.architecture.weight_count * len(self.problem.task) <= CHEAP

    def follow(self) -> tuple[np.ndarray, Callable[[], float]]:
        """Return the losses (draws, T), and a function that finds the curvature of the first draw at the end."""
        rate, times = self.request.descent, self.request.times
        if rate is None:
            curve = self._solution.curve(self.request.end)
            return np.asarray(curve.at(times)).T, lambda: self.sharpness(curve.last)
        counts = steps_between(times, rate)
        if self.strides is None:
            # a CPU has no quick product of several matrices at once
            starts = self._apart if jax.default_backend() == "cpu" else [self.start]
            found = map_on_devices(lambda one: descend(self.system, one, rate, counts), starts, short=self._cheap)
            return np.concatenate([np.asarray(part).T for _, part in found]), lambda: self.sharpness(found[0][0])
        begun = [begin(self.system, one) for one in self._apart]
        ends, losses = stride(self.system, begun, rate, counts, self.strides)
        return losses, lambda: self.sharpness(last(ends[0]))

    def sharpness(self, state: Stacks) -> float:
        """The largest curvature of the loss of the first draw, gates as they are."""
        plain = NetworkSystem(self.problem.network)
        return sharpness(plain.velocity, {name: np.asarray(part)[:1] for name, part in state.items()})

    def first_step(self, rate: float) -> Assumption:
        """Measure how far a step moves the initial weights: long steps turn neurons that the flow does not turn."""
        weights, slope = self.first[0], self.problem.gradient(self.first[0])
        worst, where = 0.0, "no weights move"
        for node in self.problem.activations:
            edges = self.problem.architecture.incoming[node]
            size, moved = (float(np.sqrt(sum(np.sum(part[e] ** 2) for e in edges))) for part in (weights, slope))
            if size > 0 and rate * moved / size > worst:
                worst, where = rate * moved / size, f"of the size of the weights into {node!r}"
        where = f"{where}; descent may differ" if worst > 1 else where
        return Assumption("first step", worst, 1.0, where, needed=False)

    def evolution(self, draw: int, translate: Translate | None = None) -> Evolution:
        """The weights of one draw at any times; paths have no modes."""
        alone = Simulation(self.problem, self.first[draw : draw + 1], self.request, self.at_once)
        kept = self.request.descent is None and self._solution.keeps  # all were, when the losses were found

        def matrices(times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
            for weights in self.at(times, draw) if kept else alone.at(times):
                yield weights if translate is None else translate(weights)

        return matrix_evolution(matrices)

    def at(self, times: np.ndarray, draw: int = 0) -> Iterator[dict[Edge, np.ndarray]]:
        """The weights of a draw at increasing times."""

        def unstacked(state: Mapping[str, jax.Array | np.ndarray]) -> dict[Edge, np.ndarray]:
            by_edge = self.problem.network.unstack({name: np.asarray(part)[draw] for name, part in state.items()})
            return {edge: by_edge[edge] for edge in self.problem.architecture.parameters}

        rate, most = self.request.descent, self.strides
        if rate is None or most is None:
            yield from map(unstacked, self._solution.states(times))
            return
        state, at = self.start, [begin(self.system, self.start)]
        for count in steps_between(times, rate):
            if count:
                at, _ = stride(self.system, at, rate, np.array([count]), most)
                state = last(at[0])
            yield unstacked(state)

    @cached_property
    def _solution(self) -> Solution:
        request = self.request
        return Solution(self.system, self.start, request.rtol, request.max_steps, descent=request.descent)

    @cached_property
    def start(self) -> Stacks:
        """The initial weights of all draws, spread over the local devices."""
        return shard({name: np.concatenate([np.asarray(one[name]) for one in self._apart]) for name in self._apart[0]})

    @cached_property
    def _apart(self) -> list[Stacks]:
        stacks = [self.problem.network.stack(weights) for weights in self.first]
        return [{name: jax.device_put(np.asarray(part)[None]) for name, part in one.items()} for one in stacks]
