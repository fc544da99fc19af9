"""Clusters and the points that stand for them keep mass, mean and covariance."""

import numpy as np

from neuralrace.theory.representatives.simplex import cluster, simplex, simplices

RANDOM = np.random.default_rng(0)


def neurons_of(count, inputs=3, outputs=4):
    """Neurons whose outgoing weights are a linear map of the incoming ones, as growth makes them."""
    entering = RANDOM.normal(size=(count, inputs)) * np.exp(RANDOM.normal(size=(count, 1)))
    return np.hstack([entering, entering @ RANDOM.normal(size=(inputs, outputs))])


def moments(neurons, weights):
    """Mass-weighted mean and covariance of directions."""
    mean = weights @ neurons / weights.sum()
    away = neurons - mean
    return mean, (weights[:, None] * away).T @ away / weights.sum()


def test_a_simplex_has_mass_mean_and_covariance():
    neurons = neurons_of(60)
    mass = (neurons**2).sum(axis=1)
    points = simplex(neurons, 3, np.random.default_rng(1))
    assert points.shape == (4, 7)
    np.testing.assert_allclose((points**2).sum(), mass.sum(), rtol=1e-12)
    mean, covariance = moments(neurons / np.sqrt(mass)[:, None], mass)
    # every point stands for a fourth of the mass: divide by its root to have a place among directions
    found, spread = moments(points / np.sqrt(mass.sum() / 4), np.ones(4))
    np.testing.assert_allclose(found, mean, atol=1e-12)
    np.testing.assert_allclose(spread, covariance, atol=1e-12)
    # so what a linear layer computes is kept
    np.testing.assert_allclose(points.T @ points, neurons.T @ neurons, rtol=1e-10, atol=1e-10)


def test_few_neurons_are_kept_as_they_are():
    neurons = neurons_of(3)
    points = simplex(neurons, 3, np.random.default_rng(1))
    np.testing.assert_array_equal(points[:3], neurons)
    assert not points[3].any()
    assert not simplex(np.zeros((9, 7)), 3, np.random.default_rng(1)).any()


def test_clusters_are_of_directions_and_not_of_sizes():
    ways = np.eye(3)[RANDOM.integers(0, 3, 90)]
    sizes = np.exp(3 * RANDOM.normal(size=(90, 1)))
    labels = cluster((ways + 1e-3 * RANDOM.normal(size=ways.shape)) * sizes, 3, seed=0)
    assert len({(way, label) for way, label in zip(ways.argmax(axis=1), labels, strict=True)}) == 3


def test_all_clusters_together_keep_what_a_linear_layer_computes():
    neurons = neurons_of(300)
    points = simplices(neurons, 5, 3, np.random.default_rng(2))
    assert points.shape == (20, 7)
    np.testing.assert_allclose(points.T @ points, neurons.T @ neurons, rtol=1e-9, atol=1e-9)
