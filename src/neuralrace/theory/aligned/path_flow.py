"""Two-layer paths with hidden nodes of their own, as whole matrices in each path's modes (P1 eqs 3-4 as they stand).

Few paths make this smaller than the flow over nodes: a velocity is four products.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.statistics import PathStatistics
from neuralrace.theory.aligned.own_modes import RANK, own_modes
from neuralrace.theory.alignment import Alignment
from neuralrace.theory.integration.integrate import KEPT_UNKNOWNS, Solution
from neuralrace.theory.integration.system import System

Layers = tuple[jax.Array, jax.Array]  # A (paths, modes, inputs) and B (paths, modes, outputs): W_1 and W_2 transposed
WRITTEN_OUT = 16  # longest sum that is written out term by term
SHOWN = 1e-13  # relative variance of an input direction that some example shows


class PathSystem(System):
    """Velocity, loss and mode strengths of all paths at once."""

    against: jax.Array  # minus Sigma_x(j, p), (paths * inputs, paths * inputs)
    best: jax.Array  # the maps of least loss, transposed, (paths, inputs, outputs)
    output: jax.Array  # U_p, (paths, outputs, modes)

    def velocity(self, state: Layers) -> Layers:
        """dA/dt = B E^T, dB/dt = A E."""
        first, last = state
        error = self._pull(self._gap(state))
        return last @ jnp.swapaxes(error, 1, 2), _product(first, error)

    def record(self, state: Layers) -> tuple[jax.Array, jax.Array]:
        """The loss above its least value and the strength of each path's modes."""
        gap = self._gap(state)
        return -0.5 * jnp.sum(self._pull(gap) * gap), self._strengths(*state)

    def rate(self, state: Layers, velocity: Layers) -> tuple[jax.Array, jax.Array]:
        """The derivative in time of the record."""
        (first, last), (first_rate, last_rate) = state, velocity
        drop = jnp.sum(first_rate**2) + jnp.sum(last_rate**2)
        return -drop, self._strengths(first_rate, last) + self._strengths(first, last_rate)

    def modes(self, state: Layers) -> list[jax.Array]:
        """Those of each path, in each layer."""
        return [jnp.sqrt(jnp.stack([jnp.sum(layer**2, 2) for layer in state]))]  # (2, paths, modes)

    def _gap(self, state: Layers) -> jax.Array:
        """The maps less the best ones, transposed; (paths, inputs, outputs)."""
        return _product(jnp.swapaxes(state[0], 1, 2), state[1]) - self.best

    def _pull(self, gap: jax.Array) -> jax.Array:
        """E, the input-output correlation that is left to learn, transposed; (paths, inputs, outputs)."""
        return (self.against @ gap.reshape(len(self.against), -1)).reshape(gap.shape)

    def _strengths(self, first: jax.Array, last: jax.Array) -> jax.Array:
        """The diagonal of U_p^T W_p V_p, V_p being the first coordinates of the inputs; (paths, modes)."""
        return jnp.sum((last @ self.output) * first[:, :, : self.output.shape[2]], axis=1)


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    """Products of many small matrices: written out they are one loop, where each would be a call of its own."""
    count = left.shape[2]
    if count > WRITTEN_OUT:
        return left @ right
    return sum((left[:, :, k, None] * right[:, k, None, :] for k in range(count)), start=jnp.zeros(()))


