"""The weights of a forecast over time, whatever method they come from."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from neuralrace.architecture import Architecture, Path
from neuralrace.axes import Edge
from neuralrace.theory.aligned.own_modes import OwnModes, aligned_weights
from neuralrace.theory.alignment import decoupled_weights
from neuralrace.theory.reduction.system import Reduction

MatricesAt = Callable[[np.ndarray], Iterator[dict[Edge, np.ndarray]]]


class Evolution(Protocol):
    """Weights and mode strengths of one draw at any times."""

    @property
    def architecture(self) -> Architecture:
        """The graph that the weights belong to."""

    def weights(self, times: np.ndarray, draw: int) -> list[dict[Edge, np.ndarray]]:
        """The weight matrices at increasing times."""

    def edge(self, edge: Edge, times: np.ndarray, draw: int) -> np.ndarray:
        """The strengths of an edge's modes; (times, modes)."""

    def path(self, path: Path, times: np.ndarray, draw: int) -> np.ndarray:
        """The strengths of a path's modes; (times, modes)."""


@dataclass(frozen=True, eq=False)
class ReducedEvolution:
    """Strengths of the reduced system, turned into weights by fixed bases.

    states: times -> (times, draws, variables). bases: for each draw, node -> R_v. own: set where every path has
    modes of its own.
    """

    architecture: Architecture
    reduction: Reduction
    states: Callable[[np.ndarray], np.ndarray]
    bases: tuple[Mapping[str, np.ndarray], ...]
    own: Mapping[Path, OwnModes] | None = None

    def weights(self, times: np.ndarray, draw: int) -> list[dict[Edge, np.ndarray]]:
        """W_e = R_t B_e R_s^T."""
        strengths = self._strengths(times, draw)
        found = []
        for i in range(len(times)):
            here = {edge: values[i] for edge, values in strengths.items()}
            if self.own is not None:
                found.append(aligned_weights(self.own, self.architecture, self.bases[draw], here))
            else:
                found.append(decoupled_weights(self.architecture, self.bases[draw], here))
        return found

    def edge(self, edge: Edge, times: np.ndarray, draw: int) -> np.ndarray:
        """The strengths of an edge's modes."""
        return self._strengths(times, draw)[edge]

    def path(self, path: Path, times: np.ndarray, draw: int) -> np.ndarray:
        """The product of the strengths along a path."""
        strengths = self._strengths(times, draw)
        return np.prod([strengths[edge] for edge in path.edges], axis=0)

    def _strengths(self, times: np.ndarray, draw: int) -> dict[Edge, np.ndarray]:
        return {e: values[:, draw] for e, values in self.reduction.spread_out(self.states(times)).items()}


@dataclass(frozen=True, eq=False)
class MatrixEvolution:
    """Whole weight matrices; modes are read off in given bases.

    matrices: times -> weights, one set after the other. modes: path -> its output and input vectors. strengths: where
    the method has them at hand, (path, times) -> (times, modes).
    """

    architecture: Architecture
    matrices: MatricesAt
    modes: Callable[[Path], tuple[np.ndarray, np.ndarray]]
    strengths: Callable[[Path, np.ndarray], np.ndarray] | None = None

    def weights(self, times: np.ndarray, draw: int) -> list[dict[Edge, np.ndarray]]:
        """The weight matrices."""
        return list(self.matrices(times))

    def edge(self, edge: Edge, times: np.ndarray, draw: int) -> np.ndarray:
        """The singular values of an edge's matrix."""
        return np.array([np.linalg.svd(w[edge], compute_uv=False) for w in self.matrices(times)])

    def path(self, path: Path, times: np.ndarray, draw: int) -> np.ndarray:
        """The diagonal of U^T W_p V."""
        if self.strengths is not None:
            return self.strengths(path, times)
        output, source = self.modes(path)
        found = []
        for weights in self.matrices(times):
            product = source
            for edge in path.edges:
                product = weights[edge] @ product
            found.append(np.sum(output * product, axis=0))
        return np.array(found)


@dataclass(frozen=True, eq=False)
class HandedOver:
    """The exact flow up to a time, the reduction from there on."""

    before: MatrixEvolution
    after: ReducedEvolution
    time: float

    @property
    def architecture(self) -> Architecture:
        """The graph that the weights belong to."""
        return self.after.architecture

    def weights(self, times: np.ndarray, draw: int) -> list[dict[Edge, np.ndarray]]:
        """The weight matrices."""
        early = times < self.time
        return self.before.weights(times[early], draw) + self.after.weights(times[~early] - self.time, draw)

    def edge(self, edge: Edge, times: np.ndarray, draw: int) -> np.ndarray:
        """The diagonal of R_t^T W_e R_s in the bases of the hand-over."""
        source, target = self.after.architecture.edges[edge]
        bases = self.after.bases[draw]
        return self._joined(
            times,
            lambda t: np.array(
                [np.sum(bases[target] * (w[edge] @ bases[source]), axis=0) for w in self.before.weights(t, draw)]
            ),
            lambda t: self.after.edge(edge, t, draw),
        )

    def path(self, path: Path, times: np.ndarray, draw: int) -> np.ndarray:
        """The diagonal of U^T W_p V."""
        return self._joined(times, lambda t: self.before.path(path, t, draw), lambda t: self.after.path(path, t, draw))

    def _joined(
        self,
        times: np.ndarray,
        early: Callable[[np.ndarray], np.ndarray],
        late: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        first = times < self.time
        parts = []
        if first.any():
            parts.append(early(times[first]))
        if (~first).any():
            parts.append(late(times[~first] - self.time))
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class PerDraw:
    """Draws that each have an evolution of their own."""

    draws: tuple[Evolution, ...]

    @property
    def architecture(self) -> Architecture:
        """The graph that the weights belong to."""
        return self.draws[0].architecture

    def weights(self, times: np.ndarray, draw: int) -> list[dict[Edge, np.ndarray]]:
        """The weight matrices."""
        return self.draws[draw].weights(times, 0)

    def edge(self, edge: Edge, times: np.ndarray, draw: int) -> np.ndarray:
        """The strengths of an edge's modes."""
        return self.draws[draw].edge(edge, times, 0)

    def path(self, path: Path, times: np.ndarray, draw: int) -> np.ndarray:
        """The strengths of a path's modes."""
        return self.draws[draw].path(path, times, 0)
