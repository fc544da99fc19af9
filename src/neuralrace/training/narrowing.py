"""Linear hidden nodes that are wider than what they join, trained at the width that they can use.

Gradient descent moves the weights into a linear hidden node along the weights out of it, and those out of it along the
activity that comes in. So everything stays in the span, inside the node, of its first incoming columns and
outgoing rows. In an orthonormal basis of that span the node has at most (what enters + what leaves) units, and
descent there is the same descent, exactly. It holds for any step that is a combination of gradients, not for
optimizers that treat each entry on its own, and for a linear node among nodes with activations too. Where neurons have
gates of their own, it holds for those that have equal gates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.axes import Edge
from neuralrace.problem import Problem


@dataclass(frozen=True)
class Narrowing:
    """A narrower equal problem, and for each narrowed node an orthonormal basis per seed, (seeds, units, width)."""

    problem: Any  # a Problem, or a network that is never narrowed
    weights: Mapping[Edge, np.ndarray]  # (seeds, target, source), in the narrow problem
    bases: Mapping[str, np.ndarray]


def narrow(problem: Problem, weights: Mapping[Edge, np.ndarray]) -> Narrowing:
    """Narrow every linear hidden node that is wider than all that enters and leaves it, or its groups of neurons."""
    architecture = problem.architecture
    sizes = dict(architecture.nodes)
    bases: dict[str, np.ndarray] = {}
    gates: dict[str, np.ndarray] = {}
    current = dict(weights)
    for node in architecture.hidden:
        if node in problem.activations:
            continue
        entering = [current[edge] for edge in architecture.incoming[node]]
        leaving = [current[edge].swapaxes(-1, -2) for edge in architecture.outgoing[node]]
        around = np.concatenate([*entering, *leaving], axis=-1)
        own, each = problem.gates.neurons.get(node), around.shape[-1]
        alike = _alike(own, sizes[node], sizes[node] // max(each, 1))
        if len(alike) * each >= sizes[node]:
            continue
        if own is not None:
            gates[node] = np.repeat(np.stack([own[:, members[0]] for members in alike], axis=1), each, axis=1)
        bases[node] = _basis(around, alike)
        sizes[node] = bases[node].shape[-1]
        inverse = bases[node].swapaxes(-1, -2)
        current |= {edge: inverse @ current[edge] for edge in architecture.incoming[node]}
        current |= {edge: current[edge] @ bases[node] for edge in architecture.outgoing[node]}
    if not bases:
        return Narrowing(problem, weights, {})
    return Narrowing(problem.resized(sizes, gates), current, bases)


def _alike(gates: np.ndarray | None, size: int, most: int) -> list[list[int]]:
    """The neurons of a node by equal gates, (N, size); all apart if there would be more than so many groups."""
    if gates is None:
        return [list(range(size))]
    groups: dict[bytes, list[int]] = {}
    for neuron, column in enumerate(gates.T):
        groups.setdefault(column.tobytes(), []).append(neuron)
        if len(groups) > most:
            return [[neuron] for neuron in range(size)]
    return list(groups.values())


def _basis(around: np.ndarray, alike: list[list[int]]) -> np.ndarray:
    """An orthonormal basis of the columns (seeds, size, count) inside each group; small groups have columns of zero."""
    count = around.shape[-1]
    basis = np.zeros((*around.shape[:-1], len(alike) * count))
    for place, members in enumerate(alike):
        found = np.linalg.qr(around[:, members])[0]
        basis[:, members, place * count : place * count + found.shape[-1]] = found
    return basis


def widen_weights(narrowing: Narrowing, edge: Edge, matrices: np.ndarray) -> np.ndarray:
    """Narrow weights (seeds, ..., target, source) as those of the original problem."""
    source, target = narrowing.problem.architecture.edges[edge]
    with np.errstate(over="ignore", invalid="ignore"):  # of seeds that diverged
        if target in narrowing.bases:
            matrices = _aligned(narrowing.bases[target], matrices) @ matrices
        if source in narrowing.bases:
            matrices = matrices @ _aligned(narrowing.bases[source].swapaxes(-1, -2), matrices)
    return matrices


def widen_activity(narrowing: Narrowing, node: str, activity: np.ndarray) -> np.ndarray:
    """Narrow activity (seeds, ..., examples, units) as that of the original problem."""
    if node not in narrowing.bases:
        return activity
    with np.errstate(over="ignore", invalid="ignore"):
        return activity @ _aligned(narrowing.bases[node].swapaxes(-1, -2), activity)


def _aligned(bases: np.ndarray, arrays: np.ndarray) -> np.ndarray:
    """One basis per seed, with axes for whatever stands between seeds and matrices."""
    return bases.reshape(len(bases), *[1] * (arrays.ndim - 3), *bases.shape[1:])
