"""The strength of each mode in given weights: exact where they are decoupled, of what grows where they are small.

Decoupled weights are W_e = R_t B_e R_s^T (P1 eq. 9), and the bases R that come nearest are found from the weights.

While a two-layer network is small it is linear in its weights. A hidden node with incoming vectors p_e = W_e v and
outgoing q_f = W_f^T u of a mode obeys dp/dt = S^T q, dq/dt = S p over its edges, S being the matrix of S(p) of the
paths through it. Only the projection on the leading singular pair of S grows; for one path that is (p + q) / 2, so the
mode starts with a_0 = |p + q|^2 / 4. Directions that a faster mode has taken are lost to the slower ones: growing
vectors are made orthogonal. That is so as far as the faster has arrived before the slower, and is estimated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from neuralrace.architecture import Architecture, Path, edge_name
from neuralrace.axes import Edge
from neuralrace.initial import Gaussian, Initializer
from neuralrace.statistics import SharedBases
from neuralrace.theory.reduction.path_table import PathTable

ROUNDING = 1e-13  # a strength this much smaller than its matrix is rounding, not a strength


@dataclass(frozen=True, eq=False)
class Alignment:
    """Decoupled weights that stand for given ones, in bases of the ends of every edge, and how far those are from them.

    ends: R_t and R_s of W_e = R_t B_e R_s^T, (size, modes) each; a mode that a node does not carry is a zero column.
    strengths: the diagonal of B_e, (modes,). residual: |W_e - R_t B_e R_s^T| relative to the smallest strength of the
    edge where strengths are read off, because that mode is the first to be changed by it;
    where they are those of what grows, the largest initial strength relative to what the mode comes to. where: the
    edge, or the mode and node, that is worst. whole: B_e of what grows, before it was made orthogonal, where strengths
    are those of what grows. grown: strengths once every growing mode is learned. entangled: how much of the target's
    energy is learned at another time than orthogonal modes learn it.
    """

    ends: Mapping[Edge, tuple[np.ndarray, np.ndarray]]
    strengths: Mapping[Edge, np.ndarray]
    residual: float
    where: str
    whole: Mapping[Edge, np.ndarray] = field(default_factory=dict)  # (modes, modes)
    grown: Mapping[Edge, np.ndarray] = field(default_factory=dict)  # (modes,)
    entangled: float = 0.0

    @property
    def matrices(self) -> dict[Edge, np.ndarray]:
        """B_e, whole where it is known so."""
        return {edge: np.diag(values) for edge, values in self.strengths.items()} | dict(self.whole)

    def weights(self, amounts: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """W_e of any B_e, diagonal (modes,) or whole; an edge of which there is none has no weights."""
        found = {}
        for edge, (target, source) in self.ends.items():
            amount = amounts.get(edge, np.zeros(target.shape[1]))
            found[edge] = (target @ amount if amount.ndim == 2 else target * amount) @ source.T
        return found

    def of_path(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        """The bases of the last and the first node of a path."""
        return self.ends[path.edges[-1]][0], self.ends[path.edges[0]][1]

    def mixing(self, weights: Mapping[Edge, np.ndarray]) -> float:
        """The largest part of an edge's matrix, seen in the modes of its two ends, that is off the diagonal."""
        worst = 0.0
        for edge, (target, source) in self.ends.items():
            seen, size = target.T @ weights[edge] @ source, float(np.linalg.norm(weights[edge]))
            off = float(np.linalg.norm(seen - np.diag(np.diagonal(seen))))
            worst = max(worst, off / size if size > 0 else 0.0)
        return worst


