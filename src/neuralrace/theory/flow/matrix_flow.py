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
from neuralrace.theory.flow.field import Blocks, MatrixField, Stacks, make_field
from neuralrace.theory.flow.moments import (
    Coordinates,
    DataBases,
    StateMoments,
    collect_moments,
    data_bases,
    make_coordinates,
)
from neuralrace.theory.integration.integrate import Followed
from neuralrace.theory.integration.system import NOISE, descend, velocity_of

NEGLIGIBLE = 0.1  # of the tolerance, for what is left out


class FlowSystem(eqx.Module):
    """The matrix flow with an error that is relative for every mode at the inputs and at the outputs."""

    field: MatrixField
    rows: tuple[jax.Array, ...]  # per block and edge: 1 where the rows are modes of an output
    columns: tuple[jax.Array, ...]  # per block and edge: 1 where the columns are modes of an input
    atol: jax.Array

    def velocity(self, state: Stacks) -> Stacks:
        """dW/dt."""
        return self.field.velocity(state)

    def record(self, state: Stacks) -> jax.Array:
        """The loss above its constant part."""
        return self.field.excess(state)

    def rate(self, state: Stacks, velocity: Stacks) -> jax.Array:
        """dL/dt = -|dW/dt|^2."""
        return -sum((jnp.sum(v**2) for v in velocity), start=jnp.zeros(()))

    def error(self, error: Stacks, before: Stacks, after: Stacks, rtol: jax.Array) -> jax.Array:
        """The largest error of a mode relative to what is allowed: rtol of that mode, and rounding of the largest."""
        worst = jnp.zeros(())
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(y0), initial=0.0) for y0 in before]))
        allowed = self.atol + NOISE * largest
        for e, y0, y1, rows, columns in zip(error, before, after, self.rows, self.columns, strict=True):
            for axes, mask in (((1, 2), jnp.ones_like(rows)), ((2,), rows), ((1,), columns)):
                size = jnp.sqrt(jnp.maximum(jnp.sum(y0**2, axes), jnp.sum(y1**2, axes)))
                ratio = jnp.sqrt(jnp.sum(e**2, axes)) / (rtol * size + allowed)
                worst = jnp.maximum(worst, jnp.max(ratio * mask.reshape((-1,) + (1,) * (ratio.ndim - 1)), initial=0.0))
        return worst


@dataclass(frozen=True, eq=False)
class MatrixFlow:
    """The flow that starts at given weights; followed: its excess loss and its stacks at any times."""

    followed: Followed
    blocks: Blocks
    coordinates: Coordinates

    @property
    def system(self) -> FlowSystem:
        """What is followed."""
        return cast(FlowSystem, self.followed.system)

    @property
    def start(self) -> Stacks:
        """The first weights in the coordinates."""
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
        """dW/dt in the coordinates."""
        found: Stacks = velocity_of(self.system, state)
        return found

    def excess(self, state: Stacks) -> float:
        """The loss above its constant part."""
        return float(_excess(self.system, state))

    def matrices(self, state: Stacks) -> dict[Edge, np.ndarray]:
        """A state of the flow as weight matrices between neurons."""
        return self.coordinates.leave(self.blocks.unstack(state))

    @property
    def constant(self) -> float:
        """The part of the loss that no weight can change."""
        return float(self.system.field.constant)


@dataclass(frozen=True, eq=False)
class FlowFactory:
    """What of the flow depends on the problem and not on the weights."""

    statistics: PathStatistics
    bases: DataBases = field(init=False)
    _moments: StateMoments = field(init=False)
    _fields: dict[Any, tuple[MatrixField, Blocks]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_moments", collect_moments(self.statistics))
        object.__setattr__(self, "bases", self.statistics.once(data_bases))

    def start(
        self, weights: Mapping[Edge, np.ndarray], end: float, rtol: float, max_steps: int = 0, atol: float = 0.0
    ) -> MatrixFlow:
        """The flow from these weights, good for a relative accuracy up to a time."""
        architecture = self.statistics.architecture
        bases = self.bases
        inputs = bases.inputs
        outputs = bases.outputs(architecture, weights, NEGLIGIBLE * rtol / max(end, np.finfo(float).tiny))
        coordinates = make_coordinates(self.statistics, weights, inputs, outputs)
        sizes = tuple(coordinates.sizes.items())
        if sizes not in self._fields:  # the bases of an output are told apart by their sizes
            self._fields[sizes] = make_field(architecture, self._moments, coordinates.sizes, inputs, outputs)
        matrix_field, blocks = self._fields[sizes]
        rows, columns = (_masks(architecture, blocks, side) for side in (1, 0))
        stacks = blocks.stack(coordinates.enter(weights))
        system = FlowSystem(matrix_field, rows, columns, jax.device_put(np.asarray(max(atol, 1e-290))))
        return MatrixFlow(Followed(system, stacks, rtol, max_steps), blocks, coordinates)


def _masks(architecture: Architecture, blocks: Blocks, side: int) -> tuple[jax.Array, ...]:
    """Per block and edge: 1 where the target (side 1) is an output, or the source (side 0) an input."""
    inside = set(architecture.outputs if side else architecture.inputs)
    found = [[float(architecture.edges[e][side] in inside) for e in block] for block in blocks.edges]
    return jax.device_put(tuple(map(np.array, found)))


@compiled
def _excess(system: FlowSystem, state: Stacks) -> jax.Array:
    return system.field.excess(state)
