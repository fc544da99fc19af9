"""The initial strength of each mode: read off decoupled weights, or found from the growing part of small ones.

Decoupled weights are W_e = R_t B_e R_s^T (P1 eq. 9), and the bases R that come nearest are found from the weights.

While a two-layer network is small it is linear in its weights. A hidden node with incoming vectors p_e = W_e v and
outgoing q_f = W_f^T u of a mode obeys dp/dt = S^T q, dq/dt = S p over its edges, S being the matrix of S(p) of the
paths through it. Only the projection on the leading singular pair of S grows; for one path that is (p + q) / 2, so the
mode starts with a_0 = |p + q|^2 / 4. Directions that a faster mode has taken are lost to the slower ones: growing
vectors are made orthogonal. This is exact if the faster arrives before the slower; otherwise its error is estimated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from neuralrace.architecture import Architecture, edge_name
from neuralrace.axes import Edge
from neuralrace.statistics import PathStatistics, rounded, shared_bases
from neuralrace.theory.reduction.terms import ROUNDING, path_modes


@dataclass(frozen=True, eq=False)
class Alignment:
    """Decoupled weights that approximate given ones, and the error.

    ends: bases R_t and R_s of W_e = R_t B_e R_s^T, (size, modes) each; a mode that a node lacks is a zero column.
    strengths: the diagonal of B_e, (modes,). residual: |W_e - R_t B_e R_s^T| relative to the smallest strength of the
    edge, the first to be changed by it; of growing parts, the largest initial strength relative to the
    learned mode's. where: the worst edge or mode. whole: B_e of growing parts before they are orthogonalized.
    grown: strengths once every growing mode is learned. entangled: the part of the target's energy that is learned at
    another time than orthogonal modes learn it.
    """

    ends: dict[Edge, tuple[np.ndarray, np.ndarray]]
    strengths: dict[Edge, np.ndarray]
    residual: float
    where: str
    whole: dict[Edge, np.ndarray] = field(default_factory=dict)
    grown: dict[Edge, np.ndarray] = field(default_factory=dict)
    entangled: float = 0.0

    @property
    def matrices(self) -> dict[Edge, np.ndarray]:
        """B_e, as whole matrices where they are known."""
        return {edge: np.diag(values) for edge, values in self.strengths.items()} | self.whole

    def weights(self, amounts: Mapping[Edge, np.ndarray]) -> dict[Edge, np.ndarray]:
        """W_e of any B_e, diagonal (modes,) or whole; zero for edges without."""
        found = {}
        for edge, (target, source) in self.ends.items():
            amount = amounts.get(edge, np.zeros(target.shape[1]))
            found[edge] = (target @ amount if amount.ndim == 2 else target * amount) @ source.T
        return found


def is_two_layer(architecture: Architecture) -> bool:
    """Whether every path has exactly two edges."""
    ends = set(architecture.inputs) | set(architecture.outputs)
    return all((source in ends) != (target in ends) for source, target in architecture.edges.values())


def outer_bases(statistics: PathStatistics, own: bool) -> tuple[dict[Edge, np.ndarray], dict[Edge, np.ndarray]]:
    """The bases of the modes at the inputs and at the outputs, by edge."""
    if own:
        modes = path_modes(statistics, own)
        entering = {path.edges[0]: one.input for path, one in modes.items()}
        return entering, {path.edges[-1]: one.output for path, one in modes.items()}
    edges, shared = statistics.architecture.edges, shared_bases(statistics)
    entering = {edge: shared.inputs[source] for edge, (source, _) in edges.items() if source in shared.inputs}
    return entering, {edge: shared.outputs[target] for edge, (_, target) in edges.items() if target in shared.outputs}


def align_shared(statistics: PathStatistics, weights: Mapping[Edge, np.ndarray]) -> Alignment:
    """Read strengths off weights in the shared bases."""
    ends, strengths, misfits = _align(statistics, weights, tuple(statistics.architecture.edges), own=False)
    where = max(misfits, key=misfits.__getitem__)
    return Alignment(ends, strengths, misfits[where], f"edge {edge_name(where)}")


def align_own(statistics: PathStatistics, weights: Mapping[Edge, np.ndarray]) -> Alignment:
    """Find the strengths of every path's own modes.

    Of two-layer paths, read off weights that are aligned up to rounding, otherwise those of the growing part; of deeper
    ones, the diagonal in the nearest bases.
    """
    modes = path_modes(statistics, own=True)
    ends, strengths, misfits = _align(statistics, weights, [edge for path in modes for edge in path.edges], own=True)
    nodes: list[str] = []
    grown: dict[Edge, np.ndarray] = {}
    worst = (0.0, "every path")
    for path, one in modes.items():
        misfit = max(misfits[edge] for edge in path.edges)
        if len(path.edges) == 2 and misfit > 1e-8:  # not aligned up to rounding
            nodes.append(statistics.architecture.target(path.edges[0]))
        else:
            worst = max(worst, (misfit, f"path {path}"))
            grown |= one.learned({edge: strengths[edge] for edge in path.edges})
    found = growing_part(statistics, weights, nodes, own=True)
    residual, where = max(worst, (found.residual, found.where))
    closed = {edge: (np.zeros((len(matrix), 0)), np.zeros((matrix.shape[1], 0))) for edge, matrix in weights.items()}
    ends, strengths, grown = closed | ends | found.ends, strengths | found.strengths, grown | found.grown
    return Alignment(ends, strengths, residual, where, found.whole, grown, found.entangled)


def _align(
    statistics: PathStatistics, weights: Mapping[Edge, np.ndarray], edges: Sequence[Edge], own: bool
) -> tuple[dict[Edge, tuple[np.ndarray, np.ndarray]], dict[Edge, np.ndarray], dict[Edge, float]]:
    """Find bases of the hidden nodes, mode by mode from the strongest incoming (or else outgoing) weights.

    Returns bases of the two ends, strengths and misfit of every edge.
    """
    architecture = statistics.architecture
    entering, leaving = outer_bases(statistics, own)
    places = {edge: architecture.edges[edge] for edge in edges}
    bases: dict[str, np.ndarray] = {}
    hidden = [node for node in architecture.order if node in architecture.hidden]
    for node in hidden:
        into = [edge for edge in architecture.incoming[node] if edge in places]
        if into:
            columns = [weights[e] @ (entering[e] if e in entering else bases[places[e][0]]) for e in into]
            longest = _strongest(columns)
            bases[node] = _completed(np.zeros_like(longest), longest)
    for node in reversed(hidden):
        out = [edge for edge in architecture.outgoing[node] if edge in places]
        if out:
            columns = [weights[e].T @ (leaving[e] if e in leaving else bases[places[e][1]]) for e in out]
            bases[node] = _completed(bases[node], _strongest(columns))
    ends, strengths, misfits = {}, {}, {}
    for edge, (start, end) in places.items():
        source = entering[edge] if edge in entering else bases[start]
        target = leaving[edge] if edge in leaving else bases[end]
        matrix = weights[edge] @ source @ source.T if edge in entering else weights[edge]  # what examples show
        size = float(np.linalg.norm(matrix))
        strength = np.sum(target * (matrix @ source), axis=0)
        rest = matrix - (target * strength) @ source.T
        strengths[edge] = np.where(np.abs(strength) > ROUNDING * size, strength, 0.0)
        smallest = np.min(np.abs(strength), where=strengths[edge] != 0, initial=size)
        misfits[edge] = float(np.linalg.norm(rest) / smallest) if size > 0 else 0.0
        ends[edge] = (target, source)
    return ends, strengths, misfits


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
    return basis + _orthonormal(directions, order[missing[order]], np.full(len(lengths), 1e-8))


def _orthonormal(columns: np.ndarray, order: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Make columns orthonormal in the order given; one with no more than `least` left is lost, a zero column."""
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


