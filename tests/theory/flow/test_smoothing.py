"""Smoothed gates: the rectifier beyond their width, a linear gate within it."""

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.arrays import float64
from neuralrace.theory.flow.system import smoothed_relu


@float64
def values(received, slope, width=0.1, weights=None):
    weights = np.ones(len(received)) if weights is None else weights

    @jax.jit
    def both(at):
        activity, back = jax.vjp(lambda rows: smoothed_relu(slope, width, weights, rows), at)
        return activity, back(jnp.ones_like(at))[0]

    return tuple(map(np.asarray, both(received)))


def test_it_is_the_rectifier_beyond_its_width_and_rises_between():
    received = np.linspace(-1, 1, 201)[:, None]
    reach = 0.1 * np.sqrt((received**2).mean())
    for slope in (0.0, 0.3, 1.0):
        activity, gate = values(received, slope)
        outside = np.abs(received) > reach
        expected = np.where(received > 0, received, slope * received)
        np.testing.assert_allclose(activity[outside], expected[outside], atol=1e-15)
        between = slope + (1 - slope) * np.clip((received + reach) / (2 * reach), 0, 1)
        np.testing.assert_allclose(gate, between, atol=1e-12)


def test_every_neuron_is_smoothed_alike_whatever_its_size():
    received = np.random.default_rng(0).normal(size=(7, 3))
    sizes = np.array([1e-9, 1.0, 1e6])
    np.testing.assert_allclose(values(received * sizes, 0.1)[0], values(received, 0.1)[0] * sizes, rtol=1e-12)
    assert not values(np.zeros((2, 2)), 0.0)[0].any()
