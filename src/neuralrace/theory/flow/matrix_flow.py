"""The exact matrix flow of P1 eqs 3-4, and gradient descent, from the statistics of a problem alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from neuralrace.axes import Edge
from neuralrace.path_statistics import PathStatistics
from neuralrace.theory.flow.equation import Blocks, FlowSystem, Stacks, make_system
from neuralrace.theory.flow.moments import (
    NodeBases,
    collect_moments,
    data_bases,
    node_bases,
)
from neuralrace.theory.integration.integrate import Followed
from neuralrace.theory.integration.system import record_of, velocity_of

NEGLIGIBLE = 0.1  # of the tolerance, for what is left out


@dataclass(frozen=True, eq=False)
class MatrixFlow:
    """The flow, or descent, that starts at given weights; followed: its excess loss and its stacks at any times."""

    followed: Followed
    blocks: Blocks
    bases: NodeBases
    constant: float  # the part of the loss that no weight can change

    @property
    def start(self) -> Stacks:
        """The first weights in the bases of the nodes."""
        return cast(Stacks, self.followed.start)

    def weights_at(self, times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
        """The weights at increasing times, one set after the other."""
        return map(self.matrices, self.followed.states(times))

    def losses(self, times: np.ndarray) -> np.ndarray:
        """The loss at increasing times."""
        return np.asarray(self.followed.at(times)) + self.constant

    def velocity(self, state: Stacks) -> Stacks:
        """dW/dt in the bases of the nodes."""
        found: Stacks = velocity_of(self.followed.system, state)
        return found

    def excess(self, state: Stacks) -> float:
        """The loss above its constant part."""
        return float(record_of(self.followed.system, state))

    def matrices(self, state: Stacks) -> dict[Edge, np.ndarray]:
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
            self._systems[sizes] = make_system(architecture, self._moments, bases.sizes, inputs, outputs)
        system, blocks = self._systems[sizes]
        stacks = blocks.stack(bases.enter(weights))
        return MatrixFlow(
            Followed(system, stacks, rtol, max_steps, descent=descent), blocks, bases, self._moments.constant
        )
