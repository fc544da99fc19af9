"""Plain steps of gradient descent along the velocity of a system."""

from typing import Any, Protocol

import equinox as eqx
import jax


class Descending(Protocol):
    """A flow, and what is recorded of its state; an equinox module."""

    def velocity(self, state: Any) -> Any:
        """Minus the gradient."""

    def record(self, state: Any) -> Any:
        """What is kept of a state."""


@eqx.filter_jit
def descend(system: Descending, start: Any, learning_rate: jax.Array, counts: jax.Array) -> tuple[Any, Any]:
    """Take counts[i] steps before the i-th record: the last state, and the records."""

    def one_step(_: Any, state: Any) -> Any:
        return jax.tree.map(lambda w, v: w + learning_rate * v, state, system.velocity(state))

    def to_record(state: Any, count: jax.Array) -> tuple[Any, Any]:
        state = jax.lax.fori_loop(0, count, one_step, state)
        return state, system.record(state)

    return jax.lax.scan(to_record, start, counts)
