"""Activities of examples: similarity, alignment with the targets, scaling, mixed selectivity, the tangent kernel."""

import jax
import numpy as np
from scipy.linalg import orthogonal_procrustes

from neuralrace._engine.example_rows import edge_gates
from neuralrace.architecture import check_weights
from neuralrace.arrays import real_array
from neuralrace.axes import Weights
from neuralrace.errors import ProblemError, RangeError, require_count, require_kind
from neuralrace.initial import as_key
from neuralrace.problem import Problem


def similarity(activity: np.ndarray) -> np.ndarray:
    """Compute the dot product between the activities of every two examples, (N, N); activity is (N, units)."""
    return activity @ activity.T


def cosine_similarity(activity: np.ndarray) -> np.ndarray:
    """Compute the cosine between the activities of every two examples; 0 where one of them is silent."""
    norms = np.linalg.norm(activity, axis=1)
    return similarity(activity * np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)[:, None])


def alignment(outputs: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Compute the share of the outputs' square that lies on the modes of the targets, left and right vector of one.

    outputs: (..., N, units). wanted: (N, units). Modes of equal singular value count as one, since their vectors are
    free to turn. Returns (...,), 0 where there is no output.
    """
    left, values, right = np.linalg.svd(wanted, full_matrices=False)
    same = (np.abs(values[:, None] - values) <= 1e-9 * values[0]) & (values > 1e-9 * values[0])
    along = np.sum((left.T @ outputs @ right.T) ** 2 * same, axis=(-2, -1))
    whole = np.sum(np.square(outputs), axis=(-2, -1))
    return np.asarray(np.divide(along, whole, out=np.zeros_like(whole), where=whole > 0))


def aligned_mds(activities: np.ndarray, dimensions: int = 2) -> np.ndarray:
    """Place examples in few dimensions by classical scaling of their activities at several times, (T, N, units).

    Axes come in order of variance; of each, the entry of largest size is positive, so that the same activity always
    gives the same picture. The points of a time, centered, are turned to fit those of the next one best, which keeps
    their distances. Returns (T, N, dimensions).
    """
    rows, count = real_array("activities", activities, RangeError), require_count("dimensions", dimensions)
    if rows.ndim != 3 or rows.shape[1] < 2:
        raise RangeError(f"activities must be (T, N, units), of two examples or more; their shape is {rows.shape}")
    left, values, _ = np.linalg.svd(rows - rows.mean(axis=1, keepdims=True), full_matrices=False)
    points = np.zeros((*rows.shape[:2], count))
    kept = min(count, values.shape[-1])
    points[..., :kept] = left[..., :kept] * values[:, None, :kept]
    largest = np.take_along_axis(points, np.abs(points).argmax(axis=1)[:, None], axis=1)
    points *= np.where(largest < 0, -1.0, 1.0)
    for t in range(len(points) - 2, -1, -1):
        points[t] = points[t] @ rotation_onto(points[t], points[t + 1])
    return points


def rotation_onto(points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Find the rotation or reflection R for which |points R - target| is least."""
    return np.asarray(orthogonal_procrustes(points, target)[0])


def groups_active(patterns: np.ndarray, labels: np.ndarray, more_than: float = 0.5) -> np.ndarray:
    """Count the groups (contexts, say) in which a neuron is on for more than half, or another share, of the examples.

    patterns: (..., N) of bool, one neuron each. labels: (N,), the group of each example. Returns (...,).
    """
    rows, names = np.asarray(patterns, dtype=bool), np.asarray(labels)
    if rows.shape[-1:] != names.shape:
        raise RangeError(f"labels must have one entry per example, {rows.shape[-1]}; their shape is {names.shape}")
    return np.sum([rows[..., names == name].mean(axis=-1) > more_than for name in np.unique(names)], axis=0)


def share_by_groups(patterns: np.ndarray, labels: np.ndarray, strength: np.ndarray | None = None) -> np.ndarray:
    """Compute the share of all neurons active in 0, 1, 2, ... groups, each counted by its strength if given."""
    active = groups_active(patterns, labels)
    weights = np.ones(active.shape) if strength is None else np.broadcast_to(strength, active.shape)
    counts = np.bincount(active.ravel(), weights=weights.ravel(), minlength=len(np.unique(labels)) + 1)
    return np.asarray(counts / counts.sum())


def chance_by_groups(inputs: np.ndarray, labels: np.ndarray, draws: int = 10_000, key: int = 0) -> np.ndarray:
    """Compute the same shares for neurons whose incoming weights are drawn at random, as before training."""
    normal = np.asarray(jax.random.normal(as_key(key), (draws, np.shape(inputs)[1])))
    return share_by_groups(normal @ np.asarray(inputs).T > 0, labels)


def tangent_kernel(problem: Problem, weights: Weights) -> np.ndarray:
    """Compute the sum over weights and output units of (d output) (d output)^T over examples, (N, N).

    The network is linear in each matrix: d output / d W_e is the map from t(e) to the outputs times the activity at
    s(e), both known per example.
    """
    require_kind("problem", problem, Problem, ProblemError)
    if problem.architecture.weights:
        raise ProblemError("a tangent kernel of free weight matrices is required; this network has parametrized ones")
    checked = check_weights(problem.architecture, weights)
    architecture, count = problem.architecture, len(problem.task)
    activity = {**problem.task.inputs, **problem.activity(checked)}
    gates = edge_gates(architecture, problem.gates, count)
    sizes = [architecture.nodes[node] for node in architecture.outputs]
    blocks = np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    # node -> for each example, the linear map from the node to all outputs stacked, (N, outputs, size)
    onward = {n: np.broadcast_to(b, (count, *b.shape)) for n, b in zip(architecture.outputs, blocks, strict=True)}
    for node in reversed(architecture.order):
        if node not in onward:
            onward[node] = sum(
                gates[edge][:, None, None] * (onward[architecture.target(edge)] @ checked[edge])
                for edge in architecture.outgoing[node]
            )
    kernel = np.zeros((count, count))
    for edge, (source, target) in architecture.edges.items():
        entering = activity[source] * gates[edge][:, None]
        kernel += np.einsum("nm,nat,mat->nm", entering @ entering.T, onward[target], onward[target], optimize=True)
    return kernel


def kernel_change(first: np.ndarray, last: np.ndarray) -> float:
    """Compute one minus the cosine between two kernels: 0 in the lazy regime, towards 1 as features are learned."""
    scale = float(np.linalg.norm(first) * np.linalg.norm(last))
    return 1.0 - float(np.sum(first * last)) / scale if scale > 0 else 0.0
