"""The moments of the examples that each path lets through: all that a gated linear network sees of its data.

Examples with the same gates form a configuration, in which every path gate is one number. So the statistics are
sums over configurations, and two paths that are never open together have nothing to sum. No example is kept.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar, TypeVarTuple, cast

import numpy as np

from neuralrace._engine.example_rows import carrying_gates, label_rows
from neuralrace._engine.network import Network, as_numpy, compiled_gradient
from neuralrace._engine.plan import make_network
from neuralrace._engine.subspace import Bases
from neuralrace.architecture import PATH_LIMIT, Architecture, Path, check_weights
from neuralrace.arrays import float64
from neuralrace.axes import Edge, Matrix, Weights
from neuralrace.errors import RangeError, UnknownNameError
from neuralrace.gates import Gates
from neuralrace.task import Task

Derived = TypeVar("Derived")
Given = TypeVarTuple("Given")

UNSEEN = 1e-13  # relative variance below which no example shows an input direction


class Moments(NamedTuple):
    """The moments of one configuration over the inputs and outputs that are open in it; sums over its examples."""

    place: Mapping[str, slice]  # open input node -> its rows among the stacked inputs
    inputs: np.ndarray  # <x x^T>, (stacked, stacked)
    outputs: Mapping[str, np.ndarray]  # open output node -> <y x^T>, (size, stacked)


@dataclass(frozen=True, eq=False)
class PathStatistics:
    """Sigma_yx(p) and Sigma_x(j, p) of a problem (P1 eqs 5-6), by gate configuration.

    edge_gates: edge -> its folded gate in each configuration, zero where it carries nothing; (configurations,).
    target_energy: the weighted mean of |y|^2 over all outputs; twice the loss at zero output.
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
        carrying = carrying_gates(architecture, task, gates)
        labels = label_rows(len(task), carrying.values())
        order = np.argsort(labels, kind="stable")
        members = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
        edge_gates = {edge: gate[[rows[0] for rows in members]] for edge, gate in carrying.items()}
        nodes = {
            side: [(n, np.any([edge_gates[e] != 0 for e in edges[n]], axis=0)) for n in names]
            for side, names, edges in (
                ("inputs", architecture.inputs, architecture.outgoing),
                ("outputs", architecture.outputs, architecture.incoming),
            )
        }
        moments = []
        for c, chosen in enumerate(members):
            inputs, outputs = ([node for node, is_open in nodes[side] if is_open[c]] for side in ("inputs", "outputs"))
            ends = np.cumsum([0, *(architecture.nodes[node] for node in inputs)]).tolist()
            place = {node: slice(*ends[i : i + 2]) for i, node in enumerate(inputs)}
            stacked = np.hstack([np.zeros((len(chosen), 0)), *(task.inputs[node][chosen] for node in inputs)])
            weighted = stacked * task.weights[chosen, None]
            correlations = {node: task.targets[node][chosen].T @ weighted for node in outputs}
            moments.append(Moments(place, weighted.T @ stacked, correlations))
        energy = sum(float(task.weights @ (rows**2).sum(axis=1)) for rows in task.targets.values())
        return cls(architecture, edge_gates, tuple(moments), energy, limit)

    def statistics(self) -> "PathStatistics":
        """Return itself, so that statistics work wherever a problem does."""
        return self

    def once(self, derive: Callable[["PathStatistics", *Given], Derived], *given: *Given) -> Derived:
        """Return `derive(self, *given)`, computed on the first call only."""
        if (derive, given) not in self._derived:
            self._derived[derive, given] = derive(self, *given)
        return cast(Derived, self._derived[derive, given])

    @property
    def configuration_count(self) -> int:
        """The number of different sets of gates among the examples."""
        return len(self.moments)

    @property
    def listable(self) -> bool:
        """Whether the number of open paths is within `limit`."""
        return self._listed is not None

    @property
    def open_paths(self) -> Mapping[Path, tuple[np.ndarray, np.ndarray]]:
        """The paths that are open for some example, with the configurations where they are and g_p in each."""
        if self._listed is None:
            raise RangeError(
                f"at most {self.limit:,} open paths were allowed and this problem has more "
                f"({self.architecture.count_paths():,} paths in all): raise the limit, or use a method that "
                f"enumerates none, such as the flow"
            )
        return self._listed

    def input_output(self, path: Path) -> Matrix:
        """Sigma_yx(p) = <g_p y x^T>, eq. 5; (|t(p)|, |s(p)|)."""
        total = np.zeros((self.architecture.nodes[path.target], self.architecture.nodes[path.source]))
        for c, gate in zip(*self._open(path), strict=True):
            here = self.moments[c]
            if path.target in here.outputs and path.source in here.place:
                total += gate * here.outputs[path.target][:, here.place[path.source]]
        return total

    def input(self, first: Path, second: Path) -> np.ndarray:
        """Sigma_x(j, p) = <g_j x x^T g_p>, eq. 6; (|s(j)|, |s(p)|)."""
        total = np.zeros((self.architecture.nodes[first.source], self.architecture.nodes[second.source]))
        (one, its_gates), (two, other_gates) = self._open(first), self._open(second)
        shared, at_one, at_two = np.intersect1d(one, two, assume_unique=True, return_indices=True)
        for c, gate in zip(shared, its_gates[at_one] * other_gates[at_two], strict=True):
            here = self.moments[c]
            if first.source in here.place and second.source in here.place:
                total += gate * here.inputs[here.place[first.source], here.place[second.source]]
        return total

    def partners(self, path: Path) -> tuple[Path, ...]:
        """The paths into the same output that share an example with this one, itself among them."""
        chosen = (p for c in self._open(path)[0] for p in self._paths_of[c] if p.target == path.target)
        return tuple(dict.fromkeys(chosen))

    def loss(self, weights: Weights) -> float:
        """The loss from the moments alone: half <|y|^2>, less the part that the network explains."""
        loss, matrices = 0.5 * self.target_energy, self.architecture.matrices(weights)
        for c, here in enumerate(self.moments):
            maps: dict[str, np.ndarray] = {}  # the linear map from all open inputs, stacked, to each active node
            for node in self.architecture.order:
                if node in here.place:
                    maps[node] = np.eye(len(here.inputs))[here.place[node]]
                for edge in self.architecture.incoming[node]:
                    gate, source = self.edge_gates[edge][c], self.architecture.source(edge)
                    if gate != 0:
                        through = np.asarray(matrices[edge]) if gate == 1 else gate * np.asarray(matrices[edge])
                        if source not in here.place or len(here.place) > 1:  # else the product with the identity
                            through = through @ maps[source]
                        maps[node] = maps[node] + through if node in maps else through
            for node, correlation in here.outputs.items():
                loss += float(np.sum(maps[node] * (0.5 * maps[node] @ here.inputs - correlation)))
        return loss

    @float64
    def gradient(self, weights: Weights) -> dict[Edge, np.ndarray]:
        """dL/dW_e of every parameter from the moments alone (eqs 3-4), on rows that have these moments."""
        network, _ = self.once(PathStatistics.network)
        gradient = compiled_gradient(network, network.stack(check_weights(self.architecture, weights)))
        by_edge = network.unstack(as_numpy(gradient))
        return {edge: by_edge[edge] for edge in self.architecture.parameters}

    def network(self, bases: Bases | None = None) -> tuple[Network, float]:
        """Plan the forward pass on few rows with the same moments, as good as the examples.

        bases: node -> orthonormal columns, in which its neurons and data are written. Also returns the part of the
        loss that no weights can change, which the network leaves out so that the rest keeps its digits.
        """
        inputs, targets, gates, constant = self.once(_rows)
        bases, nodes = bases or {}, dict(self.architecture.nodes)
        nodes |= {node: basis.shape[1] for node, basis in bases.items()}
        task = Task(
            {node: rows @ bases[node] if node in bases else rows for node, rows in inputs.items()},
            {node: rows @ bases[node] if node in bases else rows for node, rows in targets.items()},
        )
        network = make_network(self.architecture.resized(nodes), task, Gates(edges=gates))
        constant += float(network.constant_loss)
        network = replace(network, constant_loss=np.zeros(()))
        return network, constant if constant > 1e-14 * self.target_energy else 0.0

    @cached_property
    def _paths_of(self) -> list[list[Path]]:
        paths: list[list[Path]] = [[] for _ in self.moments]
        for path, (configurations, _) in self.open_paths.items():
            for c in configurations:
                paths[c].append(path)
        return paths

    def _open(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        if path in self.open_paths:
            return self.open_paths[path]
        known = all(edge in self.architecture.edges for edge in path.edges)
        if not known or path.source not in self.architecture.inputs or path.target not in self.architecture.outputs:
            raise UnknownNameError(f"a path of this architecture is required; {path} is not one: see paths()")
        return np.zeros(0, dtype=int), np.zeros(0)

    @cached_property
    def _listed(self) -> Mapping[Path, tuple[np.ndarray, np.ndarray]] | None:
        """The open paths, or None where there are more than the limit."""
        architecture = self.architecture
        open_in = {edge: np.flatnonzero(gate) for edge, gate in self.edge_gates.items()}

        def extend(
            node: str, edges: tuple[Edge, ...], source: str, configurations: np.ndarray, gates: np.ndarray
        ) -> Iterator[tuple[Path, tuple[np.ndarray, np.ndarray]]]:
            if not architecture.outgoing[node]:
                yield Path(edges, source, node), (configurations, gates)
            for edge in architecture.outgoing[node]:
                both, here, _ = np.intersect1d(configurations, open_in[edge], assume_unique=True, return_indices=True)
                if len(both):  # a partial path that is closed in every configuration is dropped at once
                    through = gates[here] * self.edge_gates[edge][both]
                    yield from extend(architecture.target(edge), (*edges, edge), source, both, through)

        everywhere = np.arange(self.configuration_count)
        found: dict[Path, tuple[np.ndarray, np.ndarray]] = {}
        for node in architecture.inputs:
            for path, entry in extend(node, (), node, everywhere, np.ones(len(everywhere))):
                if len(found) == self.limit:
                    return None
                found[path] = entry
        return found


def _rows(statistics: PathStatistics) -> tuple[Bases, Bases, dict[Edge, np.ndarray], float]:
    """Inputs, targets and edge gates of rows with the moments of every configuration, and the loss they leave out.

    With Sigma_x = L L^T and Sigma_yx = Y L^T the rows of (L^T, Y^T) have these moments, so that the loss is
    half |W L - Y|^2 plus a constant.
    """
    architecture, nodes = statistics.architecture, statistics.architecture.nodes
    parts: dict[str, list[np.ndarray]] = {node: [] for node in (*architecture.inputs, *architecture.outputs)}
    counts, explained = [], 0.0
    for here in statistics.moments:
        values, vectors = np.linalg.eigh(here.inputs)
        shown = values > UNSEEN * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
        scale, vectors = np.sqrt(values[shown]), vectors[:, shown]
        counts.append(len(scale))
        seen = {node: (vectors[rows] * scale).T for node, rows in here.place.items()}
        seen |= {node: (vectors / scale).T @ moment.T for node, moment in here.outputs.items()}
        explained += sum(float(np.sum(seen[node] ** 2)) for node in here.outputs)
        for node, rows in parts.items():
            rows.append(seen.get(node, np.zeros((len(scale), nodes[node]))))
    if not any(counts):  # no example shows anything: keep one row of zeros
        counts, parts = [1] + [0] * len(counts[1:]), {node: [np.zeros((1, nodes[node]))] for node in parts}
    of_row = np.repeat(np.arange(len(counts)), counts)
    gates = {edge: gate[of_row] for edge, gate in statistics.edge_gates.items()}
    root = np.sqrt(len(of_row))  # a task divides its loss by the number of rows
    rows_of = {node: root * np.vstack(rows) for node, rows in parts.items()}
    inputs, targets = ({n: rows_of[n] for n in side} for side in (architecture.inputs, architecture.outputs))
    return inputs, targets, gates, 0.5 * (statistics.target_energy - explained)


@dataclass(frozen=True)
class SharedBases:
    """One orthogonal basis per input and output node in which all statistics are nearly diagonal (P1 eqs 7-8).

    Sigma_yx(p) = U_t(p) S(p) V_s(p)^T and Sigma_x(j, p) = V_s(j) D(j, p) V_s(p)^T. outputs: U; inputs: V; columns are
    modes. residuals: statistic -> relative size of its off-diagonal part.
    """

    outputs: Mapping[str, np.ndarray]
    inputs: Mapping[str, np.ndarray]
    residuals: Mapping[str, float]

    @property
    def worst(self) -> tuple[str, float]:
        """The statistic that is farthest from diagonal."""
        return max(self.residuals.items(), key=lambda item: item[1], default=("none", 0.0))


def shared_bases(statistics: PathStatistics) -> SharedBases:
    """The bases that come nearest to making every statistic diagonal; computed once for each set of statistics."""
    return statistics.once(_find_bases)


def _find_bases(statistics: PathStatistics) -> SharedBases:
    """Find the bases, strongest mode first.

    A random combination of all statistics is one symmetric matrix over all input and output nodes. If shared bases
    exist, any function of it is diagonal in them between any two nodes, and a generic one separates all modes
    that some statistic separates. Modes that no statistic separates may be rotated freely, but equally at all
    nodes: so they are chosen at one node and carried to the others. Modes of parts that do not interact
    are numbered by strength, so that equal numbers meet in the hidden nodes.
    """
    architecture, random = statistics.architecture, np.random.default_rng(0)
    ends = (*architecture.outputs, *architecture.inputs)
    starts = np.cumsum([0, *(architecture.nodes[node] for node in ends)]).tolist()
    place = {node: slice(*starts[i : i + 2]) for i, node in enumerate(ends)}
    combined = np.zeros((starts[-1], starts[-1]))
    for path in statistics.open_paths:
        pairs = [(path.target, path.source, statistics.input_output(path))]
        pairs += [(other.source, path.source, statistics.input(other, path)) for other in statistics.partners(path)]
        for row, column, statistic in pairs:
            weighted = random.uniform(0.5, 1.5) * statistic
            combined[place[row], place[column]] += weighted
            combined[place[column], place[row]] += weighted.T
    values, vectors = np.linalg.eigh(combined)
    scale = max(float(np.abs(values).max(initial=0.0)), np.finfo(float).tiny)
    link = (vectors * np.expm1(values / scale)) @ vectors.T

    def strength(mode: Mapping[str, np.ndarray]) -> float:
        pairs = ((a, b) for a in mode for b in mode if place[a].start < place[b].start)
        return rounded(float(sum(abs(mode[a] @ combined[place[a], place[b]] @ mode[b]) for a, b in pairs)))

    found: dict[str, dict[int, np.ndarray]] = {node: {} for node in place}
    for modes in _components(link, place):
        for mode in sorted(modes, key=strength, reverse=True):
            taken = {number for node in mode for number in found[node]}
            number = next(i for i in range(len(taken) + 1) if i not in taken)
            for node, vector in mode.items():
                found[node][number] = vector
    count = 1 + max(max(columns, default=-1) for columns in found.values())
    bases = {node: np.zeros((architecture.nodes[node], count)) for node in found}
    for node, columns in found.items():
        for number, vector in columns.items():
            bases[node][:, number] = vector

    for group in architecture.united if architecture.weights else ():
        first = next((bases[node] for node in group if node in bases), None)
        bases |= {node: first for node in group if node in bases and first is not None}

    def off_diagonal(matrix: np.ndarray, left: np.ndarray, right: np.ndarray) -> float:
        size = float(np.linalg.norm(matrix))
        diagonal = np.einsum("am,ab,bm->m", left, matrix, right)
        return float(np.linalg.norm(matrix - (left * diagonal) @ right.T)) / size if size > 0 else 0.0

    residuals = {}
    for path in statistics.open_paths:
        source = bases[path.source]
        residuals[f"Sigma_yx({path})"] = off_diagonal(statistics.input_output(path), bases[path.target], source)
        for other in statistics.partners(path):
            moment = statistics.input(other, path)
            residuals[f"Sigma_x({other}, {path})"] = off_diagonal(moment, bases[other.source], source)
    outputs, inputs = ({node: bases[node] for node in side} for side in (architecture.outputs, architecture.inputs))
    return SharedBases(outputs, inputs, residuals)


def rounded(value: float) -> float:
    """Round to nine digits, so that rounding errors do not decide an order."""
    return float(f"{value:.8e}")


def untied(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The rotation of vectors with equal singular values to a basis that is the same on every machine.

    This basis diagonalizes a fixed weight of the coordinates.
    """
    rotation = np.eye(len(values))
    ties = np.flatnonzero(np.abs(np.diff(values)) > 1e-9 * np.abs(values).max(initial=0.0)) + 1
    for group in np.split(np.arange(len(values)), ties):
        columns = vectors[:, group]
        place = np.sqrt(np.arange(len(columns)))[:, None]  # no two pairs of coordinates have the same mean
        rotation[np.ix_(group, group)] = np.linalg.eigh(columns.T @ (place * columns))[1]
    return rotation


def _components(link: np.ndarray, place: Mapping[str, slice]) -> list[list[dict[str, np.ndarray]]]:
    """Find modes as one unit vector per node; each round starts at the node where most remains to be explained."""
    taken = {node: np.zeros((rows.stop - rows.start,) * 2) for node, rows in place.items()}  # directions of modes
    counts = dict.fromkeys(place, 0)
    tolerance = 1e-10 * max(float(np.abs(link).max(initial=0.0)), np.finfo(float).tiny)
    components: list[list[dict[str, np.ndarray]]] = []

    def left(node: str, image: np.ndarray) -> np.ndarray:
        known = taken[node][:, : counts[node]]
        return np.asarray(image - known @ (known.T @ image))

    def unit(node: str, image: np.ndarray) -> np.ndarray:
        """Normalize the projected image, projected again: rounding in a small image is large in its direction."""
        again = left(node, image / np.linalg.norm(image))
        return np.asarray(again / np.linalg.norm(again))

    while True:
        own = {node: left(node, left(node, link[rows, rows]).T) for node, rows in place.items()}
        root = max(own, key=lambda node: rounded(float(np.linalg.norm(own[node]))))  # the first of equal ones
        values, vectors = np.linalg.eigh(own[root])
        if not (np.abs(values) > tolerance).any():
            return components
        modes, vectors = [], vectors @ untied(values, vectors)
        # the strongest first: from node to node its part in the rounding of weaker ones would grow
        for k in np.argsort([-rounded(abs(value)) for value in values], kind="stable"):
            if abs(values[k]) <= tolerance:
                break
            start = vectors[:, k]
            mode = {root: unit(root, start * np.sign(start[np.argmax(np.abs(start))]))}
            images, reached = {node: np.zeros(0) for node in place}, [root]
            while reached:  # from node to node: in a direct image at a distant one most is rounding
                whole = sum(link[:, place[node]] @ vector for node, vector in mode.items())
                ahead = [node for node in place if node not in mode]
                for node in ahead:
                    images[node] = max(images[node], left(node, whole[place[node]]), key=np.linalg.norm)
                sizes = {node: float(np.linalg.norm(images[node])) for node in ahead}
                least = max(0.01 * max(sizes.values(), default=0.0), tolerance)
                reached = [node for node in ahead if sizes[node] > least]
                mode |= {node: unit(node, images[node]) for node in reached}
            for node, vector in mode.items():  # at once, so that a node never gives one direction to two modes
                taken[node][:, counts[node]] = vector
                counts[node] += 1
            modes.append(mode)
        components.append(modes)
