"""The exact matrix flow of P1 eqs 3-4, and gradient descent, from the statistics of a problem alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.statistics import PathStatistics
from neuralrace.theory.coordinates import Coordinates, DataBases, data_bases, make_coordinates
from neuralrace.theory.integrate import Curve, integrate
from neuralrace.theory.matrixfield import Blocks, MatrixField, Stacks, make_field
from neuralrace.theory.moments import collect_moments
from neuralrace.types import Edge

NEGLIGIBLE = 0.1  # of the tolerance, for what is left out
NOISE = 1e-14  # relative size below which a mode is rounding and its relative error means nothing


class FlowSystem(eqx.Module):
    """The matrix flow with an error that is relative for every mode at the inputs and at the outputs."""

    field: MatrixField
    rows: tuple[jax.Array, ...]  # per block and edge: 1 where the rows are modes of an output
    columns: tuple[jax.Array, ...]  # per block and edge: 1 where the columns are modes of an input
    floor: jax.Array

    def velocity(self, state: Stacks) -> Stacks:
        """dW/dt."""
        return self.field.velocity(state)

    def record(self, state: Stacks) -> jax.Array:
        """The loss above its constant part."""
        return self.field.excess(state)

    def rate(self, state: Stacks, velocity: Stacks) -> jax.Array:
        """dL/dt = -|dW/dt|^2."""
        return -sum((jnp.sum(v**2) for v in velocity), start=jnp.zeros(()))

    def error(self, error: Stacks, before: Stacks, after: Stacks) -> jax.Array:
        """The largest error of a mode relative to that mode."""
        worst = jnp.zeros(())
        for e, y0, y1, rows, columns in zip(error, before, after, self.rows, self.columns, strict=True):
            for axes, mask in (((1, 2), jnp.ones_like(rows)), ((2,), rows), ((1,), columns)):
                size = jnp.sqrt(jnp.maximum(jnp.sum(y0**2, axes), jnp.sum(y1**2, axes))) + self.floor
                ratio = jnp.sqrt(jnp.sum(e**2, axes)) / size
                worst = jnp.maximum(worst, jnp.max(ratio * mask.reshape((-1,) + (1,) * (ratio.ndim - 1))))
        return worst


@dataclass(frozen=True, eq=False)
class MatrixFlow:
    """The flow that starts at given weights, ready to integrate."""

    system: FlowSystem
    blocks: Blocks
    coordinates: Coordinates
    start: Stacks

    def curve(
        self, end: float, *, rtol: float, max_steps: int, stop: Callable[[float, Any], bool] | None = None
    ) -> Curve:
        """The excess loss over time, from zero to `end`."""
        return integrate(self.system, self.start, end, rtol=rtol, max_steps=max_steps, stop=stop)

    def weights_at(self, times: np.ndarray, *, rtol: float, max_steps: int) -> list[dict[Edge, np.ndarray]]:
        """The weights at increasing times, integrated anew so that they need not all be kept."""
        found, state, before = [], self.start, 0.0
        for time in times:
            if time > before:
                state = integrate(
                    self.system, state, float(time) - before, rtol=rtol, max_steps=max_steps
                ).last
                before = float(time)
            found.append(self.matrices(state))
        return found

    def descend(self, learning_rate: float, steps: np.ndarray) -> tuple[np.ndarray, list[Stacks]]:
        """Gradient descent: the excess loss at the given step numbers, and the last weights."""
        counts = np.diff(steps, prepend=0)
        last, losses = _descend(self.system, self.start, jnp.asarray(learning_rate), jnp.asarray(counts))
        return np.asarray(losses), [last]

    def descended_weights(self, learning_rate: float, steps: np.ndarray) -> list[dict[Edge, np.ndarray]]:
        """The weights of gradient descent at increasing step numbers."""
        found, state = [], self.start
        for count in np.diff(steps, prepend=0):
            state, _ = _descend(self.system, state, jnp.asarray(learning_rate), jnp.asarray([count]))
            found.append(self.matrices(state))
        return found

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "_moments", collect_moments(self.statistics))
        object.__setattr__(self, "_bases", data_bases(self.statistics))

    def start(self, weights: Mapping[Edge, np.ndarray], end: float, rtol: float) -> MatrixFlow:
        """The flow from these weights, good for a relative accuracy up to a time."""
        architecture = self.statistics.architecture
        bases: DataBases = self._bases  # type: ignore[attr-defined]
        inputs = bases.inputs
        outputs = bases.outputs(architecture, weights, NEGLIGIBLE * rtol / max(end, np.finfo(float).tiny))
        coordinates = make_coordinates(self.statistics, weights, inputs, outputs)
        field, blocks = make_field(architecture, self._moments, coordinates.sizes, inputs, outputs)  # type: ignore[attr-defined]
        inner = coordinates.enter(weights)
        masks = []
        for names, end in ((architecture.outputs, 1), (architecture.inputs, 0)):
            inside = set(names)
            masks.append(
                tuple(
                    jnp.array([float(architecture.edges[e][end] in inside) for e in block])
                    for block in blocks.edges
                )
            )
        scale = max((float(np.abs(w).max()) for w in inner.values() if w.size), default=0.0)
        floor = jnp.asarray(max(NOISE * scale, 1e-290))
        return MatrixFlow(
            FlowSystem(field, masks[0], masks[1], floor), blocks, coordinates, blocks.stack(inner)
        )


@eqx.filter_jit
def _descend(
    system: FlowSystem, start: Stacks, learning_rate: jax.Array, counts: jax.Array
) -> tuple[Stacks, jax.Array]:
    """Take counts[i] steps before the i-th record."""

    def one_step(_: Any, state: Stacks) -> Stacks:
        return jax.tree.map(lambda w, v: w + learning_rate * v, state, system.velocity(state))

    def to_record(state: Stacks, count: jax.Array) -> tuple[Stacks, jax.Array]:
        state = jax.lax.fori_loop(0, count, one_step, state)
        return state, system.record(state)

    return jax.lax.scan(to_record, start, counts)
