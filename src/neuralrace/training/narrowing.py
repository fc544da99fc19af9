"""Hidden nodes that are wider than what they join, trained at the width that they can use.

Gradient descent moves the weights into a hidden node along the weights out of it, and those out of it along the
activity that comes in. So everything stays in the span, inside the node, of its first incoming columns and
outgoing rows. In an orthonormal basis of that span the node has at most (what enters + what leaves) units, and
descent there is the same descent, exactly. It holds for any step that is a combination of gradients, not for
optimisers that treat each entry on its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neuralrace.architecture import edge_name
from neuralrace.axes import Edge
from neuralrace.problem import Problem


@dataclass(frozen=True)
class Narrowing:
    """A narrower equal problem, and for each narrowed node an orthonormal basis per seed, (seeds, units, width)."""

    problem: Problem
    weights: Mapping[Edge, np.ndarray]  # (seeds, target, source), in the narrow problem
    bases: Mapping[str, np.ndarray]


def narrow(problem: Problem, weights: Mapping[Edge, np.ndarray]) -> Narrowing:
    """Narrow every hidden node that is wider than all that enters and leaves it."""
    architecture = problem.architecture
    sizes = dict(architecture.nodes)
    bases: dict[str, np.ndarray] = {}
    current = dict(weights)
    for node in architecture.hidden:
        entering = [current[edge] for edge in architecture.incoming[node]]
        leaving = [current[edge].swapaxes(-1, -2) for edge in architecture.outgoing[node]]
        around = np.concatenate([*entering, *leaving], axis=-1)
        if around.shape[-1] >= sizes[node]:
            continue
        bases[node] = np.linalg.qr(around)[0]
        sizes[node] = around.shape[-1]
        inverse = bases[node].swapaxes(-1, -2)
        current |= {edge: inverse @ current[edge] for edge in architecture.incoming[node]}
        current |= {edge: current[edge] @ bases[node] for edge in architecture.outgoing[node]}
    if not bases:
        return Narrowing(problem, weights, {})
    return Narrowing(Problem(architecture.resized(sizes), problem.task, problem.gates), current, bases)


def widen(
    narrowing: Narrowing, records: Mapping[str, np.ndarray], final: Mapping[Edge, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[Edge, np.ndarray]]:
    """Recorded weights and activities, and the final weights, as those of the original problem."""
    wide = dict(records)
    architecture = narrowing.problem.architecture
    for edge in architecture.edges:
        name = f"weights[{edge_name(edge)}]"
        if name in wide:  # (seeds, times, target, source)
            wide[name] = _widen_weights(narrowing, edge, wide[name].swapaxes(0, 1)).swapaxes(0, 1)
    for node, basis in narrowing.bases.items():
        name = f"activity[{node}]"
        if name in wide:  # (seeds, times, examples, units)
            wide[name] = wide[name] @ basis.swapaxes(-1, -2)[:, None]
    return wide, {edge: _widen_weights(narrowing, edge, matrix) for edge, matrix in final.items()}


def _widen_weights(narrowing: Narrowing, edge: Edge, matrices: np.ndarray) -> np.ndarray:
    """Narrow weights (..., seeds, target, source) as those of the original problem."""
    source, target = narrowing.problem.architecture.edges[edge]
    if target in narrowing.bases:
        matrices = narrowing.bases[target] @ matrices
    if source in narrowing.bases:
        matrices = matrices @ narrowing.bases[source].swapaxes(-1, -2)
    return matrices
