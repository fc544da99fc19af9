"""Two-layer paths with hidden nodes of their own, as whole matrices in each path's modes (P1 eqs 3-4 as they stand).

Few paths make this smaller than the flow over nodes: a velocity is four products.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.architecture import Architecture, Path
from neuralrace.statistics import PathStatistics
from neuralrace.theory.aligned import OwnModes
from neuralrace.theory.coordinates import DataBases
from neuralrace.theory.flow import BATCH
from neuralrace.theory.integrate import integrate
from neuralrace.types import Edge

State = tuple[jax.Array, jax.Array]  # A (paths, modes, inputs) and B (paths, outputs, modes): W_1 and W_2
NOISE = 4e-16


class PathField(eqx.Module):
    """Velocity, loss and mode strengths of all paths at once."""

    unrolled: ClassVar[bool] = True
    second: jax.Array  # Sigma_x(j, p), (paths * inputs, paths * inputs)
    best: jax.Array  # the maps of least loss, (outputs, paths * inputs)
    output: jax.Array  # U_p, (paths, outputs, modes)
    input: jax.Array  # V_p, (paths, inputs, modes)
    atol: jax.Array
    keep: bool = eqx.field(static=True, default=False)

    def velocity(self, state: State) -> State:
        """dA/dt = B^T E, dB/dt = E A^T."""
        first, last = state
        paths = first.shape[0]
        error = jnp.stack(jnp.split(-(self._gap(state) @ self.second), paths, axis=1))
        return jnp.swapaxes(last, 1, 2) @ error, error @ jnp.swapaxes(first, 1, 2)

    def record(self, state: State) -> State | tuple[jax.Array, jax.Array]:
        """The loss above its least value and the strength of each path's modes, or the weights."""
        if self.keep:
            return state
        gap = self._gap(state)
        return 0.5 * jnp.sum((gap @ self.second) * gap), self._strengths(*state)

    def rate(self, state: State, velocity: State) -> State | tuple[jax.Array, jax.Array]:
        """The derivative in time of the record."""
        if self.keep:
            return velocity
        (first, last), (first_rate, last_rate) = state, velocity
        drop = jnp.sum(first_rate**2) + jnp.sum(last_rate**2)
        return -drop, self._strengths(first_rate, last) + self._strengths(first, last_rate)

    def error(self, error: State, before: State, after: State, rtol: jax.Array) -> jax.Array:
        """The largest error of a mode of a path relative to what is allowed."""
        worst = jnp.zeros(())
        largest = jnp.maximum(jnp.max(jnp.abs(before[0]), initial=0.0), jnp.max(jnp.abs(before[1]), initial=0.0))
        allowed = self.atol + NOISE * largest
        for e, y0, y1, axis in zip(error, before, after, (2, 1), strict=True):
            size = jnp.sqrt(jnp.maximum(jnp.sum(y0**2, axis), jnp.sum(y1**2, axis)))
            worst = jnp.maximum(worst, jnp.max(jnp.sqrt(jnp.sum(e**2, axis)) / (rtol * size + allowed), initial=0.0))
        return worst

    def _gap(self, state: State) -> jax.Array:
        maps = state[1] @ state[0]
        return jnp.concatenate(list(maps), axis=1) - self.best

    def _strengths(self, first: jax.Array, last: jax.Array) -> jax.Array:
        """The diagonal of U_p^T W_p V_p; (paths, modes)."""
        return jnp.sum((jnp.swapaxes(self.output, 1, 2) @ last) * jnp.swapaxes(first @ self.input, 1, 2), axis=-1)


