"""The method `aligned`: every path in its own singular vectors (P2 appendix F), with diagonal or whole strengths.

Where paths into one output have different singular vectors, Sigma_yx(p) = U_p S_p V_p^T, each path keeps its own
modes and

    dB_e/dt = B_rest [ S_p - sum_j (U_p^T U_j) B_j (V_j^T Sigma_x(j, p) V_p) ].

With diagonal strengths only the diagonal of the bracket is followed: a reduced system. With whole matrices it is the
exact flow of the aligned part of the weights. For two-layer paths it is smaller than the flow over nodes: a velocity is
four products.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import map_on_devices
from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.statistics import UNSEEN, PathStatistics
from neuralrace.theory.alignment import Alignment
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.evolution import Evolution, matrix_evolution
from neuralrace.theory.flow.linear import own_vectors
from neuralrace.theory.flow.method import start_flow
from neuralrace.theory.integration.solution import KEPT_UNKNOWNS, Solution
from neuralrace.theory.integration.system import System
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.reduction.method import SMALL, modes_at_rest, plainly_turning, reduced_outcome, reduced_system
from neuralrace.theory.reduction.system import ReducedSystem
from neuralrace.theory.reduction.terms import RANK, path_modes

Layers = tuple[jax.Array, jax.Array]  # A (paths, modes, inputs) and B (paths, modes, outputs): W_1 and W_2 transposed


@dataclass(frozen=True, repr=False)
class Aligned(Method[ReducedSystem]):
    """Every path in its own modes, for paths that share no edge and no hidden node.

    diagonal: follow one strength per mode, which assumes that modes do not mix, or whole matrices. small: tolerance of
    what holds in the limit of small initial weights.
    """

    name: ClassVar[str] = "aligned"
    diagonal: bool = True
    small: float = SMALL

    @property
    def way(self) -> str:
        """The label of this variant: one strength per mode, or whole matrices."""
        return "one strength per mode" if self.diagonal else "whole matrices"

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], ReducedSystem | None]:
        """Check that paths share nothing and that weights are aligned to their modes."""
        rows, system = reduced_system(request, self.small, own=True, force=self.force)
        if system is None or (self.diagonal and self.force):
            return rows, system
        if self.diagonal:
            return (*rows, *plainly_turning(request, system.starts, self.small)), system
        return (*rows[:-1], replace(rows[-1], needed=False)), system  # whole matrices may overlap

    def solve(self, request: Request, prepared: ReducedSystem) -> Outcome:
        """Solve the reduced system in the paths' own modes, or the flow of the aligned part of the weights."""
        if self.diagonal:
            return reduced_outcome(request, prepared)
        modes = path_modes(request.statistics, own=True)
        quick = request.descent is None and all(len(path.edges) == 2 for path in modes)
        follow = _follow_paths if quick else _follow_nodes
        losses, draws = zip(*map_on_devices(partial(follow, request), prepared.starts), strict=True)
        largest = max(
            (float(one.reach.max(initial=0.0)) ** (1 / len(path.edges)) for path, one in modes.items()), default=0
        )
        row = modes_at_rest(request, prepared, largest or 1.0)
        note = "whole matrices are followed in each path's own modes"
        return Outcome(np.array(losses), draws, tuple(modes), (row,), notes=(note,))


def _follow_nodes(request: Request, start: Alignment) -> tuple[np.ndarray, Evolution]:
    flow = start_flow(request, start.weights(start.matrices))
    vectors = partial(own_vectors, request.statistics)
    return flow.losses(request.times), matrix_evolution(flow.weights_at, request.architecture, vectors)


class PathSystem(System):
    """Velocity, loss and mode strengths of all two-layer paths at once."""

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
        # the diagonal of U_p^T W_p V_p, V_p being the first coordinates of the inputs
        strengths = jnp.sum((state[1] @ self.output) * state[0][:, :, : self.output.shape[2]], axis=1)
        return -0.5 * jnp.sum(self._pull(gap) * gap), strengths

    def modes(self, state: Layers) -> list[jax.Array]:
        """Sizes of the modes of each path and layer."""
        return [jnp.sqrt(jnp.stack([jnp.sum(layer**2, 2) for layer in state]))]  # (2, paths, modes)

    def _gap(self, state: Layers) -> jax.Array:
        """The maps less the best ones, transposed; (paths, inputs, outputs)."""
        return _product(jnp.swapaxes(state[0], 1, 2), state[1]) - self.best

    def _pull(self, gap: jax.Array) -> jax.Array:
        """E, the input-output correlation that remains to be learned, transposed; (paths, inputs, outputs)."""
        return (self.against @ gap.reshape(len(self.against), -1)).reshape(gap.shape)


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    """Multiply many small matrices; written out, this compiles to one loop and not to a library call for each."""
    count = left.shape[2]
    if count > 16:
        return left @ right
    return sum((left[:, :, k, None] * right[:, k, None, :] for k in range(count)), start=jnp.zeros(()))


