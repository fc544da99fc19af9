"""The exact matrix flow of P1 eqs 3-4, and gradient descent, from the statistics of a problem alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled
from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.path_statistics import PathStatistics
from neuralrace.theory.flow.equation import Blocks, FlowEquation, Stacks, make_equation
from neuralrace.theory.flow.moments import (
    DataBases,
    NodeBases,
    StateMoments,
    collect_moments,
    data_bases,
    node_bases,
)
from neuralrace.theory.integration.integrate import Followed
from neuralrace.theory.integration.system import NOISE, descend, velocity_of

NEGLIGIBLE = 0.1  # of the tolerance, for what is left out
CUTS = ((2,), (1,), (1, 2))  # what is summed over in one mode: each row is one, or each column, or the whole matrix


class FlowSystem(eqx.Module):
    """The matrix flow with an error that is relative for every mode at the inputs and at the outputs."""

    equation: FlowEquation
    modes: tuple[tuple[jax.Array | None, ...], ...]  # per block: for each way to cut matrices into modes the edges
    atol: jax.Array

    def velocity(self, state: Stacks) -> Stacks:
        """dW/dt."""
        return self.equation.velocity(state)

    def record(self, state: Stacks) -> jax.Array:
        """The loss above its constant part."""
        return self.equation.excess(state)

    def rate(self, state: Stacks, velocity: Stacks) -> jax.Array:
        """dL/dt = -|dW/dt|^2."""
        return -sum((jnp.sum(v**2) for v in velocity), start=jnp.zeros(()))

    def error(self, error: Stacks, before: Stacks, after: Stacks, rtol: jax.Array) -> jax.Array:
        """The largest error of a mode relative to what is allowed: rtol of that mode, and rounding of the largest."""
        worst = jnp.zeros(())
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(y0), initial=0.0) for y0 in before]))
        allowed = self.atol + NOISE * largest
        for e, y0, y1, masks in zip(error, before, after, self.modes, strict=True):
            for axes, mask in zip(CUTS, masks, strict=True):
                if mask is None:
                    continue
                size = jnp.sqrt(jnp.maximum(jnp.sum(y0**2, axes), jnp.sum(y1**2, axes)))
                ratio = jnp.sqrt(jnp.sum(e**2, axes)) / (rtol * size + allowed)
                worst = jnp.maximum(worst, jnp.max(ratio * mask.reshape((-1,) + (1,) * (ratio.ndim - 1)), initial=0.0))
        return worst


@dataclass(frozen=True, eq=False)
class MatrixFlow:
    """The flow that starts at given weights; followed: its excess loss and its stacks at any times."""

    followed: Followed
    blocks: Blocks
    bases: NodeBases

    @property
    def system(self) -> FlowSystem:
        """What is followed."""
        return cast(FlowSystem, self.followed.system)

    @property
    def start(self) -> Stacks:
        """The first weights in the bases of the nodes."""
        return cast(Stacks, self.followed.start)

    def weights_at(self, times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
        """The weights at increasing times, one set after the other."""
        return map(self.matrices, self.followed.states(times))

    def descend(self, learning_rate: float, steps: np.ndarray) -> np.ndarray:
        """Gradient descent: the excess loss at the given step numbers."""
        counts = np.diff(steps, prepend=0)
        return np.asarray(descend(self.system, self.start, learning_rate, counts)[1])

    def descended_weights(self, learning_rate: float, steps: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
        """The weights of gradient descent at increasing step numbers, one set after the other."""
        state = self.start
        for count in np.diff(steps, prepend=0):
            state, _ = descend(self.system, state, learning_rate, np.array([count]))
            yield self.matrices(state)

    def velocity(self, state: Stacks) -> Stacks:
        """dW/dt in the bases of the nodes."""
        found: Stacks = velocity_of(self.system, state)
        return found

    def excess(self, state: Stacks) -> float:
        """The loss above its constant part."""
        return float(_excess(self.system, state))

    def matrices(self, state: Stacks) -> dict[Edge, np.ndarray]:
        """A state of the flow as weight matrices between neurons."""
        return self.bases.leave(self.blocks.unstack(state))

    @property
    def constant(self) -> float:
        """The part of the loss that no weight can change."""
        return float(self.system.equation.constant)


@dataclass(frozen=True, eq=False)
class FlowFactory:
    """What of the flow depends on the problem and not on the weights."""

    statistics: PathStatistics
    bases: DataBases = field(init=False)
    _moments: StateMoments = field(init=False)
    _equations: dict[Any, tuple[FlowEquation, Blocks]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_moments", collect_moments(self.statistics))
        object.__setattr__(self, "bases", self.statistics.once(data_bases))

    def start(
        self, weights: Mapping[Edge, np.ndarray], end: float, rtol: float, max_steps: int = 0, atol: float = 0.0
    ) -> MatrixFlow:
        """The flow from these weights, good for a relative accuracy up to a time."""
        architecture = self.statistics.architecture
        inputs = self.bases.inputs
        outputs = self.bases.outputs(architecture, weights, NEGLIGIBLE * rtol / max(end, np.finfo(float).tiny))
        bases = node_bases(self.statistics, weights, inputs, outputs)
        sizes = tuple(bases.sizes.items())
        if sizes not in self._equations:  # the bases of an output are told apart by their sizes
            self._equations[sizes] = make_equation(architecture, self._moments, bases.sizes, inputs, outputs)
        equation, blocks = self._equations[sizes]
        stacks = blocks.stack(bases.enter(weights))
        system = FlowSystem(equation, _modes(architecture, blocks), jax.device_put(np.asarray(max(atol, 1e-290))))
        return MatrixFlow(Followed(system, stacks, rtol, max_steps), blocks, bases)


def _modes(architecture: Architecture, blocks: Blocks) -> tuple[tuple[jax.Array | None, ...], ...]:
    """Per block and cut: 1 for the edges whose matrices are cut so, None if there are none.

    Into an output rows are modes, from an input columns, and between hidden nodes the whole is one; where each row
    is measured against itself, so is the whole.
    """
    found = []
    for edges in blocks.edges:
        ends = [architecture.edges[edge] for edge in edges]
        rows = np.array([target in architecture.outputs for _, target in ends], dtype=float)
        columns = np.array([source in architecture.inputs for source, _ in ends], dtype=float)
        masks = (rows, columns, (1 - rows) * (1 - columns))
        found.append(tuple(jax.device_put(mask) if mask.any() else None for mask in masks))
    return tuple(found)


@compiled
def _excess(system: FlowSystem, state: Stacks) -> jax.Array:
    return system.equation.excess(state)
