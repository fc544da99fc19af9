"""What a competent user writes without the package: a jitted update in a Python loop, once per epoch."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import neuralrace as nr
from neuralrace.tasks.named.routing import TARGETS
from neuralrace.tasks.pairs import trained_pairs


def descend(loss: Callable[[Any], jax.Array], weights: Any, rate: float, steps: int, record: Any = None) -> list[Any]:
    """Gradient descent with the loss, and whatever else is recorded, taken at every epoch."""

    @jax.jit
    def update(weights: Any) -> tuple[Any, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda w, g: w - rate * g, weights, gradient), value

    history = []
    for _ in range(steps + 1):
        moved, value = update(weights)
        history.append((float(value), None if record is None else record(weights)))
        weights = moved
    return history


def relu_loss(network: nr.Problem) -> Callable[[Any], jax.Array]:
    inputs, targets = jnp.asarray(network.task.inputs["x"]), jnp.asarray(network.task.targets["y"])

    def loss(weights: Any) -> jax.Array:
        hidden = jax.nn.relu(inputs @ weights[0].T)
        return 0.5 * jnp.sum((hidden @ weights[1].T - targets) ** 2) / len(inputs)

    return loss


def pathway_loss(problem: nr.Problem) -> Callable[[Any], jax.Array]:
    """Parallel pathways x -> h_p -> y, each masked by its gate."""
    (source,), (target,) = problem.architecture.inputs, problem.architecture.outputs
    inputs, targets = jnp.asarray(problem.task.inputs[source]), jnp.asarray(problem.task.targets[target])
    everywhere = np.ones(len(inputs))
    gates = jnp.asarray(np.stack([problem.gates.nodes.get(h, everywhere) for h in problem.architecture.hidden]))

    def loss(weights: Any) -> jax.Array:
        hidden = gates[:, :, None] * jnp.einsum("ns,phs->pnh", inputs, weights[0])
        output = jnp.einsum("pnh,pth->nt", hidden, weights[1])
        return 0.5 * jnp.sum((output - targets) ** 2) / len(inputs)

    return loss


def pathway_singular_values(weights: Any) -> list[np.ndarray]:
    first, second = np.asarray(weights[0]), np.asarray(weights[1])
    return [np.linalg.svd(b @ a, compute_uv=False) for a, b in zip(first, second, strict=True)]


def routing_loss(domains: int, trained: int) -> Callable[[Any], jax.Array]:
    """All encoders, the hidden matrix and all decoders as stacked einsums, untrained routes masked."""
    named = nr.tasks.routing(domains, trained)
    routes = jnp.asarray(trained_pairs("neighbors", domains, trained), dtype=jnp.float64)
    inputs, targets = jnp.eye(4), jnp.asarray(TARGETS, dtype=jnp.float64)
    count = len(named.task)

    def loss(weights: Any) -> jax.Array:
        first, hidden, last = weights
        activity = jnp.einsum("ihs,ns->inh", first, inputs)
        activity = jnp.einsum("inh,gh->ing", activity, hidden)
        output = jnp.einsum("joh,inh->ijno", last, activity)
        return 0.5 * jnp.sum(routes[:, :, None, None] * (output - targets) ** 2) / count

    return loss
