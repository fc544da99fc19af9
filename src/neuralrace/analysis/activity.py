"""Activities of examples: similarity, alignment with the targets, scaling to few dimensions, mixed selectivity."""

from typing import NamedTuple

import jax
import numpy as np

from neuralrace.arrays import real_array
from neuralrace.errors import RangeError, require_count


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


class Scaling(NamedTuple):
    """points: (..., N, dimensions), centered. explained: (...,), the share of all squared distance that they keep."""

    points: np.ndarray
    explained: np.ndarray


def mds(activity: np.ndarray, dimensions: int = 2) -> Scaling:
    """Place examples in few dimensions by classical scaling of the distances between their activities, (N, units).

    Axes come in order of variance; of each, the entry of largest size is positive, so that the same activity always
    gives the same picture.
    """
    rows, count = real_array("activity", activity, RangeError), require_count("dimensions", dimensions)
    if rows.ndim != 2 or len(rows) < 2:
        raise RangeError(f"activity must have one row for each of at least two examples; it has shape {rows.shape}")
    left, values, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    points = np.zeros((len(rows), count))
    kept = min(count, len(values))
    points[:, :kept] = left[:, :kept] * values[:kept]
    points *= np.where(points[np.abs(points).argmax(axis=0), np.arange(count)] < 0, -1.0, 1.0)
    total = float(np.sum(values**2))
    return Scaling(points, np.asarray(np.sum(values[:kept] ** 2) / total if total > 0 else 1.0))


def aligned_mds(activities: np.ndarray, dimensions: int = 2) -> Scaling:
    """Scale the activities at several times, (T, N, units), each turned to fit the next one best.

    The last is as `mds` gives it; distances are kept at every time.
    """
    scaled = [mds(activity, dimensions) for activity in activities]
    points = [one.points for one in scaled]
    for t in range(len(points) - 2, -1, -1):
        points[t] = points[t] @ rotation_onto(points[t], points[t + 1])
    return Scaling(np.array(points), np.array([one.explained for one in scaled]))


def rotation_onto(points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Find the rotation or reflection R for which |points R - target| is least (orthogonal Procrustes)."""
    left, _, right = np.linalg.svd(points.T @ target)
    return np.asarray(left @ right)


def by_group(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Average over the examples of each group; values: (..., N), labels: (N,). Returns (..., groups)."""
    rows, names = np.asarray(values), np.asarray(labels)
    if rows.shape[-1:] != names.shape:
        raise RangeError(f"labels must have one entry per example, {rows.shape[-1]}; their shape is {names.shape}")
    return np.stack([rows[..., names == name].mean(axis=-1) for name in np.unique(names)], axis=-1)


def groups_active(patterns: np.ndarray, labels: np.ndarray, more_than: float = 0.5) -> np.ndarray:
    """Count the groups (contexts, say) in which a neuron is on for more than half, or another share, of the examples.

    patterns: (..., N) of bool, one neuron each. labels: (N,), the group of each example. Returns (...,).
    """
    return np.sum(by_group(np.asarray(patterns, dtype=bool), labels) > more_than, axis=-1)


def concentration(activity: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute the largest share of a neuron's activity in one group, groups of equal size; 0 for a silent neuron."""
    means = by_group(activity, labels)
    total = means.sum(axis=-1)
    return np.divide(means.max(axis=-1), total, out=np.zeros_like(total), where=total > 0)


def share_by_groups(patterns: np.ndarray, labels: np.ndarray, strength: np.ndarray | None = None) -> np.ndarray:
    """Compute the share of all neurons active in 0, 1, 2, ... groups, each counted by its strength if given."""
    active = groups_active(patterns, labels)
    weights = np.ones(active.shape) if strength is None else np.broadcast_to(strength, active.shape)
    counts = np.bincount(active.ravel(), weights=weights.ravel(), minlength=len(np.unique(labels)) + 1)
    return np.asarray(counts / counts.sum())


def chance_by_groups(inputs: np.ndarray, labels: np.ndarray, draws: int = 10_000, key: int = 0) -> np.ndarray:
    """Compute the same shares for neurons whose incoming weights are drawn at random, as before training."""
    normal = np.asarray(jax.random.normal(jax.random.key(key), (draws, np.shape(inputs)[1])))
    return share_by_groups(normal @ np.asarray(inputs).T > 0, labels)
