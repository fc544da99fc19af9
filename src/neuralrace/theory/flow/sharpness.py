"""The largest curvature of the loss, against which a step size must be small."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from neuralrace.axes import Edge
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.evolution import Evolution
from neuralrace.theory.flow.field import MatrixField, Stacks
from neuralrace.theory.flow.matrix_flow import FlowFactory

SHARPNESS_POINTS = 5


def sharpness(factory: FlowFactory, weights: Mapping[Edge, np.ndarray]) -> float:
    """The largest eigenvalue of the Hessian of the loss at the weights."""
    flow = factory.start(weights, np.inf, 1.0)
    point, restore = jax.flatten_util.ravel_pytree(flow.start)
    size = len(point)
    if size == 0:
        return 0.0
    if size == 1:
        return float(_curved(flow.system.field, flow.start, restore(jnp.ones(1)))[0].ravel()[0])

    def apply(vector: np.ndarray) -> np.ndarray:
        product = _curved(flow.system.field, flow.start, restore(jnp.asarray(vector.ravel())))
        return np.asarray(jax.flatten_util.ravel_pytree(product)[0])

    begin = np.random.default_rng(0).normal(size=size)
    if not np.any(apply(begin)):
        return 0.0
    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    values = eigsh(operator, k=1, which="LA", tol=1e-4, v0=begin, ncv=min(size, 20), return_eigenvectors=False)
    return float(values[0])


def flow_regime(factory: FlowFactory, rate: float, times: np.ndarray, draw: Evolution) -> Assumption:
    """A planned step size against the largest curvature on the way: descent follows the flow below 2 / rate."""
    moments = np.unique(np.linspace(0, len(times) - 1, SHARPNESS_POINTS).astype(int))
    looks = np.concatenate([[0.0], times[moments]])
    values = [sharpness(factory, weights) for weights in draw.weights(looks)]
    worst = int(np.argmax(values))
    detail = (
        f"rate * sharpness; the sharpness is {values[0]:.3g} at the start, {values[worst]:.3g} at its largest "
        f"(time {looks[worst]:.4g}) and {values[-1]:.3g} at the end"
    )
    return Assumption("flow regime", rate * max(values), 2.0, detail, needed=False)


@eqx.filter_jit
def _curved(field: MatrixField, point: Stacks, direction: Stacks) -> Any:
    """The Hessian times a direction."""
    return jax.jvp(jax.grad(field.excess), (point,), (direction,))[1]