@dataclass(frozen=True, eq=False)
class PathFlow:
    """The flow of the aligned part of the weights of two-layer paths."""

    system: PathField
    start: State
    constant: float
    paths: tuple[Path, ...]
    inputs: Mapping[str, np.ndarray]  # coordinates of the input nodes
    outputs: Mapping[str, np.ndarray]  # coordinates of the output nodes
    hidden: Mapping[str, np.ndarray]
    architecture: Architecture
    _memory: dict[bytes, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)

    def solve(self, times: np.ndarray, *, rtol: float, max_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """The loss (times,) and the mode strengths (times, paths, modes)."""
        key = times.tobytes()
        if key not in self._memory:
            curve = integrate(self.system, self.start, float(times[-1]), rtol=rtol, max_steps=max_steps)
            excess, strengths = curve.at(times)
            self._memory.clear()
            self._memory[key] = (excess + self.constant, strengths)
        return self._memory[key]

    def weights_at(self, times: np.ndarray, *, rtol: float, max_steps: int) -> Iterator[dict[Edge, np.ndarray]]:
        """The weights at increasing times, one set after the other."""
        f = self.system
        keeping = PathField(f.second, f.best, f.output, f.input, f.atol, keep=True)
        end = float(times[-1]) if len(times) else 0.0
        curve = integrate(keeping, self.start, end, rtol=rtol, max_steps=max_steps)
        for batch in np.array_split(times, len(times) // BATCH + 1):
            first, last = curve.at(batch)
            yield from (self._matrices(first[i], last[i]) for i in range(len(batch)))

    def _matrices(self, first: np.ndarray, last: np.ndarray) -> dict[Edge, np.ndarray]:
        weights = {edge: np.zeros(self.architecture.shape(edge)) for edge in self.architecture.edges}
        for i, path in enumerate(self.paths):
            node = self.architecture.target(path.edges[0])
            basis, source, target = self.hidden[node], self.inputs[path.source], self.outputs[path.target]
            modes = basis.shape[1]
            weights[path.edges[0]] = basis @ first[i][:modes, : source.shape[1]] @ source.T
            weights[path.edges[1]] = target @ last[i][: target.shape[1], :modes] @ basis.T
        return weights


def make_path_flow(
    statistics: PathStatistics,
    bases: DataBases,
    modes: Mapping[Path, OwnModes],
    hidden: Mapping[str, np.ndarray],
    strengths: Mapping[Edge, np.ndarray],
    atol: float,
) -> PathFlow:
    """Set up the flow of two-layer paths that start decoupled in their own modes."""
    paths = tuple(modes)
    inputs, outputs = bases.inputs, bases.used
    rank = max((len(own.strengths) for own in modes.values()), default=0)
    wide = max((inputs[path.source].shape[1] for path in paths), default=0)
    high = max((outputs[path.target].shape[1] for path in paths), default=0)
    first, last = np.zeros((len(paths), rank, wide)), np.zeros((len(paths), high, rank))
    left, right = np.zeros((len(paths), high, rank)), np.zeros((len(paths), wide, rank))
    drive = np.zeros((high, len(paths), wide))
    second = np.zeros((len(paths), wide, len(paths), wide))
    number = {path: i for i, path in enumerate(paths)}
    for i, (path, own) in enumerate(modes.items()):
        u, v = outputs[path.target].T @ own.output, inputs[path.source].T @ own.input
        left[i, : u.shape[0], : u.shape[1]], right[i, : v.shape[0], : v.shape[1]] = u, v
        first[i, : v.shape[1], : v.shape[0]] = strengths[path.edges[0]][:, None] * v.T
        last[i, : u.shape[0], : u.shape[1]] = u * strengths[path.edges[1]]
        drive[: u.shape[0], i, : v.shape[0]] = (u * own.strengths) @ v.T
        for partner in statistics.partners(path):
            block = inputs[partner.source].T @ statistics.input(partner, path) @ inputs[path.source]
            second[number[partner], : block.shape[0], i, : block.shape[1]] = block
    flat = second.reshape(len(paths) * wide, -1)
    wanted = drive.reshape(high, -1)
    best = np.linalg.lstsq(flat.T, wanted.T, rcond=1e-12)[0].T
    least = 0.5 * (statistics.target_energy - float(np.sum(best * wanted)))
    system = PathField(
        second=jnp.asarray(flat),
        best=jnp.asarray(best),
        output=jnp.asarray(left),
        input=jnp.asarray(right),
        atol=jnp.asarray(max(atol, 1e-290)),
    )
    constant = least if least > 1e-14 * statistics.target_energy else 0.0
    begin = (jnp.asarray(first), jnp.asarray(last))
    return PathFlow(system, begin, constant, paths, inputs, outputs, hidden, statistics.architecture)