def growing_part(
    statistics: PathStatistics, weights: Mapping[Edge, np.ndarray], nodes: Sequence[str], own: bool
) -> Alignment:
    """Project the weights around the hidden nodes of two-layer paths onto the growing directions of all modes."""
    architecture, found = statistics.architecture, Alignment({}, {}, 0.0, "no hidden node")
    entering, leaving = outer_bases(statistics, own)
    modes = {path.edges: one for path, one in path_modes(statistics, own).items()}
    worst, where, entangled = 0.0, "no hidden node", 0.0
    for node in nodes:
        into = [edge for edge in architecture.incoming[node] if edge in entering]
        out = [edge for edge in architecture.outgoing[node] if edge in leaving]
        vectors = np.stack([*(weights[e] @ entering[e] for e in into), *(weights[e].T @ leaving[e] for e in out)])
        drive, reach = np.zeros((len(out), len(into), vectors.shape[2])), np.zeros(vectors.shape[2])
        for i, j in np.ndindex(len(out), len(into)):
            if (into[j], out[i]) in modes:
                one = modes[into[j], out[i]]
                drive[i, j], reach = one.strengths, np.maximum(reach, one.reach)
        left, values, right = np.linalg.svd(np.moveaxis(drive, 2, 0), full_matrices=False)
        speeds = values[:, 0]
        shares = np.where(speeds > 0, np.concatenate([right[:, 0], left[:, :, 0]], axis=1).T, 0.0)  # (edges, modes)
        directions = np.sum(shares[:, None] * vectors, axis=0) / np.sqrt(2)
        order = np.argsort([-rounded(speed) for speed in speeds], kind="stable")  # the fastest mode first
        basis = _orthonormal(directions, order[speeds[order] > 0], 1e-10 * np.linalg.norm(directions, axis=0))
        seen = basis.T @ directions
        strengths = shares * np.diagonal(seen) / np.sqrt(2)
        sizes, many = np.abs(strengths), len(into)
        begin = sizes[:many].max(axis=0, initial=0.0) * sizes[many:].max(axis=0, initial=0.0)
        growth = np.sqrt(np.divide(reach, begin, out=np.zeros_like(begin), where=begin > 0))
        for number, edge in enumerate((*into, *out)):
            whole = seen * shares[number] / np.sqrt(2)
            found.ends[edge] = (basis, entering[edge]) if number < many else (leaving[edge], basis)
            found.whole[edge] = whole if number < many else whole.T
            found.strengths[edge], found.grown[edge] = strengths[number], strengths[number] * growth
        lengths = np.sum(vectors**2, axis=1).max(axis=0)
        begun = np.divide(lengths, reach, out=np.zeros_like(reach), where=(speeds > 0) & (reach > 0))
        if begun.max(initial=0.0) > worst:
            worst, where = float(begun.max()), f"mode {int(np.argmax(begun))} at node {node!r}"
        entangled += float(speeds * reach @ _misplaced(seen, speeds, reach))
    return replace(found, residual=worst, where=where, entangled=entangled)


