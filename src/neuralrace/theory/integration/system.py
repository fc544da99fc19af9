"""An autonomous differential equation whose error is relative for every mode of its state."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from neuralrace._engine.devices import compiled


class System(eqx.Module):
    """The equation, the sizes of its modes, and the record that is kept of its states."""

    @abstractmethod
    def velocity(self, state: Any) -> Any:
        """The right-hand side."""

    @abstractmethod
    def modes(self, state: Any) -> Sequence[jax.Array]:
        """The size of every mode of a state, or of an error in one."""

    def step(self, state: Any, learning_rate: Any) -> Any:
        """Take one step of gradient descent."""
        return jax.tree.map(lambda w, v: w + learning_rate * v, state, self.velocity(state))

    def record(self, state: Any) -> Any:
        """The quantities recorded of a state (the state itself)."""
        return state

    def rate(self, state: Any, velocity: Any) -> Any:
        """The time derivative of the record."""
        return jax.jvp(self.record, (state,), (velocity,))[1]

    def error(self, error: Any, before: Any, after: Any, rtol: jax.Array) -> jax.Array:
        """The largest error of a mode as a multiple of the allowed error: rtol of that mode, and rounding."""
        worst = jnp.zeros(())
        largest = jnp.max(jnp.stack([jnp.max(jnp.abs(y), initial=0.0) for y in jax.tree.leaves(before)]))
        allowed = 1e-290 + 4e-16 * largest
        for wrong, old, new in zip(*map(self.modes, (error, before, after)), strict=True):
            ratio = wrong / (rtol * jnp.maximum(old, new) + allowed)
            worst = jnp.maximum(worst, jnp.max(ratio, initial=0.0))
        return worst


@eqx.filter_jit
def velocity_of(system: System, state: Any) -> Any:
    """The velocity; traced once, however often a program uses it."""
    return system.velocity(state)


@compiled
def record_of(system: System, state: Any) -> Any:
    """The record of a state."""
    return system.record(state)


def norm(state: Any) -> jax.Array:
    """The root of the sum of all squares, in the precision of the state."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(state)))