@dataclass(frozen=True, eq=False)
class PathFlow:
    """The flow of the aligned part of the weights of two-layer paths."""

    factory: "PathFactory"
    start: Alignment
    followed: Solution

    def losses(self, times: np.ndarray) -> np.ndarray:
        """The loss at increasing times."""
        return np.asarray(self.followed.at(times)[0]) + self.factory.constant

    def strengths(self, paths: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
        """The strengths of some paths' modes, (times, modes) each."""
        places, found = list(self.factory.modes), self.followed.at(times)[1]
        return [found[:, places.index(path), : len(self.factory.modes[path].strengths)] for path in paths]

    def weights_at(self, times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
        """The weights at increasing times, one set after the other."""
        return (self._matrices(np.asarray(first), np.asarray(last)) for first, last in self.followed.states(times))

    def _matrices(self, first: np.ndarray, last: np.ndarray) -> dict[Edge, np.ndarray]:
        weights = {edge: np.zeros((len(target), len(source))) for edge, (target, source) in self.start.ends.items()}
        for i, path in enumerate(self.factory.modes):
            source, target = self.factory.inputs[path], self.factory.outputs[path.target]
            basis = self.start.ends[path.edges[0]][0]
            modes = basis.shape[1]
            weights[path.edges[0]] = basis @ first[i][:modes, : source.shape[1]] @ source.T
            weights[path.edges[1]] = target @ last[i][:modes, : target.shape[1]].T @ basis.T
        return weights


class PathFactory:
    """What of the flow of two-layer paths depends on the problem and not on the weights.

    outputs: coordinates of the output nodes. inputs: those of each path's input, its own modes first.
    """

    def __init__(self, statistics: PathStatistics) -> None:
        modes = self.modes = statistics.once(own_modes)
        self.outputs = {
            node: _spanned([own.output for path, own in modes.items() if path.target == node])
            for node in dict.fromkeys(path.target for path in modes)
        }
        self.inputs = {path: _own_first(statistics.input(path, path), own.input) for path, own in modes.items()}
        paths = tuple(modes)
        rank = max((len(own.strengths) for own in modes.values()), default=0)
        wide = max((basis.shape[1] for basis in self.inputs.values()), default=0)
        high = max((self.outputs[path.target].shape[1] for path in paths), default=0)
        left, drive = np.zeros((len(paths), high, rank)), np.zeros((high, len(paths), wide))
        second = np.zeros((len(paths), wide, len(paths), wide))
        number = {path: i for i, path in enumerate(paths)}
        for i, (path, own) in enumerate(modes.items()):
            u = self.outputs[path.target].T @ own.output
            left[i, : u.shape[0], : u.shape[1]] = u
            drive[: u.shape[0], i, : u.shape[1]] = u * own.strengths
            for partner in statistics.partners(path):
                block = self.inputs[partner].T @ statistics.input(partner, path) @ self.inputs[path]
                second[number[partner], : block.shape[0], i, : block.shape[1]] = block
        flat = second.reshape(len(paths) * wide, -1)
        wanted = drive.reshape(high, -1).T
        best = np.linalg.lstsq(flat.T, wanted, rcond=1e-12)[0]
        least = 0.5 * (statistics.target_energy - float(np.sum(best * wanted)))
        self.constant = least if least > 1e-14 * statistics.target_energy else 0.0
        best = best.reshape(len(paths), wide, high)
        self.against, self.best, self.output = jax.device_put((-flat, best, left))

    def start(self, start: Alignment, rtol: float, max_steps: int, keep: bool) -> PathFlow:
        """The flow of paths from a start in their own modes; keep: their weights, from the first."""
        rank, output = self.output.shape[2], np.asarray(self.output)
        first, last = np.zeros((len(self.modes), rank, self.best.shape[1])), np.zeros((len(self.modes), rank, rank))
        matrices = start.matrices
        for i, path in enumerate(self.modes):
            entering, leaving = (matrices[edge] for edge in path.edges)
            first[i, : len(entering), : len(entering)] = entering
            last[i, : len(leaving), : len(leaving)] = leaving.T
        last = last @ np.swapaxes(output, 1, 2)
        system, always = PathSystem(self.against, self.best, self.output), KEPT_UNKNOWNS if keep else 0
        return PathFlow(self, start, Solution(system, jax.device_put((first, last)), rtol, max_steps, always))


def _spanned(columns: list[np.ndarray]) -> np.ndarray:
    """An orthonormal basis of what some columns span."""
    left, values, _ = np.linalg.svd(np.hstack(columns), full_matrices=False)
    return left[:, values > RANK * values[0]]


def _own_first(second: np.ndarray, modes: np.ndarray) -> np.ndarray:
    """A basis of what the examples of a path show, from their second moment, that starts with its modes."""
    values, vectors = np.linalg.eigh(second)
    shown = vectors[:, values > SHOWN * values[-1]]
    inside = shown.T @ modes
    rest = np.linalg.svd(inside)[0][:, inside.shape[1] :]
    return shown @ np.concatenate([inside, rest], axis=1)
