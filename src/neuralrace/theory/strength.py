"""The strength with which each mode starts to grow, computed from the weights instead of set by hand.

While a two-layer network is small it is linear in its weights. A hidden node with incoming vectors p_e = W_e v and
outgoing q_f = W_f^T u of a mode obeys dp/dt = S^T q, dq/dt = S p over its edges, S being the matrix of S(p) of the
paths through it. Only the projection on the leading singular pair of S grows; for one path that is (p + q) / 2, so the
mode starts with a_0 = |p + q|^2 / 4. Directions that a faster mode has taken are lost to the slower ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.initial import Gaussian
from neuralrace.shared_bases import SharedBases
from neuralrace.theory.alignment import orthonormal
from neuralrace.theory.reduction.path_table import PathTable


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

    @property
    def mean(self) -> dict[Edge, np.ndarray]:
        """The mean strength of each mode over the draws."""
        return {edge: values.mean(axis=0) for edge, values in self.values.items()}

    @property
    def spread(self) -> dict[Edge, np.ndarray]:
        """The standard deviation over the draws."""
        return {edge: values.std(axis=0) for edge, values in self.values.items()}


@dataclass(frozen=True, eq=False)
class Growing:
    """Decoupled weights that grow like the given ones, and how small those were."""

    bases: Mapping[str, np.ndarray]
    strengths: Mapping[Edge, np.ndarray]
    size: float  # largest initial strength relative to what the mode comes to
    where: str


def is_two_layer(architecture: Architecture) -> bool:
    """Whether every path has exactly two edges."""
    ends = set(architecture.inputs) | set(architecture.outputs)
    return all((source in ends) != (target in ends) for source, target in architecture.edges.values())


def growing_strengths(
    architecture: Architecture, weights: Mapping[Edge, np.ndarray], shared: SharedBases, table: PathTable
) -> Growing:
    """Project two-layer weights onto the growing directions of all modes."""
    number = {edge: i for i, edge in enumerate(table.edges)}
    pair = {(int(row[0]), int(row[1])): k for k, row in enumerate(table.route)}
    bases = {**shared.inputs, **shared.outputs}
    strengths = {edge: np.zeros(table.modes) for edge in table.edges}
    size, where = 0.0, "no hidden node"
    final = _final_strength(table)
    for node in architecture.hidden:
        into, out = architecture.incoming[node], architecture.outgoing[node]
        paths = np.array([[pair.get((number[e], number[f]), -1) for e in into] for f in out])
        drive = np.where(paths[..., None] >= 0, table.strengths[paths], 0.0)  # (out, in, modes)
        enter = [weights[e] @ bases[architecture.source(e)] for e in into]
        leave = [weights[f].T @ bases[architecture.target(f)] for f in out]
        vectors = np.stack([*enter, *leave])  # (edges, hidden, modes)
        directions, speeds, shares = _growing_directions(drive, vectors)
        bases[node], lengths = _disentangled(directions, speeds)
        for edge, share in zip((*into, *out), shares, strict=True):
            strengths[edge] = share * lengths / np.sqrt(2)
        reach = final[paths[paths >= 0]].max(axis=0, initial=0.0)
        begin = np.sum(vectors**2, axis=1).max(axis=0)
        relative = np.divide(begin, reach, out=np.zeros_like(reach), where=(speeds > 0) & (reach > 0))
        if relative.max(initial=0.0) > size:
            size, where = float(relative.max()), f"mode {int(np.argmax(relative))} at node {node!r}"
    return Growing(bases, strengths, size, where)


def gaussian_law(initial: Any, architecture: Architecture) -> dict[str, tuple[float, float]]:
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


def _disentangled(directions: np.ndarray, speeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal directions, fastest mode first, and what is left of each mode's length."""
    order = np.argsort(-speeds, kind="stable")
    return orthonormal(directions, order[speeds[order] > 0], 1e-10 * np.linalg.norm(directions, axis=0))