def growing_tied(statistics: PathStatistics, weights: Mapping[Edge, np.ndarray]) -> Alignment:
    """Project small weights that edges share onto the growing directions of all modes, by parameter.

    While all are small, only paths of two layers grow: those of the hidden node that joins an input to an output. Its
    directions are those of the nodes that share its weights, and a matrix between these starts with its diagonal there.
    """
    graph = statistics.architecture
    matrices, outside = graph.matrices(weights), {*graph.inputs, *graph.outputs}
    nodes = [
        node
        for node in graph.hidden
        if any(graph.source(e) in outside for e in graph.incoming[node])
        and any(graph.target(e) in outside for e in graph.outgoing[node])
    ]
    grown = growing_part(statistics, matrices, nodes[-1:], own=False)
    found = replace(grown, ends={}, strengths={}, whole={}, grown={})
    entering, leaving = outer_bases(statistics, own=False)
    basis = next((ends[0] for edge, ends in grown.ends.items() if edge in entering), None)
    if basis is None:
        return found
    for edge in sorted(graph.maps, key=lambda edge: edge not in grown.ends):  # those that grow first stand for all
        key, *_, turned = graph.maps[edge]
        if key in found.ends:
            continue
        target, source = leaving.get(edge, basis), entering.get(edge, basis)
        strength = np.sum(target * (matrices[edge] @ source), axis=0)
        found.ends[key] = (source, target) if turned else (target, source)
        found.strengths[key] = grown.strengths.get(edge, strength)
    return found


def _misplaced(seen: np.ndarray, speeds: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """How much sooner a mode arrives than if it were orthogonal to the faster ones, relative to its time; (modes,).

    Of what it shares with a faster mode it keeps as much as it has grown itself when that arrives. A mode for which no
    direction is left counts by the part that it has before it is lost. See docs/theory/ladder.md.
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
