"""The flow of routing networks of infinite width, for any trained pairs of domains that all show one mode of data.

A linear network cannot distinguish data sets with the same second moments, and a permutation of the inputs or outputs
of a domain is absorbed by its encoder or decoder. In wide layers the initial encoders and decoders, seen through the
hidden layers, are orthogonal to each other: encoder i starts as gain times unit vector i, decoder j as that of M + j,
and hidden matrices as gain times the identity: nothing in them is random.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.arrays import float64, real_array
from neuralrace.axes import Array
from neuralrace.errors import RangeError, require_count, require_number
from neuralrace.theory.integration.solution import Solution
from neuralrace.theory.integration.system import System

State = tuple[jax.Array, jax.Array, jax.Array]  # encoders (M, width), hidden (depth - 2, width, width), decoders


@float64
def wide_errors(pairs: Any, gain: float, end: float, variance: float = 1.0, depth: int = 3) -> np.ndarray:
    """Return the squared error of every pair in units of that of output zero, (input domains, output domains).

    pairs: which are trained, (M, M). gain: every singular value of each layer's initial weights. end: a time,
    learning_rate * step for the loss that is the mean over trained pairs. variance: of the inputs along the mode, whose
    strength has to reach one. depth: layers of weights.
    """
    trained = real_array("pairs", pairs, RangeError)
    if trained.ndim != 2 or len(set(trained.shape)) != 1 or not np.isin(trained, (0, 1)).all() or not trained.any():
        raise RangeError("pairs must be a square matrix of booleans with at least one that is trained: see tasks.pairs")
    layers, scale = require_count("depth", depth, least=2), require_number("gain", gain, above=0.0)
    flow = WideFlow(trained, np.asarray(require_number("variance", variance, above=0.0)))
    both = scale * np.eye(2 * len(trained))
    start = both[: len(trained)], np.stack([both] * layers)[2:], both[len(trained) :]
    last = Solution(flow, start, 1e-6, 100_000, always=0).curve(require_number("end", end, least=0)).last
    return np.asarray(flow.errors(last))


class WideFlow(System):
    """The gradient flow of the mean error of the trained pairs."""

    pairs: Array
    variance: Array

    def errors(self, state: State) -> jax.Array:
        """Return the squared error of every pair."""
        activity, hidden, decoders = state
        for matrix in hidden:
            activity = activity @ matrix.T
        return (1 - activity @ decoders.T) ** 2

    def record(self, state: State) -> jax.Array:
        """Return the loss."""
        return jnp.sum(0.5 * self.variance * self.errors(state) * self.pairs) / jnp.sum(self.pairs)

    def velocity(self, state: State) -> State:
        """Return minus the gradient of the loss."""
        slope: State = jax.grad(lambda weights: -self.record(weights))(state)
        return slope

    def modes(self, state: State) -> list[jax.Array]:
        """Return the norm of each encoder, hidden matrix and decoder."""
        return [jnp.sqrt(jnp.sum(part**2, tuple(range(1, part.ndim)))) for part in state]
