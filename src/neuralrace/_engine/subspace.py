"""Wide linear hidden nodes projected onto the directions that they use, and results lifted back.

Gradient descent moves the weights into a linear hidden node along the weights out of it, and those out of it along the
activity that comes in. So everything stays in the span, inside the node, of its initial incoming columns and outgoing
rows. In an orthonormal basis of that span the node has at most (size of all that enters + size of all that leaves)
directions, and gradient descent there is the same, exactly. It holds for any step that is a combination of gradients,
but not for optimizers that treat each entry on its own. Where neurons have gates of their own, it holds within each
group of neurons with equal gates.
"""

from collections.abc import Collection, Mapping

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge

Bases = dict[str, np.ndarray]  # node -> (..., neurons, directions), orthonormal columns; leading axes are seeds


def project_hidden(
    architecture: Architecture,
    weights: Mapping[Edge, np.ndarray],
    activated: Collection[str] = (),
    neuron_gates: Mapping[str, np.ndarray] | None = None,
) -> tuple[Mapping[Edge, np.ndarray], Bases, dict[str, np.ndarray]]:
    """Project every linear hidden node that is wider than all that enters and leaves it.

    weights: edge -> (..., target, source). neuron_gates: node -> (examples, neurons). Returns the projected weights,
    the basis of each projected node, and the gates of its directions where its neurons have gates of their own.
    """
    bases: Bases = {}
    gates: dict[str, np.ndarray] = {}
    for node in architecture.hidden:
        if node in activated:
            continue
        entering = [weights[edge] for edge in architecture.incoming[node]]
        leaving = [weights[edge].swapaxes(-1, -2) for edge in architecture.outgoing[node]]
        around, own = np.concatenate([*entering, *leaving], axis=-1), (neuron_gates or {}).get(node)
        neurons, each = around.shape[-2:]
        groups = [list(range(neurons))]
        if own is not None:
            columns, number = np.unique(own, axis=1, return_inverse=True)
            groups = [list(np.flatnonzero(number.ravel() == i)) for i in range(columns.shape[1])]
            groups.sort()
        if len(groups) * each >= neurons:
            continue
        if own is not None:
            gates[node] = np.repeat(own[:, [members[0] for members in groups]], each, axis=1)
        basis = np.zeros((*around.shape[:-1], len(groups) * each))  # small groups leave columns of zeros
        for place, members in enumerate(groups):
            found = np.linalg.qr(around[..., members, :])[0]
            basis[..., members, place * each : place * each + found.shape[-1]] = found
        bases[node] = basis
        weights = dict(weights)
        for edge in architecture.incoming[node]:
            weights[edge] = project(weights[edge], rows=basis)
        for edge in architecture.outgoing[node]:
            weights[edge] = project(weights[edge], columns=basis)
    return weights, bases, gates


def project(array: np.ndarray, rows: np.ndarray | None = None, columns: np.ndarray | None = None) -> np.ndarray:
    """Write the last two axes in bases: rows^T @ array @ columns."""
    array = array if rows is None else np.swapaxes(_aligned(rows, array), -1, -2) @ array
    return array if columns is None else array @ _aligned(columns, array)


def lift(array: np.ndarray, rows: np.ndarray | None = None, columns: np.ndarray | None = None) -> np.ndarray:
    """Undo `project` within the span: rows @ array @ columns^T."""
    with np.errstate(over="ignore", invalid="ignore"):  # seeds that diverged
        array = array if rows is None else _aligned(rows, array) @ array
        return array if columns is None else array @ np.swapaxes(_aligned(columns, array), -1, -2)


def _aligned(basis: np.ndarray, array: np.ndarray) -> np.ndarray:
    """Insert axes between the seeds of a basis and its matrices for those that the array has there."""
    return basis.reshape(*basis.shape[:-2], *[1] * (array.ndim - basis.ndim), *basis.shape[-2:])
