"""The exact flow of a routing network whose domains all show the same data, from the moments of that data alone.

M encoders, a chain of shared hidden matrices and M decoders learn the trained pairs G (M x M) of an input and an
output domain. Every pair has the same Sigma_x and Sigma_yx, so nothing is kept for a pair: with U_i what encoder i
sends through the hidden chain,

    dD_j/dt ~ sum_i G_ij (Sigma_yx - D_j U_i Sigma_x) U_i^T,   dU_i ~ sum_j G_ij D_j^T (Sigma_yx - D_j U_i Sigma_x),

and both sums go over products of width x width. The inputs are taken in the eigenbasis of Sigma_x, without what is
never shown. A permutation of the inputs or outputs of a domain is absorbed by its encoder or decoder, and changes
nothing here. `theory.flow` does the same for any graph, with a set of moments for each pair.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled
from neuralrace.architecture import Architecture
from neuralrace.arrays import float64
from neuralrace.axes import Array
from neuralrace.errors import RangeError, require_count, require_number
from neuralrace.initial import Initializer, as_key, draw
from neuralrace.theory.integration.integrate import Curve, integrate
from neuralrace.theory.integration.system import System, record_of
from neuralrace.theory.predict import THEORY_STREAM

NEVER_SHOWN = 1e-12  # part of the largest variance below which an input direction is left out


class RoutedWeights(NamedTuple):
    """The weights of a routing network; its depth is two more than the number of hidden matrices."""

    encoders: Any  # (M, width, inputs)
    hidden: Any  # (depth - 2, width, width)
    decoders: Any  # (M, outputs, width)


class RoutedErrors(NamedTuple):
    """Half the mean squared error of a pair, averaged over the trained and over the untrained pairs."""

    trained: Any
    untrained: Any  # NaN where there are none


class RoutedSystem(System):
    """The flow; weights have their inputs in the eigenbasis of Sigma_x."""

    pairs: Array  # G
    variance: Array  # of each input direction
    correlation: Array  # Sigma_yx, (outputs, inputs)
    energy: Array  # <|y|^2>

    def velocity(self, state: RoutedWeights) -> RoutedWeights:
        """Minus the gradient of the loss, the mean over trained pairs."""
        share = self.pairs / jnp.sum(self.pairs)
        activity = _activity(state)
        sent, decoders = activity[-1], state.decoders
        called = jnp.einsum("ij,jch->ihc", share, decoders)
        overlap = jnp.einsum("ij,jch,jck->ihk", share, decoders, decoders)
        back = called @ self.correlation - (overlap @ sent) * self.variance  # on what arrives at the decoders
        spread = (sent * self.variance) @ jnp.swapaxes(sent, 1, 2)
        heard = jnp.einsum("ij,ihr->jhr", share, sent)
        fall = self.correlation @ jnp.swapaxes(heard, 1, 2)
        fall -= jnp.einsum("jch,ij,ihk->jck", decoders, share, spread)
        hidden = []
        for matrix, before in zip(state.hidden[::-1], activity[-2::-1], strict=True):
            hidden.append(jnp.einsum("ihr,ikr->hk", back, before))
            back = matrix.T @ back
        return RoutedWeights(back, jnp.stack(hidden[::-1]) if hidden else state.hidden, fall)

    def errors(self, state: RoutedWeights) -> Array:
        """Half the mean squared error of every pair, (input domains, output domains)."""
        sent = _activity(state)[-1]
        spread = (sent * self.variance) @ jnp.swapaxes(sent, 1, 2)
        squares = jnp.einsum("jch,ihk,jck->ij", state.decoders, spread, state.decoders)
        products = jnp.einsum("jch,ihc->ij", state.decoders, sent @ self.correlation.T)
        return 0.5 * (self.energy - 2 * products + squares)

    def record(self, state: RoutedWeights) -> RoutedErrors:
        """The errors of trained and untrained pairs."""
        errors, others = self.errors(state), 1 - self.pairs
        return RoutedErrors(
            jnp.sum(errors * self.pairs) / jnp.sum(self.pairs), jnp.sum(errors * others) / jnp.sum(others)
        )

    def modes(self, state: RoutedWeights) -> list[jax.Array]:
        """Each encoder, hidden matrix and decoder is one."""
        return [jnp.sqrt(jnp.sum(part**2, (1, 2))) for part in state]


def _activity(state: RoutedWeights) -> list[jax.Array]:
    """What each hidden layer makes of each input direction of each domain, first layer first."""
    layers = [state.encoders]
    for matrix in state.hidden:
        layers.append(matrix @ layers[-1])
    return layers


@dataclass(frozen=True, eq=False)
class RoutedFlow:
    """A routing network on M equal domains, ready to follow from any first weights.

    pairs: which are trained, (M, M). input, input_output, energy: Sigma_x, Sigma_yx and <|y|^2> of one domain.
    """

    system: RoutedSystem
    basis: np.ndarray  # (inputs, directions)
    best: float  # the least error that a linear map can have

    @classmethod
    @float64
    def of(cls, pairs: Any, input: Any, input_output: Any, energy: float) -> "RoutedFlow":
        """Check the moments and take the inputs in the eigenbasis of Sigma_x."""
        graph, spread, joint = (np.asarray(part, dtype=np.float64) for part in (pairs, input, input_output))
        _require("pairs", graph, len(graph), len(graph))
        _require("input", spread, len(spread), len(spread))
        _require("input_output", joint, len(joint), len(spread))
        if not np.isin(graph, (0.0, 1.0)).all() or not graph.any():
            raise RangeError("pairs must be booleans with at least one that is trained; give a matrix from tasks.pairs")
        total = require_number("energy", energy, above=0.0)
        values, vectors = np.linalg.eigh(spread)
        shown = values > NEVER_SHOWN * values.max()
        values, basis = values[shown], vectors[:, shown]
        correlation = joint @ basis
        best = 0.5 * (total - float(np.sum(correlation**2 / values)))
        system = RoutedSystem(graph, values, correlation, np.asarray(total))
        return cls(system, basis, max(best, 0.0))

    @float64
    def errors(self, weights: RoutedWeights) -> np.ndarray:
        """Half the mean squared error of every pair, (input domains, output domains)."""
        return np.asarray(_errors(self.system, self._enter(weights)))

    @float64
    def follow(
        self,
        first: RoutedWeights,
        end: float,
        *,
        rtol: float = 1e-6,
        max_steps: int = 100_000,
        settled: float | None = None,
    ) -> Curve:
        """The flow from the first weights to a time, or until trained pairs have only `settled` of what they can lose.

        Time is learning_rate * step for the loss that is the mean over trained pairs. The curve is of RoutedErrors, and
        its last state are weights.
        """
        start = self._enter(first)
        lost = float(record_of(self.system, start).trained) - self.best

        def learned(time: float, state: Any) -> bool:
            return float(record_of(self.system, state).trained) - self.best <= (settled or 0.0) * lost

        stop: Callable[[float, Any], bool] | None = None if settled is None else learned
        curve = integrate(self.system, start, end, rtol=rtol, max_steps=max_steps, stop=stop)
        last = RoutedWeights(*(np.asarray(part) for part in curve.last))
        return replace(curve, last=last._replace(encoders=last.encoders @ self.basis.T))

    def _enter(self, weights: RoutedWeights) -> RoutedWeights:
        count, outputs = len(self.system.pairs), len(self.system.correlation)
        encoders, hidden, decoders = (np.asarray(part, dtype=np.float64) for part in weights)
        width = encoders.shape[1] if encoders.ndim == 3 else 0
        for name, array, shape in (
            ("encoders", encoders, (count, width, len(self.basis))),
            ("hidden", hidden, (len(hidden), width, width)),
            ("decoders", decoders, (count, outputs, width)),
        ):
            if array.shape != shape:
                raise RangeError(f"{name} must have the shape {shape}; it was {array.shape}")
        return RoutedWeights(encoders @ self.basis, hidden, decoders)


def wide_weights(domains: int, gain: float, depth: int = 3) -> RoutedWeights:
    """Orthogonal first weights at infinite width, for data of one mode: nothing in them is random.

    Hidden layers may be rotated as one likes. In wide layers encoders and decoders, seen through the hidden chain, all
    have their own directions; so encoder i is gain times unit vector i, decoder j that of M + j, the hidden matrices
    gain times one. Modes of the data do not meet there and can be followed one by one.
    """
    count, layers = require_count("domains", domains), require_count("depth", depth, least=2)
    size = require_number("gain", gain, above=0.0)
    both = size * np.eye(2 * count)
    return RoutedWeights(
        both[:count, :, None], np.stack([both] * (layers - 2)) if layers > 2 else both[None][:0], both[count:, None, :]
    )


def drawn_weights(
    law: Initializer, domains: int, sizes: tuple[int, int, int], depth: int = 3, key: Any = 0
) -> RoutedWeights:
    """First weights drawn from a law by theory, whose draws are never those of a training.

    sizes: inputs and outputs of a domain with the width between them, (inputs, width, outputs).
    """
    inputs, width, outputs = (require_count("sizes", size) for size in sizes)
    chain = [f"h{layer}" for layer in range(1, require_count("depth", depth, least=2))]
    first, last = [f"x{i}" for i in range(require_count("domains", domains))], [f"y{j}" for j in range(domains)]
    nodes = dict.fromkeys(first, inputs) | dict.fromkeys(chain, width) | dict.fromkeys(last, outputs)
    edges = [*((x, "h1") for x in first), *itertools.pairwise(chain), *((chain[-1], y) for y in last)]
    network = _OnlyArchitecture(Architecture(nodes, edges))
    drawn = draw(law, network, jax.random.fold_in(as_key(key), THEORY_STREAM))
    hidden = [drawn[edge] for edge in itertools.pairwise(chain)]
    return RoutedWeights(
        np.stack([drawn[x, "h1"] for x in first]),
        np.stack(hidden) if hidden else np.zeros((0, width, width)),
        np.stack([drawn[chain[-1], y] for y in last]),
    )


class _OnlyArchitecture(NamedTuple):
    """What a law of first weights asks of a network."""

    architecture: Architecture


def _require(name: str, array: np.ndarray, rows: int, columns: int) -> None:
    if array.shape != (rows, columns) or not np.isfinite(array).all():
        raise RangeError(
            f"{name} must be a finite matrix of the shape ({rows}, {columns}); its shape was {array.shape}"
        )


@compiled
def _errors(system: RoutedSystem, state: RoutedWeights) -> Array:
    return system.errors(state)
