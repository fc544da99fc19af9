"""Plain steps of gradient descent along the velocity of a system."""

from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.progress import Pace

AT_ONCE = 1 << 16  # steps in one compiled call; more are several, so that it can be interrupted and its pace told


class Descending(Protocol):
    """A flow, and what is recorded of its state; an equinox module."""

    def velocity(self, state: Any) -> Any:
        """Minus the gradient."""

    def record(self, state: Any) -> Any:
        """What is kept of a state."""


def descend(system: Descending, start: Any, learning_rate: float, counts: np.ndarray) -> tuple[Any, Any]:
    """Take counts[i] steps before the i-th record: the last state, and the records."""
    rate = jnp.asarray(learning_rate)  # an array: another rate is no other program
    if counts.sum() <= AT_ONCE:
        return _descend(system, start, rate, jnp.asarray(counts))
    state, records = start, []
    done, pace = 0, Pace("descent", "a larger learning_rate, an earlier end, or dynamics='flow'")
    for count in counts:
        for first in range(0, max(int(count), 1), AT_ONCE):
            part = min(AT_ONCE, int(count) - first)
            state, record = jax.block_until_ready(_descend(system, state, rate, jnp.asarray([part])))
            done += part
            pace.look(done, float(counts.sum()))
        records.append(record)
    return state, jax.tree.map(lambda *leaves: np.concatenate(leaves), *records)


@eqx.filter_jit
def _descend(system: Descending, start: Any, learning_rate: jax.Array, counts: jax.Array) -> tuple[Any, Any]:
    def one_step(_: Any, state: Any) -> Any:
        return jax.tree.map(lambda w, v: w + learning_rate * v, state, system.velocity(state))

    def to_record(state: Any, count: jax.Array) -> tuple[Any, Any]:
        state = jax.lax.fori_loop(0, count, one_step, state)
        return state, system.record(state)

    return jax.lax.scan(to_record, start, counts)
