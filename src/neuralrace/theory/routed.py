"""The exact flow of a routing network whose domains all show the same data, from the moments of that data alone.

Every pair of domains has the same Sigma_x and Sigma_yx, and a linear network cannot tell two data sets with the same
moments apart. So the flow equals that network's on as few rows as have these moments, one for each eigenvector of
Sigma_x. A permutation of the inputs or outputs of a domain is absorbed by its encoder or decoder, and changes nothing.
`theory.flow` does the same for any graph, with a set of moments for each pair.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled
from neuralrace._engine.network import Stacks
from neuralrace._engine.routed import routed_architecture, routed_outputs, stack_routed
from neuralrace.architecture import Architecture
from neuralrace.arrays import float64
from neuralrace.axes import Array
from neuralrace.errors import RangeError, require_count, require_number
from neuralrace.initial import Initializer, as_key, draw
from neuralrace.theory.integration.integrate import Curve, integrate
from neuralrace.theory.integration.system import System
from neuralrace.theory.predict import THEORY_STREAM

NEGLIGIBLE = 1e-12  # directions with a smaller fraction of the largest variance are left out


class RoutedFlow(System):
    """A routing network on M equal domains, ready to follow from any initial weights.

    Weights are a dict of stacks: "encoders" (M, width, inputs), "hidden" (depth - 2, width, width), left out at depth
    two, and "decoders" (M, outputs, width).
    """

    pairs: Array  # (M, M): 1 for a trained pair, 0 for another
    rows: Array  # (rows, inputs), sums over which are the moments
    targets: Array  # (rows, outputs)
    unexplained: Array  # half the mean squared error of the best linear map

    def __init__(self, pairs: Any, input: Any, input_output: Any, energy: float) -> None:
        """pairs: which are trained, (M, M). input, input_output, energy: Sigma_x, Sigma_yx and <|y|^2> of a domain."""
        graph, spread, joint = (np.asarray(part, dtype=np.float64) for part in (pairs, input, input_output))
        for name, matrix, shape in (
            ("pairs", graph, (len(graph), len(graph))),
            ("input", spread, (len(spread), len(spread))),
            ("input_output", joint, (len(joint), len(spread))),
        ):
            if matrix.shape != shape or not np.isfinite(matrix).all():
                raise RangeError(f"{name} must be a finite matrix of the shape {shape}; its shape was {matrix.shape}")
        if not np.isin(graph, (0.0, 1.0)).all() or not graph.any():
            raise RangeError("pairs must be booleans with at least one that is trained; give a matrix from tasks.pairs")
        total = require_number("energy", energy, above=0.0)
        variances, vectors = np.linalg.eigh(spread)
        kept = variances > NEGLIGIBLE * variances.max()
        deviations, vectors = np.sqrt(variances[kept]), vectors[:, kept]
        self.pairs, self.rows = graph, deviations[:, None] * vectors.T
        self.targets = (joint @ vectors / deviations).T
        self.unexplained = np.asarray(max(0.5 * (total - float(np.sum(self.targets**2))), 0.0))

    @float64
    def errors(self, weights: Mapping[str, Any]) -> np.ndarray:
        """Return half the mean squared error of every pair, (input domains, output domains)."""
        return np.asarray(_errors(self, self._checked(weights)))

    @float64
    def follow(self, initial: Mapping[str, Any], end: float, *, rtol: float = 1e-6) -> Curve:
        """Follow the flow from initial weights to a time.

        Time is learning_rate * step for the loss that is the mean over trained pairs. The curve is of half the mean
        squared error of "trained" and "untrained" pairs (NaN if there are none), and its last state is weights.
        """
        curve = integrate(self, self._checked(initial), end, rtol=rtol, max_steps=100_000)
        return replace(curve, last=jax.tree.map(np.asarray, curve.last))

    def velocity(self, state: Stacks) -> Stacks:
        """Return minus the gradient of the loss, the mean over trained pairs."""
        return jax.grad(lambda weights: -self.record(weights)["trained"])(state)

    def record(self, state: Stacks) -> dict[str, jax.Array]:
        """Return the mean errors of trained and of untrained pairs."""
        errors = self.pair_errors(state)
        shares = {"trained": self.pairs, "untrained": 1 - self.pairs}
        return {kind: jnp.sum(errors * share) / jnp.sum(share) for kind, share in shares.items()}

    def modes(self, state: Stacks) -> list[jax.Array]:
        """Return the norm of each encoder, hidden matrix and decoder."""
        return [jnp.sqrt(jnp.sum(part**2, (1, 2))) for part in state.values()]

    def pair_errors(self, state: Stacks) -> jax.Array:
        """Return half the mean squared error of every pair."""
        off = routed_outputs(state, jnp.asarray(self.rows)) - self.targets[:, None, None, :]
        return 0.5 * jnp.sum(off**2, axis=(0, 3)) + self.unexplained

    def _checked(self, weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
        found = {name: np.asarray(part, dtype=np.float64) for name, part in weights.items()}
        width = found["encoders"].shape[1] if found["encoders"].ndim == 3 else 0
        shapes = {
            "encoders": (len(self.pairs), width, self.rows.shape[1]),
            "hidden": (len(found.get("hidden", ())), width, width),
            "decoders": (len(self.pairs), self.targets.shape[1], width),
        }
        for name, array in found.items():
            if array.shape != shapes[name]:
                raise RangeError(f"{name} must have the shape {shapes[name]}; it was {array.shape}")
        return found


@compiled
def _errors(flow: RoutedFlow, state: Any) -> Array:
    return flow.pair_errors(state)


def wide_weights(domains: int, gain: float, depth: int = 3) -> dict[str, np.ndarray]:
    """Return orthogonal initial weights at infinite width, for data of one mode: nothing in them is random.

    Hidden layers may be rotated at will. In wide layers encoders and decoders, seen through the hidden chain, all have
    their own directions; so encoder i is gain times unit vector i, decoder j that of M + j, and the hidden matrices are
    gain times the identity. Modes of the data do not meet there and can be followed one by one.
    """
    count, layers = require_count("domains", domains), require_count("depth", depth, least=2)
    both = require_number("gain", gain, above=0.0) * np.eye(2 * count)
    hidden = {"hidden": np.stack([both] * (layers - 2))} if layers > 2 else {}
    return {"encoders": both[:count, :, None], **hidden, "decoders": both[count:, None, :]}


def drawn_weights(
    initial: Initializer, domains: int, sizes: tuple[int, int, int], depth: int = 3, key: Any = 0
) -> dict[str, np.ndarray]:
    """Draw initial weights for theory, whose draws are never those of a training.

    sizes: inputs and outputs of a domain with the width between them, (inputs, width, outputs).
    """

    class Network(NamedTuple):
        architecture: Architecture

    inputs, width, outputs = (require_count("sizes", size) for size in sizes)
    network = Network(routed_architecture(domains, inputs, width, outputs, depth))
    drawn = draw(initial, network, jax.random.fold_in(as_key(key), THEORY_STREAM))
    return {name: np.asarray(part) for name, part in stack_routed(network.architecture, drawn).items()}