@dataclass(frozen=True, eq=False)
class InitialStrength:
    """Where the initial strengths of a forecast come from, and their values.

    source: "decoupled weights" (exact), "growing direction" (two layers), "hand-over" (deeper: see the time).
    values: edge -> (draws, modes). mean, spread: edge -> (modes,), over the draws. law: hidden node -> exact mean and
    standard deviation of a_0 where the law of the weights is known (independent normal entries: chi-square).
    """

    source: str
    values: Mapping[Edge, np.ndarray]
    law: Mapping[str, tuple[float, float]]

    @classmethod
    def of_draws(
        cls, source: str, draws: Sequence[Alignment], law: Mapping[str, tuple[float, float]]
    ) -> "InitialStrength":
        """Put the strengths of several draws together, edge by edge."""
        return cls(source, {e: np.array([draw.strengths[e] for draw in draws]) for e in draws[0].strengths}, law)

    @property
    def mean(self) -> dict[Edge, np.ndarray]:
        """The mean strength of each mode over the draws."""
        return {edge: values.mean(axis=0) for edge, values in self.values.items()}

    @property
    def spread(self) -> dict[Edge, np.ndarray]:
        """The standard deviation over the draws."""
        return {edge: values.std(axis=0) for edge, values in self.values.items()}


def align(architecture: Architecture, weights: Mapping[Edge, np.ndarray], shared: SharedBases) -> Alignment:
    """Find bases of the hidden nodes, mode by mode from the strongest incoming (or else outgoing) weights."""
    bases = {**shared.inputs, **shared.outputs}
    for node in architecture.order:
        if node in architecture.hidden:
            known = [e for e in architecture.incoming[node] if architecture.source(e) in bases]
            columns = _strongest([weights[e] @ bases[architecture.source(e)] for e in known])
            bases[node] = _completed(np.zeros_like(columns), columns)
    for node in reversed(architecture.order):
        if node in architecture.hidden:
            back = [weights[e].T @ bases[architecture.target(e)] for e in architecture.outgoing[node]]
            bases[node] = _completed(bases[node], _strongest(back))
    strengths, residual, where = {}, 0.0, "every edge"
    for edge, (source, target) in architecture.edges.items():
        matrix = weights[edge]
        if source in architecture.inputs:  # directions that no example shows do not count
            matrix = matrix @ bases[source] @ bases[source].T
        size = float(np.linalg.norm(matrix))
        strength = np.sum(bases[target] * (matrix @ bases[source]), axis=0)
        rest = matrix - (bases[target] * strength) @ bases[source].T
        strengths[edge] = np.where(np.abs(strength) > ROUNDING * size, strength, 0.0)
        smallest = np.min(np.abs(strength), where=strengths[edge] != 0, initial=size)
        off = float(np.linalg.norm(rest) / smallest) if size > 0 else 0.0
        residual, where = (off, f"edge {edge_name(edge)}") if off > residual else (residual, where)
    return Alignment(_ends(architecture, bases), strengths, residual, where)


def _ends(architecture: Architecture, bases: Mapping[str, np.ndarray]) -> dict[Edge, tuple[np.ndarray, np.ndarray]]:
    return {edge: (bases[target], bases[source]) for edge, (source, target) in architecture.edges.items()}


def balance(architecture: Architecture, weights: Mapping[Edge, np.ndarray]) -> tuple[str, float]:
    """The hidden node with the largest relative difference of W W^T (in) and W^T W (out), which training conserves."""
    worst = ("no hidden node", 0.0)
    for node in architecture.hidden:
        entering = sum(weights[e] @ weights[e].T for e in architecture.incoming[node])
        leaving = sum(weights[e].T @ weights[e] for e in architecture.outgoing[node])
        size = float(np.linalg.norm(entering) + np.linalg.norm(leaving))
        residual = float(np.linalg.norm(entering - leaving)) / size if size > 0 else 0.0
        if residual > worst[1]:
            worst = (node, residual)
    return worst


def _strongest(candidates: list[np.ndarray]) -> np.ndarray:
    """For each mode the longest of the candidate columns."""
    stacked = np.stack(candidates)
    lengths = np.linalg.norm(stacked, axis=1)
    chosen: np.ndarray = stacked[np.argmax(lengths, axis=0), :, np.arange(stacked.shape[2])].T
    longest = lengths.max(initial=0.0)
    return np.where(np.linalg.norm(chosen, axis=0) > ROUNDING * longest, chosen, 0.0)


