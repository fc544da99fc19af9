"""Classical multidimensional scaling: points whose distances are those of the activities, comparable over time."""

from typing import NamedTuple

import numpy as np

from neuralrace.arrays import real_array
from neuralrace.errors import RangeError, require_count


class Scaling(NamedTuple):
    """points: (..., N, dimensions), centerd. explained: (...,), the share of all squared distance that they keep."""

    points: np.ndarray
    explained: np.ndarray


def mds(activity: np.ndarray, dimensions: int = 2) -> Scaling:
    """Place examples in few dimensions by classical scaling of the distances between their activities.

    activity: (N, units). Axes come in order of variance; of each, the entry of largest size is positive, so that the
    same activity always gives the same picture.
    """
    rows = real_array("activity", activity, RangeError)
    count = require_count("dimensions", dimensions)
    if rows.ndim != 2 or len(rows) < 2:
        raise RangeError(f"activity must have one row for each of at least two examples; it has shape {rows.shape}")
    centerd = rows - rows.mean(axis=0)
    left, values, _ = np.linalg.svd(centerd, full_matrices=False)
    points = np.zeros((len(rows), count))
    kept = min(count, len(values))
    points[:, :kept] = left[:, :kept] * values[:kept]
    largest = np.abs(points).argmax(axis=0)
    points *= np.where(points[largest, np.arange(count)] < 0, -1.0, 1.0)
    total = float(np.sum(values**2))
    return Scaling(points, np.asarray(np.sum(values[:kept] ** 2) / total if total > 0 else 1.0))


def aligned_mds(activities: np.ndarray, dimensions: int = 2) -> Scaling:
    """Scale the activities of several moments, each turned to fit the next one best (orthogonal Procrustes).

    activities: (T, N, units). The last moment is as `mds` gives it; distances are kept at every moment.
    """
    moments = [mds(activity, dimensions) for activity in activities]
    points = [moment.points for moment in moments]
    for t in range(len(points) - 2, -1, -1):
        points[t] = points[t] @ rotation_onto(points[t], points[t + 1])
    return Scaling(np.array(points), np.array([moment.explained for moment in moments]))


def rotation_onto(points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The rotation or reflection R for which |points R - target| is least."""
    left, _, right = np.linalg.svd(points.T @ target)
    return np.asarray(left @ right)
