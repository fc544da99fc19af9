"""Training of ReLU networks against jax.grad of the textbook definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import neuralrace as nr
import oracle
from neuralrace.arrays import float64

HAND = 1e-12  # fifty steps, each exact to rounding; equal inputs are summed in another order
STEPS = 50


def task(kind="squared", seed=0):
    """Two input and two output nodes; inputs repeat, targets do not."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(6, 3))[[0, 1, 2, 3, 4, 5, 0, 0, 2]]
    wanted = random.normal(size=(9, 3))
    if kind == "cross-entropy":
        wanted = np.exp(wanted) / np.exp(wanted).sum(axis=1, keepdims=True)
        return nr.Task({"x": rows[:, :2], "z": rows[:, 2:]}, {"y": wanted}, random.uniform(size=9))
    return nr.Task(
        {"x": rows[:, :2], "z": rows[:, 2:]}, {"y": wanted[:, :1], "w": wanted[:, 1:]}, random.uniform(size=9)
    )


def definition(data, slope, kind):
    """The loss of a list of layers, one example at a time."""
    inputs = np.hstack(list(data.inputs.values()))
    targets = np.hstack(list(data.targets.values()))

    def one(layers, x, y):
        for layer in layers[:-1]:
            z = layer @ x
            x = jnp.maximum(z, 0) + slope * jnp.minimum(z, 0)
        out = layers[-1] @ x
        if kind == "squared":
            return 0.5 * jnp.sum((out - y) ** 2)
        return jnp.sum(y) * jax.scipy.special.logsumexp(out) - y @ out

    def loss(layers):
        losses = jax.vmap(one, (None, 0, 0))(layers, jnp.asarray(inputs), jnp.asarray(targets))
        return jnp.asarray(data.weights) @ losses

    return loss


def by_hand(loss, layers, rate):
    step = jax.jit(jax.value_and_grad(loss))
    losses = []
    for _ in range(STEPS):
        value, slope = step(layers)
        losses.append(float(value))
        layers = [layer - rate * np.asarray(s) for layer, s in zip(layers, slope, strict=True)]
    return [*losses, float(step(layers)[0])], layers


@pytest.mark.parametrize(
    ("hidden", "slope", "kind"),
    [
        (6, 0.0, "squared"),
        ((5, 4), -0.5, "squared"),
        ((5, 4, 3), 0.1, "cross-entropy"),
    ],
)
def test_every_depth_slope_and_loss(hidden, slope, kind):
    network = nr.ReLUNetwork(task(kind), hidden, slope)
    weights = oracle.random_weights(network.architecture, 3, 0.6)
    losses, layers = float64(by_hand)(definition(network.task, slope, kind), [*weights.values()], 0.1)
    run = nr.train(network, weights, 0.1, STEPS, loss=kind)
    np.testing.assert_allclose(run.loss[0], losses, rtol=HAND)
    final = dict(zip(weights, map(np.asarray, layers), strict=True))
    oracle.assert_weights_close(run.weights(0), final, HAND)
    if kind == "squared":
        assert network.loss(run.weights(0)) == pytest.approx(losses[-1], rel=HAND)


def test_inputs_and_outputs_of_the_task_stand_side_by_side():
    network = nr.ReLUNetwork(task(), (6,))
    weights = oracle.random_weights(network.architecture, 3)
    hidden = np.maximum(network.task.inputs["x"] @ weights["x", "h1"].T, 0)
    wanted = hidden @ weights["h1", "y"].T
    # sums of at most six products of size one
    np.testing.assert_allclose(network.forward(weights)["y"], wanted, rtol=0, atol=1e-13)
    np.testing.assert_allclose(
        network.preactivations(weights)["h1"], network.task.inputs["x"] @ weights["x", "h1"].T, rtol=0, atol=1e-13
    )
