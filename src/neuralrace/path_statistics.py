"""The moments of the examples that each path lets through: all that a gated linear network sees of its data.

Examples with the same gates form a configuration, in which every path gate is one number. So the statistics are
sums over configurations, and two paths that are never open together have nothing to sum.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import SupportsIndex

import numpy as np

from neuralrace._engine.equal_rows import partition
from neuralrace._engine.open_edges import carrying_gates
from neuralrace.architecture import PATH_LIMIT, Architecture, Path
from neuralrace.axes import Edge, Matrix, PerExample, Weights
from neuralrace.errors import PathLimitError, UnknownNameError
from neuralrace.gates import Gates
from neuralrace.task import Task


@dataclass(frozen=True, eq=False)
class OpenPath:
    """A path with the configurations in which it is open and its gate g_p in each."""

    path: Path
    configurations: np.ndarray
    gates: np.ndarray


@dataclass(frozen=True, eq=False)
class PathStatistics:
    """Sigma_yx(p) and Sigma_x(j, p) of a problem (P1 eqs 5-6), by gate configuration."""

    architecture: Architecture
    task: Task = field(repr=False)
    gates: Gates = field(repr=False)
    limit: int = PATH_LIMIT

    @cached_property
    def edge_gates(self) -> Mapping[Edge, np.ndarray]:
        """Edge -> its folded gate in each configuration, zero where it carries nothing; (configurations,)."""
        first = np.array([members[0] for members in self._members])
        return {edge: gate[first] for edge, gate in self._carrying.items()}

    @property
    def configuration_count(self) -> int:
        """How many different sets of gates occur among the examples."""
        return len(self._members)

    @cached_property
    def configuration_weights(self) -> np.ndarray:
        """The total weight of the examples of each configuration."""
        return np.array([self.task.weights[members].sum() for members in self._members])

    @cached_property
    def target_energy(self) -> float:
        """The weighted mean of |y|^2 over all outputs; twice the loss of a silent network."""
        return sum(float(self.task.weights @ (rows**2).sum(axis=1)) for rows in self.task.targets.values())

    @cached_property
    def open_paths(self) -> Mapping[Path, OpenPath]:
        """The paths that are open for some example; the rest have no statistics."""
        return {entry.path: entry for entry in self._walk()}

    def input_output(self, path: Path) -> Matrix:
        """Sigma_yx(p) = <g_p y x^T>, eq. 5; (|t(p)|, |s(p)|)."""
        total = np.zeros((self.architecture.nodes[path.target], self.architecture.nodes[path.source]))
        entry = self._entry(path)
        if entry is not None:
            for configuration, gate in zip(entry.configurations, entry.gates, strict=True):
                total += gate * self.input_output_moment(configuration, path.target, path.source)
        return total

    def input(self, first: Path, second: Path) -> np.ndarray:
        """Sigma_x(j, p) = <g_j x x^T g_p>, eq. 6; (|s(j)|, |s(p)|)."""
        nodes = self.architecture.nodes
        total = np.zeros((nodes[first.source], nodes[second.source]))
        one, two = self._entry(first), self._entry(second)
        if one is None or two is None:
            return total
        shared, at_one, at_two = np.intersect1d(
            one.configurations, two.configurations, assume_unique=True, return_indices=True
        )
        for configuration, gate in zip(shared, one.gates[at_one] * two.gates[at_two], strict=True):
            total += gate * self.input_moment(configuration, first.source, second.source)
        return total

    def partners(self, path: Path) -> tuple[Path, ...]:
        """The paths into the same output that share an example with this one, itself among them."""
        entry = self._entry(path)
        if entry is None:
            return ()
        found = dict.fromkeys(p for c in entry.configurations for p in self._paths_of[c] if p.target == path.target)
        return tuple(found)

    def input_moment(self, configuration: SupportsIndex, first: str, second: str) -> np.ndarray:
        """<x x^T> between two input nodes over the examples of one configuration."""
        return self._moment(configuration, self.task.inputs[first], self.task.inputs[second])

    def input_output_moment(self, configuration: SupportsIndex, target: str, source: str) -> Matrix:
        """<y x^T> between an output and an input node over the examples of one configuration."""
        return self._moment(configuration, self.task.targets[target], self.task.inputs[source])

    def loss(self, weights: Weights) -> float:
        """The loss from the statistics alone: half <|y|^2>, less what the network explains."""
        loss = 0.5 * self.target_energy
        for configuration in range(self.configuration_count):
            maps = self._maps(configuration, weights)
            for node in self._outputs_in(maps):
                correlation, second = self._moments_onto(configuration, node, maps)
                loss += float(np.sum(maps[node] * (0.5 * maps[node] @ second - correlation)))
        return loss

    def gradient(self, weights: Weights) -> dict[Edge, Matrix]:
        """dL/dW_e from the statistics alone (eqs 3-4), the sum over paths taken node by node."""
        gradient = {edge: np.zeros(self.architecture.shape(edge)) for edge in self.architecture.edges}
        for configuration in range(self.configuration_count):
            maps = self._maps(configuration, weights)
            errors: dict[str, np.ndarray] = {}
            for node in self._outputs_in(maps):
                correlation, second = self._moments_onto(configuration, node, maps)
                errors[node] = correlation - maps[node] @ second  # E of eq. 4, for all paths at once
            for node in reversed(self.architecture.order):
                if node not in errors:
                    continue
                for edge in self.architecture.incoming[node]:
                    gate, source = self.edge_gates[edge][configuration], self.architecture.source(edge)
                    if gate != 0:
                        gradient[edge] -= gate * errors[node] @ maps[source].T
                        back = gate * np.asarray(weights[edge]).T @ errors[node]
                        errors[source] = errors.get(source, 0.0) + back
        return gradient

    # how the sums are taken

    @cached_property
    def _carrying(self) -> dict[Edge, PerExample]:
        return carrying_gates(self.architecture, self.task, self.gates)

    @cached_property
    def _members(self) -> list[np.ndarray]:
        """The examples of each configuration."""
        labels = partition(len(self.task), self._carrying.values())
        order = np.argsort(labels, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)

    @cached_property
    def _open_configurations(self) -> dict[Edge, np.ndarray]:
        return {edge: np.flatnonzero(gate) for edge, gate in self.edge_gates.items()}

    @cached_property
    def _paths_of(self) -> list[list[Path]]:
        paths: list[list[Path]] = [[] for _ in self._members]
        for path, entry in self.open_paths.items():
            for configuration in entry.configurations:
                paths[configuration].append(path)
        return paths

    def _entry(self, path: Path) -> OpenPath | None:
        known = all(edge in self.architecture.edges for edge in path.edges)
        if not known or path.source not in self.task.inputs or path.target not in self.task.targets:
            raise UnknownNameError(f"a path of this architecture is required; {path} is not one: see paths()")
        return self.open_paths.get(path)

    def _walk(self) -> Iterator[OpenPath]:
        """Go down all ways from the inputs, dropping one as soon as no configuration is left in it."""
        count = 0
        architecture = self.architecture

        def extend(
            node: str, edges: tuple[Edge, ...], source: str, open_in: np.ndarray, gates: np.ndarray
        ) -> Iterator[OpenPath]:
            nonlocal count
            if not architecture.outgoing[node]:
                count += 1
                if count > self.limit:
                    raise PathLimitError(
                        f"at most {self.limit:,} open paths were allowed and this problem has more "
                        f"({architecture.count_paths():,} paths in all): raise the limit, or use a method that "
                        f"enumerates none, such as the flow"
                    )
                yield OpenPath(Path(edges, source, node), open_in, gates)
            for edge in architecture.outgoing[node]:
                also, here, _ = np.intersect1d(
                    open_in, self._open_configurations[edge], assume_unique=True, return_indices=True
                )
                if len(also):
                    through = gates[here] * self.edge_gates[edge][also]
                    yield from extend(architecture.target(edge), (*edges, edge), source, also, through)

        everywhere = np.arange(self.configuration_count)
        for node in architecture.inputs:
            yield from extend(node, (), node, everywhere, np.ones(len(everywhere)))

    def _moment(self, configuration: SupportsIndex, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        members = self._members[configuration]
        moment: np.ndarray = (left[members] * self.task.weights[members, None]).T @ right[members]
        return moment

    def _maps(self, configuration: int, weights: Weights) -> dict[str, np.ndarray]:
        """The linear map from all open inputs, stacked, to each node that is active."""
        architecture = self.architecture
        sources = [
            node
            for node in architecture.inputs
            if any(self.edge_gates[e][configuration] != 0 for e in architecture.outgoing[node])
        ]
        sizes = [architecture.nodes[node] for node in sources]
        identity = np.eye(sum(sizes))
        maps = dict(zip(sources, np.split(identity, np.cumsum(sizes)[:-1]), strict=True)) if sources else {}
        for node in architecture.order:
            for edge in architecture.incoming[node]:
                gate, source = self.edge_gates[edge][configuration], architecture.source(edge)
                if gate != 0:
                    through = gate * np.asarray(weights[edge]) @ maps[source]
                    maps[node] = maps[node] + through if node in maps else through
        return maps

    def _outputs_in(self, maps: Mapping[str, np.ndarray]) -> list[str]:
        return [node for node in self.architecture.outputs if node in maps]

    def _moments_onto(
        self, configuration: int, output: str, maps: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """<y x^T> and <x x^T> over the stacked open inputs of one configuration."""
        members = self._members[configuration]
        inputs = np.hstack([self.task.inputs[n][members] for n in self.architecture.inputs if n in maps])
        weighted = inputs * self.task.weights[members, None]
        return self.task.targets[output][members].T @ weighted, inputs.T @ weighted