def _coordinates(
    statistics: PathStatistics,
) -> tuple[PathSystem, dict[Path, np.ndarray], dict[str, np.ndarray], float]:
    """The system of a problem; orthonormal bases of each path's input, its modes first, and of each output; and the
    part of the loss that no weight can change.
    """
    modes = path_modes(statistics, own=True)
    inputs, outputs = {}, {}
    for path, own in modes.items():
        values, vectors = np.linalg.eigh(statistics.input(path, path))
        shown = vectors[:, values > UNSEEN * values[-1]]
        inside = shown.T @ own.input
        rest = np.linalg.svd(inside)[0][:, inside.shape[1] :]
        inputs[path] = shown @ np.concatenate([inside, rest], axis=1)
    for node in dict.fromkeys(path.target for path in modes):
        columns = np.hstack([own.output for path, own in modes.items() if path.target == node])
        left, values, _ = np.linalg.svd(columns, full_matrices=False)
        outputs[node] = left[:, values > RANK * values[0]]
    count = len(modes)
    rank = max((len(own.strengths) for own in modes.values()), default=0)
    wide = max((basis.shape[1] for basis in inputs.values()), default=0)
    high = max((basis.shape[1] for basis in outputs.values()), default=0)
    left, drive, second = np.zeros((count, high, rank)), np.zeros((count, wide, high)), np.zeros((count, wide) * 2)
    number = {path: i for i, path in enumerate(modes)}
    for i, (path, own) in enumerate(modes.items()):
        u = outputs[path.target].T @ own.output
        left[i, : u.shape[0], : u.shape[1]] = u
        drive[i, : u.shape[1], : u.shape[0]] = (u * own.strengths).T
        for partner in statistics.partners(path):
            block = inputs[partner].T @ statistics.input(partner, path) @ inputs[path]
            second[number[partner], : block.shape[0], i, : block.shape[1]] = block
    flat, wanted = second.reshape(count * wide, -1), drive.reshape(-1, high)
    best = np.linalg.lstsq(flat.T, wanted, rcond=1e-12)[0]
    least = 0.5 * (statistics.target_energy - float(np.sum(best * wanted)))
    system = PathSystem(*jax.device_put((-flat, best.reshape(count, wide, high), left)))
    return system, inputs, outputs, (least if least > 1e-14 * statistics.target_energy else 0.0)


def _follow_paths(request: Request, start: Alignment) -> tuple[np.ndarray, Evolution]:
    """The flow of two-layer paths, whose strengths are recorded on the way."""
    modes = path_modes(request.statistics, own=True)
    system, inputs, outputs, constant = request.statistics.once(_coordinates)
    matrices, output = start.matrices, np.asarray(system.output)
    rank = output.shape[2]
    first, last = np.zeros((len(modes), rank, system.best.shape[1])), np.zeros((len(modes), rank, rank))
    for i, path in enumerate(modes):
        entering, leaving = (matrices[edge] for edge in path.edges)
        first[i, : len(entering), : len(entering)] = entering
        last[i, : len(leaving), : len(leaving)] = leaving.T
    state = jax.device_put((first, last @ np.swapaxes(output, 1, 2)))
    kept = KEPT_UNKNOWNS if request.check is not False else 0  # the check needs weights
    solution = Solution(system, state, request.rtol, request.max_steps, kept)

    def weights_at(times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
        for first, last in solution.states(times):
            weights = {edge: np.zeros((len(target), len(source))) for edge, (target, source) in start.ends.items()}
            for i, path in enumerate(modes):
                source, target, basis = inputs[path], outputs[path.target], start.ends[path.edges[0]][0]
                entering, leaving = (np.asarray(layer[i])[: basis.shape[1]] for layer in (first, last))
                weights[path.edges[0]] = basis @ entering[:, : source.shape[1]] @ source.T
                weights[path.edges[1]] = target @ leaving[:, : target.shape[1]].T @ basis.T
            yield weights

    losses, values = solution.at(request.times)

    def strengths(paths: Sequence[Path], times: np.ndarray) -> list[np.ndarray]:
        places, found = list(modes), values if times is request.times else solution.at(times)[1]
        return [found[:, places.index(path), : len(modes[path].strengths)] for path in paths]

    vectors = partial(own_vectors, request.statistics)
    return losses + constant, matrix_evolution(weights_at, request.architecture, vectors, strengths)
