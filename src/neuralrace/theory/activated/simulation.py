"""Draws of a network followed together: by the flow, or by steps of descent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import spread
from neuralrace._engine.network import Stacks
from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.errors import ProblemError
from neuralrace.problem import Problem
from neuralrace.theory.activated.smoothing import smoothed
from neuralrace.theory.activated.system import SMOOTHING, NetworkSystem
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.evolution import MatricesAt, MatrixEvolution
from neuralrace.theory.integration.integrate import Followed, integrate
from neuralrace.theory.integration.system import descend
from neuralrace.theory.method import Request
from neuralrace.theory.sharpness import regime, sharpness

Translate = Callable[[dict[Edge, np.ndarray]], dict[Edge, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Simulation:
    """Several draws of one network from their first weights, as a request asks for: its step, rtol and dynamics.

    first: the weights of every draw at time zero of the simulation; times are counted from there.
    """

    problem: Problem
    first: Sequence[Mapping[Edge, np.ndarray]]
    request: Request

    @cached_property
    def system(self) -> NetworkSystem:
        """The smoothed flow, corrected for the planned step; descent takes the plain gradient."""
        if self.request.descent is not None:
            return NetworkSystem(self.problem.network)
        return self.flow

    @cached_property
    def flow(self) -> NetworkSystem:
        """The flow, whatever the dynamics."""
        rate = self.request.learning_rate
        network = smoothed(self.problem.network, SMOOTHING * self.request.rtol)
        return NetworkSystem(network, None if rate is None else jnp.asarray(rate))

    def follow(self, times: np.ndarray, end: float) -> tuple[np.ndarray, Stacks]:
        """The losses (draws, T) at the times, and the state at the end."""
        if self.request.descent is not None:
            marks = np.append(self.request.descent.steps(times), self.request.descent.steps(np.array(end)))
            rate = self.request.descent.learning_rate
            last, losses = descend(self.system, self.start, rate, np.diff(marks, prepend=0))
            return np.asarray(losses)[:-1].T, last
        curve = integrate(self.system, self.start, end, rtol=self.request.rtol, max_steps=self.request.max_steps)
        return np.asarray(curve.at(times)).T, curve.last

    def weights(self, state: Mapping[str, jax.Array | np.ndarray]) -> list[dict[Edge, np.ndarray]]:
        """A state as one set of weights per draw."""
        by_edge = self.problem.network.unstack({name: np.asarray(part) for name, part in state.items()})
        return [{edge: by_edge[edge][i] for edge in self.problem.architecture.edges} for i in range(len(self.first))]

    def evolution(self, draw: int, translate: Translate | None = None) -> MatrixEvolution:
        """The weights of one draw at any times."""
        alone = Simulation(self.problem, self.first[draw : draw + 1], self.request)

        def matrices(times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
            for weights in alone.at(times):
                yield weights if translate is None else translate(weights)

        return without_modes(matrices)

    def at(self, times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
        """The weights of the first draw at increasing times."""
        if self.request.descent is None:
            yield from (self.weights(state)[0] for state in self._followed.states(times))
            return
        here, before = self, 0.0
        for time in times:  # steps: from one time to the next
            if time > before:
                _, state = here.follow(np.zeros(0), float(time) - before)
                here, before = Simulation(self.problem, self.weights(state)[:1], self.request), float(time)
            yield dict(here.first[0])

    @cached_property
    def _followed(self) -> Followed:
        return Followed(self.system, self.start, self.request.rtol, self.request.max_steps)

    @cached_property
    def start(self) -> Stacks:
        """The first weights of all draws, which are spread over the local devices."""
        network = self.problem.network
        stacks = [network.stack(weights) for weights in self.first]
        return spread({name: jnp.stack([one[name] for one in stacks]) for name in stacks[0]})


def flow_regime(simulation: Simulation, last: Stacks) -> tuple[Assumption, ...]:
    """The planned step size against the curvature of the first draw at the end, where squared error is sharpest."""
    rate = simulation.request.learning_rate
    if rate is None:
        return ()
    plain = NetworkSystem(simulation.problem.network)
    value = sharpness(plain.velocity, {name: part[:1] for name, part in last.items()})
    return (regime(rate, np.array([simulation.request.end]), [value]),)


def without_modes(matrices: MatricesAt) -> MatrixEvolution:
    """Weights over time whose paths have no modes."""

    def refuse(path: Path) -> NoReturn:
        raise ProblemError(f"modes are those of linear nodes; the path {path} goes through an activation")

    return MatrixEvolution(matrices, refuse)
