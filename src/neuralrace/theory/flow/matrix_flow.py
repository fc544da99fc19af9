"""The exact matrix flow of P1 eqs 3-4, and gradient descent, from the statistics of a problem alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.path_statistics import PathStatistics
from neuralrace.theory.flow.equation import Blocks, BlockStacks, Group, batched_states, group_map, multiply
from neuralrace.theory.flow.moments import (
    NodeBases,
    collect_moments,
    data_bases,
    node_bases,
)
from neuralrace.theory.integration.integrate import Followed
from neuralrace.theory.integration.system import System, record_of, velocity_of

NEGLIGIBLE = 0.1  # of the tolerance, for what is left out
CUTS = ((2,), (1,), (1, 2))  # what is summed over in one mode: each row is one, or each column, or the whole matrix


class FlowSystem(System):
    """Loss and velocity -dL/dW of all weight matrices, from moments alone.

    The error is relative for every mode at the inputs and at the outputs: into an output rows are modes, from an input
    columns, and between hidden nodes the whole is one; where each row is measured against itself, so is the whole.
    """

    groups: tuple[Group, ...]
    given: dict[int, jax.Array]  # maps that are there from the start, by table
    masks: tuple[tuple[jax.Array | None, ...], ...]  # per block and cut: 1 for the edges that are cut so, None for none

    def record(self, state: BlockStacks) -> jax.Array:
        """The loss above what no weight can change."""
        maps = dict(self.given)
        total = jnp.zeros(())
        for group in self.groups:
            found = group_map(group, state, maps)
            if group.root is not None and group.target is not None:
                error = multiply(found, group.root) - group.target
                total = total + 0.5 * jnp.sum(error**2)
            maps[group.table] = jnp.concatenate([maps[group.table], found]) if group.table in maps else found
        return total

    def rate(self, state: BlockStacks, velocity: BlockStacks) -> jax.Array:
        """dL/dt = -|dW/dt|^2."""
        return -sum((jnp.sum(v**2) for v in velocity), start=jnp.zeros(()))

    def velocity(self, state: BlockStacks) -> BlockStacks:
        """dW/dt = -dL/dW."""
        return jax.tree.map(jnp.negative, jax.grad(self.record)(state))

    def modes(self, state: BlockStacks) -> list[jax.Array]:
        """Rows, columns and whole matrices."""
        found = []
        for stack, masks in zip(state, self.masks, strict=True):
            for axes, mask in zip(CUTS, masks, strict=True):
                if mask is not None:
                    size = jnp.sqrt(jnp.sum(stack**2, axes))
                    found.append(size * mask.reshape((-1,) + (1,) * (size.ndim - 1)))
        return found


@dataclass(frozen=True, eq=False)
class MatrixFlow:
    """The flow, or descent, that starts at given weights; followed: its excess loss and its stacks at any times."""

    followed: Followed
    blocks: Blocks
    bases: NodeBases
    constant: float  # the part of the loss that no weight can change

    @property
    def start(self) -> BlockStacks:
        """The first weights in the bases of the nodes."""
        return cast(BlockStacks, self.followed.start)

    def weights_at(self, times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
        """The weights at increasing times, one set after the other."""
        return map(self.matrices, self.followed.states(times))

    def losses(self, times: np.ndarray) -> np.ndarray:
        """The loss at increasing times."""
        return np.asarray(self.followed.at(times)) + self.constant

    def velocity(self, state: BlockStacks) -> BlockStacks:
        """dW/dt in the bases of the nodes."""
        found: BlockStacks = velocity_of(self.followed.system, state)
        return found

    def excess(self, state: BlockStacks) -> float:
        """The loss above its constant part."""
        return float(record_of(self.followed.system, state))

    def matrices(self, state: BlockStacks) -> dict[Edge, np.ndarray]:
        """A state of the flow as weight matrices between neurons."""
        return self.bases.leave(self.blocks.unstack(state))


class FlowFactory:
    """What of the flow depends on the problem and not on the weights."""

    def __init__(self, statistics: PathStatistics) -> None:
        self.statistics = statistics
        self.bases = data_bases(statistics)
        self._moments = collect_moments(statistics)
        self._systems: dict[Any, tuple[FlowSystem, Blocks]] = {}

    def start(
        self,
        weights: Mapping[Edge, np.ndarray],
        end: float,
        rtol: float,
        max_steps: int = 0,
        descent: float | None = None,
    ) -> MatrixFlow:
        """The flow from these weights, good for a relative accuracy up to a time, or descent in steps of a width."""
        architecture = self.statistics.architecture
        inputs = self.bases.inputs
        outputs = self.bases.outputs(architecture, weights, NEGLIGIBLE * rtol / max(end, np.finfo(float).tiny))
        bases = node_bases(self.statistics, weights, inputs, outputs)
        sizes = tuple(bases.sizes.items())
        if sizes not in self._systems:  # the bases of an output are told apart by their sizes
            groups, given, blocks = batched_states(architecture, self._moments, bases.sizes, inputs, outputs)
            self._systems[sizes] = FlowSystem(groups, given, _masks(architecture, blocks)), blocks
        system, blocks = self._systems[sizes]
        stacks = blocks.stack(bases.enter(weights))
        return MatrixFlow(
            Followed(system, stacks, rtol, max_steps, descent=descent), blocks, bases, self._moments.constant
        )


def _masks(architecture: Architecture, blocks: Blocks) -> tuple[tuple[jax.Array | None, ...], ...]:
    found = []
    for edges in blocks.edges:
        ends = [architecture.edges[edge] for edge in edges]
        rows = np.array([target in architecture.outputs for _, target in ends], dtype=float)
        columns = np.array([source in architecture.inputs for source, _ in ends], dtype=float)
        masks = (rows, columns, (1 - rows) * (1 - columns))
        found.append(tuple(jax.device_put(mask) if mask.any() else None for mask in masks))
    return tuple(found)