def _completed(basis: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Fill the modes that a basis lacks from columns, the longest first."""
    lengths = np.linalg.norm(columns, axis=0)
    missing = (lengths > 0) & ~basis.any(axis=0)
    if not missing.any():
        return basis
    directions = columns / np.where(lengths > 0, lengths, 1.0)
    for _ in range(2):  # twice is enough for orthogonality to rounding
        directions = directions - basis @ (basis.T @ directions)
    order = np.argsort(-lengths, kind="stable")
    return basis + orthonormal(directions, order[missing[order]], np.full(len(lengths), 1e-8))


def orthonormal(columns: np.ndarray, order: np.ndarray, least: np.ndarray) -> np.ndarray:
    """The directions of columns, each turned away from those before it in the order.

    One that is left with no more than `least` is lost: a column of zeros, from which no other is turned away.
    """
    basis = np.zeros_like(columns)
    while len(order):
        directions, mixing = np.linalg.qr(columns[:, order])
        left = np.zeros(len(order))
        left[: len(mixing)] = np.abs(np.diagonal(mixing))
        lost = left <= least[order]
        if not lost.any():
            basis[:, order] = directions * np.sign(np.diagonal(mixing))
            break
        first = int(np.argmax(lost))
        order = order[:first] if first >= len(columns) else np.delete(order, first)
    return basis


def is_two_layer(architecture: Architecture) -> bool:
    """Whether every path has exactly two edges."""
    ends = set(architecture.inputs) | set(architecture.outputs)
    return all((source in ends) != (target in ends) for source, target in architecture.edges.values())


def growing_strengths(
    architecture: Architecture, weights: Mapping[Edge, np.ndarray], shared: SharedBases, table: PathTable
) -> Alignment:
    """Project two-layer weights onto the growing directions of all modes."""
    number = {edge: i for i, edge in enumerate(table.edges)}
    pair = {(int(row[0]), int(row[1])): k for k, row in enumerate(table.route)}
    bases = {**shared.inputs, **shared.outputs}
    strengths = {edge: np.zeros(table.modes) for edge in table.edges}
    whole: dict[Edge, np.ndarray] = {}
    grown: dict[Edge, np.ndarray] = {}
    size, where, entangled = 0.0, "no hidden node", 0.0
    final = _final_strength(table)
    for node in architecture.hidden:
        into, out = architecture.incoming[node], architecture.outgoing[node]
        paths = np.array([[pair.get((number[e], number[f]), -1) for e in into] for f in out])
        drive = np.where(paths[..., None] >= 0, table.strengths[paths], 0.0)  # (out, in, modes)
        enter = [weights[e] @ bases[architecture.source(e)] for e in into]
        leave = [weights[f].T @ bases[architecture.target(f)] for f in out]
        reach = final[paths[paths >= 0]].max(axis=0, initial=0.0)
        found = growing_at_node(drive, np.stack([*enter, *leave]), reach)
        bases[node] = found.basis
        strengths |= dict(zip((*into, *out), found.strengths, strict=True))
        whole |= found.matrices(into, out)
        grown |= found.learned(into, out)
        entangled += found.misplaced
        if found.begun.max(initial=0.0) > size:
            size, where = float(found.begun.max()), f"mode {int(np.argmax(found.begun))} at node {node!r}"
    return Alignment(_ends(architecture, bases), strengths, size, where, whole, grown, entangled)


class Growing(NamedTuple):
    """What grows at one hidden node.

    basis: the growing vectors made orthogonal. seen: these vectors in it, (modes, modes). shares: of each edge, (edges,
    modes). reach: the path strength that each mode comes to. begun: how far each mode has come. misplaced: the energy
    of modes that is learned at another time than if they were orthogonal.
    """

    basis: np.ndarray
    seen: np.ndarray
    shares: np.ndarray
    reach: np.ndarray
    begun: np.ndarray
    misplaced: float

    @property
    def strengths(self) -> np.ndarray:
        """Of each edge, (edges, modes)."""
        return np.asarray(self.shares * np.diagonal(self.seen) / np.sqrt(2))

    def matrices(self, into: Sequence[Edge], out: Sequence[Edge]) -> dict[Edge, np.ndarray]:
        """B_e of what grows, not made orthogonal."""
        columns = [self.seen * share / np.sqrt(2) for share in self.shares]
        turned = [matrix.T for matrix in columns[len(into) :]]
        return dict(zip((*into, *out), (*columns[: len(into)], *turned), strict=True))

    def learned(self, into: Sequence[Edge], out: Sequence[Edge]) -> dict[Edge, np.ndarray]:
        """The strengths of each edge once the strongest path of every mode has come to its reach."""
        sizes = np.abs(self.strengths)
        begin = sizes[: len(into)].max(axis=0, initial=0.0) * sizes[len(into) :].max(axis=0, initial=0.0)
        growth = np.sqrt(np.divide(self.reach, begin, out=np.zeros_like(begin), where=begin > 0))
        return dict(zip((*into, *out), self.strengths * growth, strict=True))


def growing_at_node(drive: np.ndarray, vectors: np.ndarray, reach: np.ndarray) -> Growing:
    """Project the weights of a hidden node on what grows.

    drive: S(p) of the paths through it, (out, in, modes). vectors: p_e, then q_f, (edges, hidden, modes). reach: what
    each mode comes to.
    """
    directions, speeds, shares = _growing_directions(drive, vectors)
    order = np.argsort(-speeds, kind="stable")  # fastest mode first
    basis = orthonormal(directions, order[speeds[order] > 0], 1e-10 * np.linalg.norm(directions, axis=0))
    seen = basis.T @ directions
    begin = np.sum(vectors**2, axis=1).max(axis=0)
    begun = np.divide(begin, reach, out=np.zeros_like(reach), where=(speeds > 0) & (reach > 0))
    return Growing(basis, seen, shares, reach, begun, float(speeds * reach @ _misplaced(seen, speeds, reach)))


def _misplaced(seen: np.ndarray, speeds: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """How much sooner a mode arrives than if it were orthogonal to the faster ones, relative to its time; (modes,).

    Of what it shares with a faster one it keeps as much as it has come itself when that arrives. A mode for which no
    direction is left is there for as much of its size until it is lost.
    """
    squares = seen**2
    size, kept = squares.sum(axis=0), np.diagonal(squares)
    grows = (size > 0) & (2 * reach > size) & (speeds > 0)
    far = np.log(np.divide(2 * reach, size, out=np.ones_like(size), where=grows))
    arrival = np.divide(far, speeds, out=np.zeros_like(far), where=grows)
    come = np.exp(np.minimum(speeds * arrival[:, None] - far, 0.0))  # (faster, slower)
    more = np.sum(squares * come, axis=0) - kept
    sooner = np.log1p(np.divide(more, kept, out=np.zeros_like(more), where=kept > 0))
    sooner = np.divide(sooner, far, out=np.zeros_like(far), where=grows)
    lost = np.divide(more, size, out=np.zeros_like(size), where=grows & (kept == 0))
    return np.minimum(sooner + lost, 1.0)


def gaussian_law(
    initial: Initializer | tuple[Mapping[Edge, np.ndarray], ...], architecture: Architecture
) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of a_0 = |p + q|^2 / 4 at nodes with one edge in and one out: chi-square."""
    law: dict[str, tuple[float, float]] = {}
    if not isinstance(initial, Gaussian) or not is_two_layer(architecture):
        return law
    for node in architecture.hidden:
        edges = (*architecture.incoming[node], *architecture.outgoing[node])
        if len(edges) == 2:
            stds = [initial.std[e] if isinstance(initial.std, Mapping) else initial.std for e in edges]
            scale = sum(float(std) ** 2 for std in stds) / 4
            size = architecture.nodes[node]
            law[node] = (scale * size, scale * float(np.sqrt(2 * size)))
    return law


def _final_strength(table: PathTable) -> np.ndarray:
    """S(p) / D(p, p): what a path comes to if it learns alone; (paths, modes)."""
    own = np.zeros_like(table.strengths)
    alone = table.first == table.second
    own[table.second[alone]] = table.variances[alone]
    return np.divide(np.abs(table.strengths), own, out=np.zeros_like(own), where=own > 0)


def _growing_directions(drive: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each mode the growing vector (hidden, modes), its speed, and the share of each edge (edges, modes)."""
    left, values, right = np.linalg.svd(np.moveaxis(drive, 2, 0), full_matrices=False)
    speeds = values[:, 0]
    shares = np.where(speeds > 0, np.concatenate([right[:, 0], left[:, :, 0]], axis=1).T, 0.0)
    return np.sum(shares[:, None] * vectors, axis=0) / np.sqrt(2), speeds, shares
