"""Draws of a network with activations: by the flow, or by steps of gradient descent or of an optimizer."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from neuralrace._engine.devices import interleaved, shard
from neuralrace._engine.network import Network, Stacks
from neuralrace.axes import Edge
from neuralrace.objectives import planned
from neuralrace.problem import Problem
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.evolution import Evolution, matrix_evolution
from neuralrace.theory.flow.system import NetworkSystem, OptimizedSystem
from neuralrace.theory.integration.descent import Stride, begin, last, steps_between, stride, whole_steps
from neuralrace.theory.integration.solution import Solution
from neuralrace.theory.method import Request
from neuralrace.theory.sharpness import sharpness

SMOOTHING = 5.0  # width over which a gate opens, as a multiple of rtol
CHEAP = 1 << 31  # products of weights and examples: compiling strides takes longer than this many
APART = 30_000  # products in a step, from which on a CPU takes several draws faster one by one than side by side
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
    def network(self) -> Network:
        """The network with the rows that the objective sees."""
        return planned(self.problem, self.request.objective)

    @cached_property
    def system(self) -> NetworkSystem:
        """The smoothed flow, corrected for the planned step; steps take the plain gradient."""
        request = self.request
        if request.optimizer is not None:
            return OptimizedSystem(self.network, objective=request.objective, optimizer=request.optimizer)
        if request.descent is not None:
            return NetworkSystem(self.network, objective=request.objective)
        rate, width = request.learning_rate, np.asarray(SMOOTHING * request.rtol)
        return NetworkSystem(self.network, None if rate is None else np.asarray(rate), width)

    @cached_property
    def strides(self) -> int | None:
        """The most steps of descent that are taken as one; None for single steps or the flow."""
        if self.request.descent is None:
            return None
        steps = round(self.request.end / self.request.descent)
        return None if steps * self.products <= CHEAP else self.at_once

    @property
    def products(self) -> int:
        """Products of weights and examples in a step of one draw."""
        return self.problem.architecture.weight_count * len(self.problem.task)

    def follow(self) -> np.ndarray:
        """Return the losses (draws, T)."""
        times, low, share = self._recorded(self.request.times)
        if self.strides is not None:
            works = [self._striding(begin(self.system, at), times) for at in self._apart]
            losses = np.stack([found for _, found in interleaved(works)])
        else:
            found = interleaved([solution.follow(times) for solution in self._solutions])
            losses = np.concatenate([np.asarray(part).T for part in found])
        return _between(losses[:, low], losses[:, np.minimum(low + 1, len(times) - 1)], share)

    def sharpness(self) -> float:
        """The largest curvature of the loss of the first draw at the end of the flow, gates as they are."""
        state = self._solutions[0].curve(self.request.end).last
        plain = NetworkSystem(self.network)
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

        def weights_at(times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
            for weights in self.at(times, draw):
                yield weights if translate is None else translate(weights)

        return matrix_evolution(weights_at, self.problem.architecture)

    def at(self, times: np.ndarray, draw: int = 0) -> Iterator[dict[Edge, np.ndarray]]:
        """The weights of a draw at increasing times."""
        recorded, low, share = self._recorded(times)
        found, place = self._weights(recorded, draw), -1
        before: dict[Edge, np.ndarray] = {}
        here: dict[Edge, np.ndarray] = {}
        for wanted, part in zip(low, share, strict=True):
            while place < wanted + (part > 0):
                place, before, here = place + 1, here, next(found)
            yield {edge: _between(before[edge], here[edge], part) for edge in here} if part > 0 else here

    def _weights(self, times: np.ndarray, draw: int) -> Iterator[dict[Edge, np.ndarray]]:
        """The weights of a draw where there are records."""
        place, solutions = 0, self._solutions
        if self.strides is not None:
            states: Iterator[Any] = self._strided(times, draw)
        elif len(solutions) == len(self.first):
            states = solutions[draw].states(times)
        elif solutions[0].keeps:  # all states were, when the losses were found
            states, place = solutions[0].states(times), draw
        else:
            states = self._solution(self._apart[draw]).states(times)
        for state in states:
            stacks: Stacks = state[0] if self.request.optimizer is not None else state
            by_edge = self.network.unstack({name: np.asarray(part)[place] for name, part in stacks.items()})
            yield {edge: by_edge[edge] for edge in self.problem.architecture.parameters}

    def _strided(self, times: np.ndarray, draw: int) -> Iterator[Stacks]:
        state, before = self._apart[draw], 0.0
        at = begin(self.system, state)
        for time in times:
            if time > before:
                [(at, _)] = interleaved([self._striding(at, np.array([time - before]))])
                state, before = last(at), time
            yield state

    def _striding(self, at: Stride, times: np.ndarray) -> Generator[None, None, tuple[Stride, np.ndarray]]:
        assert self.request.descent is not None
        assert self.strides is not None
        return stride(self.system, at, self.request.descent, steps_between(times, self.request.descent), self.strides)

    def _recorded(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times at which there are records, for each wanted time the last before it, and how far it is to the next."""
        if self.request.descent is None:
            return times, np.arange(len(times)), np.zeros(len(times))
        return whole_steps(times, self.request.descent)

    @cached_property
    def _solutions(self) -> list[Solution]:
        """All draws in one; or each alone, as a CPU has no quick product of several large matrices at once."""
        if jax.default_backend() == "cpu" and self.products > APART:
            return [self._solution(one) for one in self._apart]
        both = {name: np.concatenate([np.asarray(one[name]) for one in self._apart]) for name in self._apart[0]}
        return [self._solution(shard(both))]

    def _solution(self, stacks: Stacks) -> Solution:
        request, system = self.request, self.system
        start: Any = system.start(stacks) if isinstance(system, OptimizedSystem) else stacks
        return Solution(system, start, request.rtol, request.max_steps, descent=request.descent)

    @cached_property
    def _apart(self) -> list[Stacks]:
        stacks = [self.network.stack(weights) for weights in self.first]
        return [{name: jax.device_put(np.asarray(part)[None]) for name, part in one.items()} for one in stacks]


def _between(before: np.ndarray, after: np.ndarray, share: np.ndarray | float) -> np.ndarray:
    return np.where(share > 0, (1 - share) * before + share * after, before)  # also where both are infinite
