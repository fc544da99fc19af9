"""Clusters of neurons by direction, and a simplex of points for each that has its mass, mean and covariance.

A neuron z = (what enters, what leaves) of a rectified layer counts |z|^2 times its direction z / |z|, and in the
gradient flow the direction's velocity does not depend on |z|. So a layer is a mass spread over directions.
"""

import numpy as np
from sklearn.cluster import KMeans


def cluster(neurons: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The cluster of every neuron: k-means of directions, each weighing its mass."""
    mass = (neurons**2).sum(axis=1)
    moving = mass > 0
    labels = np.zeros(len(neurons), dtype=int)
    directions = neurons[moving] / np.sqrt(mass[moving])[:, None]
    means = KMeans(min(count, len(directions)), n_init=1, random_state=seed)
    labels[moving] = means.fit(directions, sample_weight=mass[moving]).labels_
    return labels


def simplices(neurons: np.ndarray, count: int, inputs: int, random: np.random.Generator) -> np.ndarray:
    """`count` clusters of neurons as inputs + 1 neurons each; (count * (inputs + 1), columns)."""
    labels = cluster(neurons, count, int(random.integers(2**31)))
    return np.vstack([simplex(neurons[labels == label], inputs, random) for label in range(count)])


def simplex(neurons: np.ndarray, spread: int, random: np.random.Generator) -> np.ndarray:
    """spread + 1 neurons of equal mass for all of these.

    Their directions have the mean of those of the neurons and their covariance in its `spread` largest directions; the
    simplex is turned at random. As few neurons as that are kept as they are, with neurons of zero beside them.
    """
    points = spread + 1
    if len(neurons) <= points:
        return np.vstack([neurons, np.zeros((points - len(neurons), neurons.shape[1]))])
    mass = (neurons**2).sum(axis=1)
    total = float(mass.sum())
    if total == 0:
        return np.zeros((points, neurons.shape[1]))
    share = np.sqrt(mass / total)[:, None]
    directions = np.divide(neurons, np.sqrt(mass)[:, None], out=np.zeros_like(neurons), where=mass[:, None] > 0)
    mean = (share**2 * directions).sum(axis=0)
    _, values, right = np.linalg.svd(share * (directions - mean), full_matrices=False)
    axes = right[:spread] * values[:spread, None]
    corners = _corners(len(axes), points, random)
    return np.asarray(np.sqrt(total / points) * (mean + corners @ axes))


def _corners(dimensions: int, points: int, random: np.random.Generator) -> np.ndarray:
    """Points around zero with the identity for covariance; (points, dimensions)."""
    drawn = random.standard_normal((points, dimensions))
    basis, _ = np.linalg.qr(np.column_stack([np.ones(points), drawn]))
    return np.asarray(np.sqrt(points) * basis[:, 1 : dimensions + 1])
