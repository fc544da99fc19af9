"""The moments of the examples that each path lets through: all that a gated linear network sees of its data.

Examples with the same gates form a configuration, in which every path gate is one number. So the statistics are
sums over configurations, and two paths that are never open together have nothing to sum. No example is kept.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import SupportsIndex, TypeVar, cast

import numpy as np

from neuralrace._engine.example_rows import carrying_gates, label_rows
from neuralrace.architecture import PATH_LIMIT, Architecture, Path
from neuralrace.axes import Edge, Matrix, Weights
from neuralrace.errors import PathLimitError, UnknownNameError
from neuralrace.gates import Gates
from neuralrace.task import Task

Derived = TypeVar("Derived")


@dataclass(frozen=True, eq=False)
class OpenPath:
    """A path with the configurations in which it is open and its gate g_p in each."""

    path: Path
    configurations: np.ndarray
    gates: np.ndarray


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments of one configuration over the inputs and outputs that are open in it; sums over its examples."""

    place: Mapping[str, slice]  # open input node -> its rows among the stacked inputs
    inputs: np.ndarray  # <x x^T>, (stacked, stacked)
    outputs: Mapping[str, np.ndarray]  # open output node -> <y x^T>, (size, stacked)


@dataclass(frozen=True, eq=False)
class PathStatistics:
    """Sigma_yx(p) and Sigma_x(j, p) of a problem (P1 eqs 5-6), by gate configuration.

    edge_gates: edge -> its folded gate in each configuration, zero where it carries nothing; (configurations,).
    target_energy: the weighted mean of |y|^2 over all outputs; twice the loss of a silent network.
    """

    architecture: Architecture
    edge_gates: Mapping[Edge, np.ndarray] = field(repr=False)
    moments: tuple[Moments, ...] = field(repr=False)
    target_energy: float
    limit: int = PATH_LIMIT  # open paths that may be listed
    _derived: dict[object, object] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of_examples(
        cls, architecture: Architecture, task: Task, gates: Gates, limit: int = PATH_LIMIT
    ) -> "PathStatistics":
        """Sum the moments of the examples of a task, configuration by configuration."""
        return cls.of_open_edges(architecture, task, carrying_gates(architecture, task, gates), limit)

    @classmethod
    def of_open_edges(
        cls, architecture: Architecture, task: Task, carrying: Mapping[Edge, np.ndarray], limit: int = PATH_LIMIT
    ) -> "PathStatistics":
        """The same where it is known how far edges are open; carrying: edge -> (N,), zero where it carries nothing."""
        labels = label_rows(len(task), carrying.values())
        order = np.argsort(labels, kind="stable")
        members = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
        first = np.array([rows[0] for rows in members])
        edge_gates = {edge: gate[first] for edge, gate in carrying.items()}
        leaving = _open_nodes(architecture.inputs, architecture.outgoing, edge_gates)
        entering = _open_nodes(architecture.outputs, architecture.incoming, edge_gates)
        moments = tuple(_moments(task, *entry) for entry in zip(members, leaving, entering, strict=True))
        energy = sum(float(task.weights @ (rows**2).sum(axis=1)) for rows in task.targets.values())
        return cls(architecture, edge_gates, moments, energy, limit)

    def statistics(self) -> "PathStatistics":
        """Themselves, so that they serve where a problem is asked for its statistics."""
        return self

    def once(self, derive: Callable[["PathStatistics"], Derived]) -> Derived:
        """What a function makes of the statistics, computed when it is first asked for."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        return cast(Derived, self._derived[derive])

    @property
    def configuration_count(self) -> int:
        """How many different sets of gates occur among the examples."""
        return len(self.moments)

    @property
    def listable(self) -> bool:
        """Whether no more paths are open than may be listed."""
        return self._listed is not None

    @property
    def open_paths(self) -> Mapping[Path, OpenPath]:
        """The paths that are open for some example; the rest have no statistics."""
        if self._listed is None:
            raise PathLimitError(
                f"at most {self.limit:,} open paths were allowed and this problem has more "
                f"({self.architecture.count_paths():,} paths in all): raise the limit, or use a method that "
                f"enumerates none, such as the flow"
            )
        return self._listed

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
        here, nodes = self.moments[configuration], self.architecture.nodes
        if first not in here.place or second not in here.place:
            return np.zeros((nodes[first], nodes[second]))
        return here.inputs[here.place[first], here.place[second]]

    def input_output_moment(self, configuration: SupportsIndex, target: str, source: str) -> Matrix:
        """<y x^T> between an output and an input node over the examples of one configuration."""
        here, nodes = self.moments[configuration], self.architecture.nodes
        if target not in here.outputs or source not in here.place:
            return np.zeros((nodes[target], nodes[source]))
        return here.outputs[target][:, here.place[source]]

    def loss(self, weights: Weights) -> float:
        """The loss from the statistics alone: half <|y|^2>, less what the network explains."""
        return float(self.losses(weights))

    def losses(self, weights: Weights) -> np.ndarray:
        """The loss of many sets of weights: matrices have any leading axes, the same for all edges."""
        loss = np.asarray(0.5 * self.target_energy)
        for configuration in range(self.configuration_count):
            maps = self._maps(configuration, weights)
            here = self.moments[configuration]
            for node, correlation in here.outputs.items():
                loss = loss + np.sum(maps[node] * (0.5 * maps[node] @ here.inputs - correlation), axis=(-2, -1))
        return np.asarray(loss)

    def gradient(self, weights: Weights) -> dict[Edge, Matrix]:
        """dL/dW_e from the statistics alone (eqs 3-4), the sum over paths taken node by node."""
        gradient = {edge: np.zeros(self.architecture.shape(edge)) for edge in self.architecture.edges}
        for configuration in range(self.configuration_count):
            maps = self._maps(configuration, weights)
            here = self.moments[configuration]  # E of eq. 4, for all paths at once
            errors = {node: seen - maps[node] @ here.inputs for node, seen in here.outputs.items()}
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
    def _open_configurations(self) -> dict[Edge, np.ndarray]:
        return {edge: np.flatnonzero(gate) for edge, gate in self.edge_gates.items()}

    @cached_property
    def _paths_of(self) -> list[list[Path]]:
        paths: list[list[Path]] = [[] for _ in self.moments]
        for path, entry in self.open_paths.items():
            for configuration in entry.configurations:
                paths[configuration].append(path)
        return paths

    def _entry(self, path: Path) -> OpenPath | None:
        entry = self.open_paths.get(path)
        if entry is None:  # closed, or none of this architecture
            known = all(edge in self.architecture.edges for edge in path.edges)
            ends = path.source in self.architecture.inputs and path.target in self.architecture.outputs
            if not known or not ends:
                raise UnknownNameError(f"a path of this architecture is required; {path} is not one: see paths()")
        return entry

    @cached_property
    def _listed(self) -> Mapping[Path, OpenPath] | None:
        """The open paths, or None where there are more than the limit."""
        found: dict[Path, OpenPath] = {}
        for entry in self._walk():
            if len(found) == self.limit:
                return None
            found[entry.path] = entry
        return found

    def _walk(self) -> Iterator[OpenPath]:
        """Go down all ways from the inputs, dropping one as soon as no configuration is left in it."""
        architecture = self.architecture

        def extend(
            node: str, edges: tuple[Edge, ...], source: str, open_in: np.ndarray, gates: np.ndarray
        ) -> Iterator[OpenPath]:
            if not architecture.outgoing[node]:
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

    def _maps(self, configuration: int, weights: Weights) -> dict[str, np.ndarray]:
        """The linear map from all open inputs, stacked, to each node that is active."""
        architecture, here = self.architecture, self.moments[configuration]
        identity = np.eye(len(here.inputs))
        maps = {node: identity[rows] for node, rows in here.place.items()}
        for node in architecture.order:
            for edge in architecture.incoming[node]:
                gate, source = self.edge_gates[edge][configuration], architecture.source(edge)
                if gate != 0:
                    through = gate * np.asarray(weights[edge])
                    if source not in here.place or len(here.place) > 1:  # else the product with the identity
                        through = through @ maps[source]
                    maps[node] = maps[node] + through if node in maps else through
        return maps


def _open_nodes(
    names: tuple[str, ...], edges: Mapping[str, tuple[Edge, ...]], edge_gates: Mapping[Edge, np.ndarray]
) -> list[list[str]]:
    """For each configuration the nodes of which some edge is open."""
    table = np.array([np.any([edge_gates[edge] != 0 for edge in edges[node]], axis=0) for node in names])
    found: list[list[str]] = [[] for _ in range(table.shape[1])]
    for configuration, node in zip(*(axis.tolist() for axis in np.nonzero(table.T)), strict=True):
        found[configuration].append(names[node])
    return found


def _moments(task: Task, members: np.ndarray, inputs: list[str], outputs: list[str]) -> Moments:
    """Sum over the examples of one configuration."""
    weights, place, width = task.weights[members], {}, 0
    for node in inputs:
        place[node] = slice(width, width := width + task.inputs[node].shape[1])
    rows = [task.inputs[node][members] for node in inputs]
    stacked = rows[0] if len(rows) == 1 else np.hstack([np.zeros((len(members), 0)), *rows])
    weighted = stacked * weights[:, None]
    correlations = {node: task.targets[node][members].T @ weighted for node in outputs}
    return Moments(place, weighted.T @ stacked, correlations)
