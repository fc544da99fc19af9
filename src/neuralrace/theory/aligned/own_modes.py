"""Paths with singular vectors of their own: the reduction with couplings between modes (P2 appendix F).

Where paths into one output have different singular vectors, Sigma_yx(p) = U_p S_p V_p^T, each path keeps its own
modes and

    dB_e/dt = B_rest [ S_p - sum_j (U_p^T U_j) B_j (V_j^T Sigma_x(j, p) V_p) ].

With diagonal strengths only the diagonal of the bracket is followed. Without, the whole matrices are: that is the exact
flow of the aligned part of the weights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neuralrace.architecture import Architecture, Path, edge_name
from neuralrace.axes import Edge
from neuralrace.statistics import PathStatistics, SharedBases
from neuralrace.theory.alignment import Alignment, align, growing_at_node
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.reduction.path_table import PathTable

RANK = 1e-10  # relative size of a singular value that still counts
ALIGNED = 1e-8  # relative misfit of weights that are aligned to rounding


@dataclass(frozen=True, eq=False)
class OwnModes:
    """The singular value decomposition of one path's input-output correlation."""

    path: Path
    output: np.ndarray  # U_p
    strengths: np.ndarray  # S_p
    input: np.ndarray  # V_p
    variances: np.ndarray  # diagonal of V_p^T Sigma_x(p, p) V_p
    alone: Architecture  # the path and nothing else

    def bases(self) -> SharedBases:
        """Its singular vectors as the bases of its two ends."""
        return SharedBases({self.path.target: self.output}, {self.path.source: self.input}, {})

    def learned_alone(self, strengths: Mapping[Edge, np.ndarray], time: float) -> np.ndarray:
        """The product of two layers at a time, were there no other path and both of equal strength; (modes,).

        It is `exact.TwoLayer` in numpy, so that a look before solving has nothing to compile.
        """
        first, last = self.path.edges
        reach, begun = self.strengths / self.variances, np.abs(strengths[first] * strengths[last])
        left = (reach - begun) * np.exp(-2 * self.strengths * time)
        return np.asarray(reach * begun / np.maximum(begun + left, np.finfo(float).tiny))

    def learned(self, strengths: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """The strengths of each edge once the path has learned alone: all squares grow by the same amount."""
        first = np.array([strengths[edge] for edge in self.path.edges])
        reach = self.strengths / self.variances
        low, high = np.zeros_like(reach), reach ** (2 / len(first))
        for _ in range(60):  # bisection, to rounding
            middle = 0.5 * (low + high)
            short = np.prod(first**2 + middle, axis=0) < reach**2
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        grown = np.copysign(np.sqrt(first**2 + low), first)
        return dict(zip(self.path.edges, grown, strict=True))


def paths_apart(statistics: PathStatistics) -> tuple[Assumption, ...]:
    """That no two open paths share an edge or a hidden node, and that each has a correlation to align to."""
    users: dict[object, Path] = {}
    shared, where = 0, "no edge or node is shared"
    for path in statistics.open_paths:
        inner = [statistics.architecture.target(edge) for edge in path.edges[:-1]]
        for thing in (*path.edges, *inner):
            other = users.setdefault(thing, path)
            if other != path:
                name = f"edge {edge_name(thing)}" if thing in path.edges else f"node {thing!r}"
                where = where if shared else f"{name} is on both {other} and {path}"
                shared += 1
    silent = [path for path in statistics.open_paths if not np.any(statistics.input_output(path))]
    found = f"that of path {silent[0]} is zero" if silent else "every path"
    return (
        Assumption("paths that share nothing", shared, 0.0, where),
        Assumption("a correlation on every path", len(silent), 0.0, found),
    )


def own_modes(statistics: PathStatistics) -> dict[Path, OwnModes]:
    """Decompose the correlation of every open path."""
    found = {}
    for path in statistics.open_paths:
        left, values, right = np.linalg.svd(statistics.input_output(path), full_matrices=False)
        kept = values > RANK * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
        source = right[kept].T
        variances = np.diagonal(source.T @ statistics.input(path, path) @ source)
        found[path] = OwnModes(path, left[:, kept], values[kept], source, variances, _alone(statistics, path))
    return found


def _alone(statistics: PathStatistics, path: Path) -> Architecture:
    whole = statistics.architecture
    names = [path.source, *(whole.target(edge) for edge in path.edges)]
    named = {edge: whole.edges[edge] for edge in path.edges if isinstance(edge, str)}
    return Architecture({name: whole.nodes[name] for name in names}, named or [whole.edges[e] for e in path.edges])


def own_table(statistics: PathStatistics) -> PathTable:
    """The couplings of all pairs of modes, written so that every (path, mode) is a path of its own."""
    modes = statistics.once(own_modes)
    labels = [(edge, m) for path, own in modes.items() for edge in path.edges for m in range(len(own.strengths))]
    number = {label: i for i, label in enumerate(labels)}
    first_row, rows = {}, 0
    for path, own in modes.items():
        first_row[path] = rows
        rows += len(own.strengths)
    longest = max((len(path.edges) for path in modes), default=1)
    route = np.full((rows, longest), -1)
    first, second, values = [], [], []
    for path, own in modes.items():
        for m in range(len(own.strengths)):
            route[first_row[path] + m, : len(path.edges)] = [number[edge, m] for edge in path.edges]
        for partner in statistics.partners(path):
            coupling = couplings(statistics, own, modes[partner])
            for m, n in np.argwhere(coupling != 0):
                first.append(first_row[partner] + n)
                second.append(first_row[path] + m)
                values.append(coupling[m, n])
    strengths = np.concatenate([own.strengths for own in modes.values()]) if modes else np.zeros(0)
    return PathTable(
        edges=tuple(edge for edge, _ in labels),
        first_mode=np.array([mode for _, mode in labels], dtype=int),
        paths=tuple(path for path, own in modes.items() for _ in own.strengths),
        route=route,
        strengths=strengths[:, None],
        first=np.array(first, dtype=int),
        second=np.array(second, dtype=int),
        variances=np.array(values, dtype=float)[:, None],
        target_energy=statistics.target_energy,
    )


def couplings(statistics: PathStatistics, own: OwnModes, partner: OwnModes) -> np.ndarray:
    """How mode n of path j acts on mode m of path p: (U_p^T U_j)_mn (V_j^T Sigma_x(j, p) V_p)_nm."""
    outputs = own.output.T @ partner.output
    inputs = partner.input.T @ statistics.input(partner.path, own.path) @ own.input
    return np.asarray(outputs * inputs.T)


def own_start(modes: Mapping[Path, OwnModes], weights: Mapping[Edge, np.ndarray]) -> Alignment:
    """The strengths of every path's own modes, in bases of its nodes, and how far the weights are from aligned.

    Two-layer paths: aligned to rounding, or the growing part. Deeper ones: the diagonal in nearest bases.
    """
    strengths: dict[Edge, np.ndarray] = {}
    ends = {edge: (np.zeros((len(matrix), 0)), np.zeros((matrix.shape[1], 0))) for edge, matrix in weights.items()}
    whole: dict[Edge, np.ndarray] = {}
    grown: dict[Edge, np.ndarray] = {}
    residual, where, entangled = 0.0, "no path", 0.0
    for path, own in modes.items():
        shallow = len(path.edges) == 2
        entering, leaving = weights[path.edges[0]] @ own.input, weights[path.edges[-1]].T @ own.output
        found = None if shallow and _entangled(entering, leaving) else align(own.alone, weights, own.bases())
        if found is None or (shallow and found.residual > ALIGNED):
            found = _growing(own, entering, leaving)
        residual, where = max((residual, where), (found.residual, f"path {path}"))
        strengths |= found.strengths
        ends |= found.ends
        whole |= found.whole
        grown |= found.grown or own.learned(found.strengths)
        entangled += found.entangled
    return Alignment(ends, strengths, residual, where, whole, grown, entangled)


class Turning(NamedTuple):
    """What would turn a path's modes, by the strength of every mode of its partners: into each other and out of them.

    written, read: U_p^T U_j and V_j^T Sigma_x(j, p) V_p of all partners j, (own, partners') and (partners', own).
    outputs, inputs: what is outside of its modes at either end, as columns and as rows.
    """

    partners: tuple[Path, ...]
    written: np.ndarray
    read: np.ndarray
    outputs: np.ndarray
    inputs: np.ndarray

    def force(self, products: Mapping[Path, np.ndarray]) -> float:
        """The largest that comes about; products: the strengths of modes, (moments, modes) of each path."""
        strengths = np.concatenate([products[partner] for partner in self.partners], axis=1)[:, None, :]
        written = self.written * strengths
        within, index = written @ self.read, np.arange(len(self.written))
        within[:, index, index] = 0.0
        forces = (within, written @ self.inputs, (self.outputs * strengths) @ self.read)
        return float(np.sqrt(sum((force**2).sum(axis=(1, 2)) for force in forces).max(initial=0.0)))


def turnings(statistics: PathStatistics) -> dict[Path, Turning]:
    """Of every path; out of its modes there is something where there are more inputs or outputs than modes."""
    found, modes = {}, statistics.once(own_modes)
    for path, own in modes.items():
        partners = tuple(statistics.partners(path))
        outputs = np.hstack([modes[partner].output for partner in partners])
        inputs = np.hstack([statistics.input(path, partner) @ modes[partner].input for partner in partners])
        beyond = _outside(outputs, own.output), _outside(inputs, own.input).T
        found[path] = Turning(partners, own.output.T @ outputs, (own.input.T @ inputs).T, *beyond)
    return found


def off_diagonal(statistics: PathStatistics, products: Mapping[Path, np.ndarray]) -> tuple[float, str]:
    """The largest force that would turn a path's modes, relative to S_p; products: (moments, modes)."""
    worst, where, modes = 0.0, "every path", statistics.once(own_modes)
    for path, turning in statistics.once(turnings).items():
        size = max(float(np.linalg.norm(modes[path].strengths)), np.finfo(float).tiny)
        relative = turning.force(products) / size
        if relative > worst:
            worst, where = relative, f"path {path}"
    return worst, where


def _outside(columns: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """What a basis does not span of some columns, in as few rows as have their lengths and angles."""
    return np.asarray(np.linalg.qr(columns - basis @ (basis.T @ columns), mode="r"))


def _entangled(entering: np.ndarray, leaving: np.ndarray) -> bool:
    """Whether columns are so far from orthogonal, or both sides from parallel, that no such weights are aligned."""
    overlaps, along = entering.T @ entering, np.abs(np.sum(entering * leaving, axis=0))
    lengths, others = np.diagonal(overlaps), np.sum(leaving**2, axis=0)
    turned = np.sum(np.sqrt(lengths * others) - along) > 10 * ALIGNED * np.sqrt(lengths.sum() * others.sum())
    return bool(turned or np.linalg.norm(overlaps - np.diag(lengths)) > 10 * ALIGNED * lengths.sum())


def _growing(own: OwnModes, entering: np.ndarray, leaving: np.ndarray) -> Alignment:
    """The growing part of a two-layer path, its modes being the path's own."""
    reach = np.divide(own.strengths, own.variances, out=np.zeros_like(own.strengths), where=own.variances > 0)
    found = growing_at_node(own.strengths[None, None], np.stack([entering, leaving]), reach)
    (node,), (first, last) = own.alone.hidden, own.path.edges
    strengths = dict(zip((first, last), found.strengths, strict=True))
    size, whole = float(found.begun.max(initial=0.0)), found.matrices([first], [last])
    ends = {first: (found.basis, own.input), last: (own.output, found.basis)}
    grown = found.learned([first], [last])
    return Alignment(ends, strengths, size, f"node {node!r}", whole, grown, found.misplaced)
