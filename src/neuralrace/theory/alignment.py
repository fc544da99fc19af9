"""How near weights are to the decoupled form W_e = R_t B_e R_s^T of P1 eq. 9, and the bases R that come nearest."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neuralrace.architecture import Architecture, edge_name
from neuralrace.axes import Edge
from neuralrace.shared_bases import SharedBases

ROUNDING = 1e-13  # a strength this much smaller than its matrix is rounding, not a strength


@dataclass(frozen=True, eq=False)
class Alignment:
    """Bases of all nodes, the strength of each mode on each edge, and what of each matrix lies outside."""

    bases: Mapping[str, np.ndarray]  # R_v, (size, modes); a mode that a node does not carry is a zero column
    strengths: Mapping[Edge, np.ndarray]  # diagonal of B_e, (modes,)
    residuals: Mapping[Edge, float]  # |W_e - R_t B_e R_s^T| / |W_e|
    matrices: Mapping[Edge, np.ndarray]  # W_e

    @property
    def worst(self) -> tuple[str, float]:
        """The edge that is farthest from decoupled."""
        edge, residual = max(self.residuals.items(), key=lambda item: item[1])
        return edge_name(edge), residual


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
    strengths, residuals = {}, {}
    for edge, (source, target) in architecture.edges.items():
        matrix = weights[edge]
        if source in architecture.inputs:  # directions that no example shows do not count
            matrix = matrix @ bases[source] @ bases[source].T
        size = float(np.linalg.norm(matrix))
        strength = np.sum(bases[target] * (matrix @ bases[source]), axis=0)
        rest = matrix - (bases[target] * strength) @ bases[source].T
        strengths[edge] = np.where(np.abs(strength) > ROUNDING * size, strength, 0.0)
        residuals[edge] = float(np.linalg.norm(rest)) / size if size > 0 else 0.0
    return Alignment(bases, strengths, residuals, weights)


def decoupled_weights(
    architecture: Architecture, bases: Mapping[str, np.ndarray], strengths: Mapping[Edge, np.ndarray]
) -> dict[Edge, np.ndarray]:
    """W_e = R_t B_e R_s^T."""
    return {
        edge: (bases[target] * strengths[edge]) @ bases[source].T
        for edge, (source, target) in architecture.edges.items()
    }


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
    return basis + orthonormal(directions, order[missing[order]], np.full(len(lengths), 1e-8))[0]


def orthonormal(columns: np.ndarray, order: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The columns, each turned away from those before it in the order, and what is left of their lengths.

    One that is left with no more than `least` is lost: a column of zeros, from which no other is turned away.
    """
    basis, lengths = np.zeros_like(columns), np.zeros(columns.shape[1])
    while len(order):
        directions, mixing = np.linalg.qr(columns[:, order])
        left = np.zeros(len(order))
        left[: len(mixing)] = np.abs(np.diagonal(mixing))
        lost = left <= least[order]
        if not lost.any():
            basis[:, order], lengths[order] = directions * np.sign(np.diagonal(mixing)), left
            break
        first = int(np.argmax(lost))
        order = order[:first] if first >= len(columns) else np.delete(order, first)
    return basis, lengths
