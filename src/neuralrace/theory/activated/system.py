"""The gradient flow of a planned network, several draws at once, with or without the correction for a finite step."""

import equinox as eqx
import jax
import jax.numpy as jnp

from neuralrace._engine.network import Network, Stacks, squared_gradient, squared_loss
from neuralrace.axes import Array
from neuralrace.problem import Problem
from neuralrace.theory.activated.smoothing import held, smoothed
from neuralrace.theory.integration.system import System

# On P2's mixed task, from one set of weights, the flow is .001 to .002 in normalized L1 and .003 to .014 in log10 from
# descent (two ways of choosing steps); two trained networks differ by .002 to .014 and .004 to .076.
ACTIVATED_RTOL = 5e-4
SMALL = 300_000  # most products of weights, examples and draws for which a second flow at a smaller rtol is affordable
SMOOTHING = 5.0  # width over which a gate opens, as a multiple of rtol
ROUNDING = 1e-10  # of the outputs, relative, below which their error does not count


def is_small(problem: Problem, draws: int) -> bool:
    """Whether the network may be followed at a small tolerance, and twice."""
    return problem.architecture.weight_count * len(problem.task) * draws <= SMALL


@eqx.filter_custom_jvp
def gradient(network: Network, width: Array | None, stacks: Stacks) -> Stacks:
    """The derivative of the squared error; its own derivative, the Hessian, is symmetric and found in reverse too.

    (The products of a network can be differentiated in reverse only.)
    """
    return squared_gradient(smoothed(network, width), stacks)


def _along(
    primals: tuple[Network, Array | None, Stacks], tangents: tuple[Network | None, None, Stacks]
) -> tuple[Stacks, Stacks]:
    (network, width, stacks), (_, _, direction) = primals, tangents
    found, back = jax.vjp(lambda at: squared_gradient(smoothed(network, width), at), stacks)
    return found, back(direction)[0]


gradient.def_jvp(_along)  # type: ignore[no-untyped-call]


@eqx.filter_custom_jvp
def held_gradient(network: Network, width: Array | None, stacks: Stacks, there: Stacks) -> Stacks:
    """The derivative of the squared error at weights `there`, with the gates of the weights `stacks`.

    Its own derivative, which only implicit steps ask for, is taken as if gates moved along, which is symmetric.
    """
    return squared_gradient(held(smoothed(network, width), stacks), there)


def _held_along(
    primals: tuple[Network, Array | None, Stacks, Stacks], tangents: tuple[Network | None, None, Stacks, Stacks]
) -> tuple[Stacks, Stacks]:
    (network, width, stacks, there), (_, _, _, direction) = primals, tangents
    smooth = smoothed(network, width)
    _, back = jax.vjp(lambda at: squared_gradient(smooth, at), stacks)
    return squared_gradient(held(smooth, stacks), there), back(direction)[0]


held_gradient.def_jvp(_held_along)  # type: ignore[no-untyped-call]


class NetworkSystem(System):
    """dW/dt = -grad L for every draw; states have the draws as their first axis.

    step: gradient descent with a step eta follows, to first order, the flow of L + (eta/4) |grad L|^2, whose velocity
    -(g + (eta/2) H g) is minus the gradient half a step uphill. H knows no thresholds: gates stay as they are, or a
    neuron that moves by more than its own size in a step would have those of its opposite. The error of a step is
    relative to all weights that enter the nodes of one block (a bias alone may be zero), and that of the outputs to
    what is left to learn, or the tail of the loss would be noise.
    """

    network: Network
    step: Array | None = None  # None: the flow itself
    width: Array | None = None  # over which gates open; None: bare gates

    def gradient(self, state: Stacks) -> Stacks:
        """By automatic differentiation, draw by draw."""
        return jax.vmap(lambda stacks: gradient(self.network, self.width, stacks))(state)

    def velocity(self, state: Stacks) -> Stacks:
        """dW/dt."""
        slope = self.gradient(state)
        if self.step is not None:
            half = 0.5 * self.step
            uphill = jax.tree.map(lambda w, g: w + half * g, state, slope)
            slope = jax.vmap(lambda at, there: held_gradient(self.network, self.width, at, there))(state, uphill)
        return jax.tree.map(jnp.negative, slope)

    def record(self, state: Stacks) -> jax.Array:
        """The loss of every draw."""
        return jax.vmap(lambda stacks: squared_loss(smoothed(self.network, self.width), stacks))(state)

    def rate(self, state: Stacks, velocity: Stacks) -> jax.Array:
        """dL/dt."""
        slope = self.gradient(state)
        draws = next(iter(slope.values())).shape[0]  # edges that no example passes have one axis less
        parts = (jnp.sum((slope[name] * velocity[name]).reshape(draws, -1), axis=1) for name in slope)
        return sum(parts, start=jnp.zeros(()))

    def modes(self, state: Stacks) -> list[jax.Array]:
        """All weights that enter a block are one, in each draw."""
        blocks: dict[object, jax.Array] = {}
        for i, group in enumerate(self.network.groups):
            square = jnp.sum(state[f"group {i}"] ** 2, (1, 2, 3))
            blocks[group.target] = blocks.get(group.target, jnp.zeros(())) + square
        return [jnp.sqrt(square) for square in blocks.values()]

    def error(self, error: Stacks, before: Stacks, after: Stacks, rtol: jax.Array) -> jax.Array:
        """The largest error of a block's incoming weights, or of the outputs, relative to what is allowed."""
        worst = super().error(error, before, after, rtol)
        return jnp.maximum(worst, jnp.max(jax.vmap(self._missed)(after, error)) / rtol)

    def _missed(self, after: Stacks, error: Stacks) -> jax.Array:
        """The error of the outputs relative to what is left to learn, which is small in the tail of the loss."""
        smooth = smoothed(self.network, self.width)
        there, _ = smooth.rows(after)
        here, _ = smooth.rows(jax.tree.map(jnp.subtract, after, error))
        wrong = size = jnp.zeros(())
        for block, output in self.network.outputs.items():
            wrong = wrong + jnp.dot(output.weights, jnp.sum((there[block] - here[block]) ** 2, axis=1))
            size = size + jnp.dot(output.weights, jnp.sum(there[block] ** 2, axis=1))
        left = 2 * squared_loss(smooth, after)
        return jnp.sqrt(wrong) / (jnp.sqrt(left) + ROUNDING * jnp.sqrt(size) + 1e-290)
