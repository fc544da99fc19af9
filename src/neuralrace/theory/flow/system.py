"""The gradient flow of a planned network, for several draws at once, with or without a correction for finite steps.

Many neurons of a rectified layer reach the threshold of some example and stay there: the velocity drives them back
from both sides, and the gate takes a value in between (sliding). An integrator that sees the gate jump in every
step can only take first-order steps; with a gate that rises over a small width the same motion is smooth.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from neuralrace._engine.devices import compiled
from neuralrace._engine.network import Network, Stacks, squared_loss
from neuralrace._engine.optimizer import optimizer_start, optimizer_step
from neuralrace.activations import LeakyReLU
from neuralrace.axes import Array
from neuralrace.objectives import Objective, Squared
from neuralrace.theory.integration.system import System


def smoothed_relu(slope: float, width: Array, weights: Array, received: jax.Array) -> jax.Array:
    """Evaluate a leaky rectifier whose gate rises linearly while the input is within `width` of zero.

    The width is relative to the root mean square of what the neuron receives over the rows with these weights, so that
    neurons of any size are smoothed alike.
    """
    size = jnp.sqrt(jnp.asarray(weights) @ jax.lax.stop_gradient(received) ** 2 / jnp.sum(weights))
    return _ramp(slope, received, width * size + 1e-290)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _ramp(slope: float, received: jax.Array, reach: jax.Array) -> jax.Array:
    opened = jnp.clip(0.5 + received / (2 * reach), 0.0, 1.0)
    return slope * received + (1 - slope) * (reach * opened**2 + jnp.maximum(received - reach, 0.0))


@_ramp.defjvp
def _ramp_along(slope: float, primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[jax.Array, jax.Array]:
    """The gate, written out: differentiated term by term a gradient takes twice as long."""
    received, reach = primals
    gate = slope + (1 - slope) * jnp.clip(0.5 + received / (2 * reach), 0.0, 1.0)
    return _ramp(slope, received, reach), gate * tangents[0]


def smoothed(network: Network, width: Array | None, at: Stacks | None = None) -> Network:
    """Smooth every rectifier, or hold its gates as they are at the weights `at`: it becomes its tangent there.

    width: None changes nothing. Called where a program is traced, so that one program works for all widths and weights
    of examples.
    """
    if width is None:
        return network
    received = None if at is None else smoothed(network, width).rows(at)[1]

    def activation(node: str, kind: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
        if not isinstance(kind, LeakyReLU):
            return kind
        smooth = partial(smoothed_relu, kind.slope, width, network.row_weights[node])
        if received is None:
            return smooth
        there = network.node_rows(received, node)
        activity, gate = jax.jvp(smooth, (there,), (jnp.ones_like(there),))
        return lambda rows: activity + gate * (rows - there)

    return replace(network, activations=tuple((node, activation(node, kind)) for node, kind in network.activations))


class NetworkSystem(System):
    """dW/dt = -grad L for every draw; states have the draws as their first axis.

    correction: gradient descent with a step eta follows, to first order, the flow of L + (eta/4) |grad L|^2, whose
    velocity -(g + (eta/2) H g) is minus the gradient half a step uphill. H knows no thresholds: gates stay as they are,
    or a neuron that moves by more than its own size in a step would get the gates of its opposite.

    by_mode: linear networks with data in its own modes. Then rows of matrices into outputs and columns of matrices
    from inputs are modes whose errors are relative to themselves. Otherwise the error is relative to all weights that
    enter the nodes of one block (a bias alone may be zero), and the error of the outputs to the remaining error,
    or the tail of the loss would be noise.
    """

    network: Network
    correction: Array | None = None  # a step; None: the flow itself
    width: Array | None = None  # over which gates open; None: discontinuous gates
    by_mode: bool = eqx.field(static=True, default=False)
    objective: Objective = eqx.field(static=True, default=Squared())

    def gradient(self, state: Stacks) -> Stacks:
        """The derivative of the loss, draw by draw."""
        return jax.vmap(lambda stacks: self._gradient(smoothed(self.network, self.width), stacks))(state)

    def _gradient(self, network: Network, stacks: Stacks) -> Stacks:
        return jax.grad(lambda inner: network.loss(inner, self.objective.rows))(stacks)

    def velocity(self, state: Stacks) -> Stacks:
        """dW/dt."""
        found: Stacks = _velocity(self, state)
        return found

    def record(self, state: Stacks) -> jax.Array:
        """The loss of every draw."""
        return jax.vmap(lambda stacks: smoothed(self.network, self.width).loss(stacks, self.objective.rows))(state)

    def rate(self, state: Stacks, velocity: Stacks) -> jax.Array:
        """dL/dt."""
        slope = jax.tree.map(jnp.negative, velocity) if self.correction is None else self.gradient(state)
        draws = next(iter(slope.values())).shape[0]
        parts = (jnp.sum((slope[name] * velocity[name]).reshape(draws, -1), axis=1) for name in slope)
        return sum(parts, start=jnp.zeros(()))

    def modes(self, state: Stacks) -> list[jax.Array]:
        """The sizes of rows, columns and whole matrices, or of all weights that enter a block."""
        if self.network.tied is not None:
            sizes = [jnp.sqrt(jnp.sum(part**2, axis=tuple(range(1, part.ndim)))) for part in state.values()]
            # a single number may pass through zero, so it is compared with the others too
            return [
                size if part[0].size > 1 else size + 0.01 * sum(sizes)
                for size, part in zip(sizes, state.values(), strict=True)
            ]
        found: list[jax.Array] = []
        blocks: dict[object, jax.Array] = {}
        for i, group in enumerate(self.network.groups):
            square, known = state[f"group {i}"] ** 2, group.source is None
            if not self.by_mode:
                blocks[group.target] = blocks.get(group.target, jnp.zeros(())) + jnp.sum(square, (1, 2, 3))
                continue
            rows, columns = (3, 2) if known else (2, 3)  # matrices of known inputs are stored transposed
            if known:
                found.append(jnp.sum(square, rows))
            if group.target in self.network.outputs:
                found.append(jnp.sum(square, columns))
            elif not known:
                found.append(jnp.sum(square, (rows, columns)))
        return [jnp.sqrt(square) for square in (*found, *blocks.values())]

    def error(self, error: Stacks, before: Stacks, after: Stacks, rtol: jax.Array) -> jax.Array:
        """The largest error of a mode, or of the outputs, relative to the allowed error."""
        worst = super().error(error, before, after, rtol)
        return worst if self.by_mode else jnp.maximum(worst, jnp.max(jax.vmap(self._missed)(after, error)) / rtol)

    def _missed(self, after: Stacks, error: Stacks) -> jax.Array:
        """The integration error of the outputs relative to their remaining error, which is small late in learning."""
        smooth = smoothed(self.network, self.width)
        there, _ = smooth.rows(after)
        here, _ = smooth.rows(jax.tree.map(jnp.subtract, after, error))
        wrong = size = jnp.zeros(())
        for block, output in self.network.outputs.items():
            wrong = wrong + jnp.dot(output.weights, jnp.sum((there[block] - here[block]) ** 2, axis=1))
            size = size + jnp.dot(output.weights, jnp.sum(there[block] ** 2, axis=1))
        left = 2 * squared_loss(smooth, after)
        return jnp.sqrt(wrong) / (jnp.sqrt(left) + 1e-10 * jnp.sqrt(size) + 1e-290)  # rounding of the outputs


@eqx.filter_custom_jvp
def _velocity(system: NetworkSystem, state: Stacks) -> Stacks:
    slope = system.gradient(state)
    if system.correction is not None:
        half = 0.5 * system.correction
        uphill = jax.tree.map(lambda w, g: w + half * g, state, slope)
        held = partial(smoothed, system.network, system.width)
        slope = jax.vmap(lambda at, there: system._gradient(held(at), there))(state, uphill)
    return jax.tree.map(jnp.negative, slope)


def _velocity_along(
    primals: tuple[NetworkSystem, Stacks], tangents: tuple[NetworkSystem | None, Stacks]
) -> tuple[Stacks, Stacks]:
    """Products of a network can be differentiated in reverse only, which gives the same, as a Hessian is symmetric.

    In the corrected flow, whose derivative only implicit steps need, gates are taken to move along.
    """
    (system, state), (_, direction) = primals, tangents
    _, back = jax.vjp(system.gradient, state)
    if system.correction is not None:
        half = 0.5 * system.correction
        direction = jax.tree.map(lambda d, pulled: d + half * pulled, direction, back(direction)[0])
    return _velocity(system, state), jax.tree.map(jnp.negative, back(direction)[0])


_velocity.def_jvp(_velocity_along)  # type: ignore[no-untyped-call]


class OptimizedSystem(NetworkSystem):
    """Steps of an optax optimizer; a state is the weights of every draw, and the optimizer's memory of them."""

    optimizer: Any = eqx.field(static=True, default=None)

    def start(self, stacks: Stacks) -> tuple[Stacks, Any]:
        """The state before the first step."""
        found: tuple[Stacks, Any] = _started(self, stacks)
        return found

    def step(self, state: tuple[Stacks, Any], learning_rate: Any) -> tuple[Stacks, Any]:
        """Take the optimizer's own step, whatever the learning rate."""

        def one(stacks: Stacks, slope: Stacks, memory: Any) -> tuple[Stacks, Any]:
            weights, slopes = self.network.unstack(stacks), self.network.unstack(slope)
            weights, memory = optimizer_step(self.optimizer, slopes, memory, weights)
            return self.network.stack(weights), memory

        return jax.vmap(one)(state[0], self.gradient(state[0]), state[1])

    def record(self, state: tuple[Stacks, Any]) -> jax.Array:  # type: ignore[override]
        """The loss of every draw."""
        return super().record(state[0])


@compiled
def _started(system: OptimizedSystem, stacks: Stacks) -> tuple[Stacks, Any]:
    network = system.network
    return stacks, jax.vmap(lambda one: optimizer_start(system.optimizer, network.unstack(one)))(stacks)
