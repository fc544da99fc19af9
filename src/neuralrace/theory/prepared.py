"""What a forecast needs of a problem before it looks at any weights, computed when it is first asked for."""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neuralrace.architecture import Path
from neuralrace.axes import Edge
from neuralrace.path_statistics import PathStatistics
from neuralrace.problem import Problem
from neuralrace.shared_bases import SharedBases, shared_bases
from neuralrace.theory.aligned.own_modes import OwnModes, aligned_table, own_modes
from neuralrace.theory.aligned.path_flow import PathFactory
from neuralrace.theory.flow.matrix_flow import FlowFactory
from neuralrace.theory.reduction.path_table import PathTable, check_listable, path_table


@dataclass(frozen=True, eq=False)
class Prepared:
    """The statistics of a problem and what the methods derive from them."""

    statistics: PathStatistics

    @cached_property
    def bases(self) -> SharedBases:
        """The shared bases; needs the paths to be enumerable."""
        check_listable(self.statistics)
        return shared_bases(self.statistics)

    @cached_property
    def table(self) -> PathTable:
        """S(p) and D(j, p) in the shared bases."""
        return path_table(self.statistics, self.bases)

    @cached_property
    def flow(self) -> FlowFactory:
        """The moments of the matrix flow."""
        return FlowFactory(self.statistics)

    @cached_property
    def own(self) -> dict[Path, OwnModes]:
        """Every path's own singular vectors."""
        check_listable(self.statistics)
        return own_modes(self.statistics)

    @cached_property
    def own_table(self) -> PathTable:
        """The couplings between the paths' own modes."""
        return aligned_table(self.statistics, self.own)

    @cached_property
    def own_flow(self) -> PathFactory:
        """The flow of two-layer paths in their own modes."""
        return PathFactory(self.statistics, self.flow.bases, self.own)

    def initial_output(self, weights: Sequence[Mapping[Edge, np.ndarray]]) -> float:
        """How far the loss at the start is from that of output zero, relative to the larger; the worst draw."""
        silent = 0.5 * self.statistics.target_energy
        losses = [self.statistics.loss(one) for one in weights]
        return max(abs(loss - silent) / max(loss, silent, np.finfo(float).tiny) for loss in losses)


class _Network:
    """The side of a problem that initialisers see, with statistics that are computed once."""

    def __init__(self, prepared: Prepared) -> None:
        self.architecture = prepared.statistics.architecture
        self._prepared = prepared

    def statistics(self) -> PathStatistics:
        """The problem's statistics."""
        return self._prepared.statistics


_known: "weakref.WeakKeyDictionary[Problem, Prepared]" = weakref.WeakKeyDictionary()


def prepare(problem: Problem | PathStatistics) -> Prepared:
    """The prepared problem; made once for each problem that is alive."""
    if isinstance(problem, PathStatistics):
        return Prepared(problem)
    if problem not in _known:
        _known[problem] = Prepared(problem.statistics())
    return _known[problem]


def as_network(prepared: Prepared) -> _Network:
    """What an initialiser is called with."""
    return _Network(prepared)
