"""The largest curvature of the loss, which bounds the step size."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from neuralrace._engine.devices import compiled
from neuralrace.theory.certificate import Assumption


def sharpness(velocity: Callable[[Any], Any], state: Any) -> float:
    """The largest eigenvalue of the Hessian of the loss whose flow has this velocity, the method of a system."""
    leaves, structure = jax.tree.flatten(state)
    ends = np.cumsum([leaf.size for leaf in leaves])
    size = int(ends[-1]) if leaves else 0

    def curved(vector: np.ndarray) -> np.ndarray:
        parts = zip(leaves, np.split(vector.ravel(), ends[:-1]), strict=True)  # on the host: nothing to compile
        direction = jax.tree.unflatten(structure, [part.reshape(leaf.shape).astype(leaf.dtype) for leaf, part in parts])
        found = jax.tree.leaves(_curved(velocity, state, direction))
        return np.concatenate([np.asarray(leaf).ravel() for leaf in found])

    if size < 2:
        return float(curved(np.ones(1))[0]) if size else 0.0
    begin = np.random.default_rng(0).normal(size=size)
    first = curved(begin)
    if not np.isfinite(first).all():  # descent that diverged
        return float("inf")
    if not np.any(first):
        return 0.0
    operator = LinearOperator((size, size), matvec=curved, dtype=np.float64)
    values = eigsh(operator, k=1, which="LA", tol=1e-4, v0=begin, ncv=min(size, 20), return_eigenvectors=False)
    return float(values[0])


def regime(rate: float, times: np.ndarray, values: Sequence[float], needed: bool) -> Assumption:
    """A planned step size against the sharpness at some times: below 2 / rate descent follows the flow."""
    worst = int(np.argmax(values))
    when = f"time {times[worst]:.4g}, step {times[worst] / rate:,.0f}"
    before = f"{values[0]:.3g} at the start, {values[worst]:.3g} at its largest ({when}) and "
    detail = f"rate * sharpness; the sharpness is {before if len(values) > 1 else ''}{values[-1]:.3g} at the end"
    return Assumption("flow regime", rate * max(values), 2.0, detail, needed)


@compiled
def _curved(velocity: Callable[[Any], Any], state: Any, direction: Any) -> Any:
    """The Hessian times a direction."""
    return jax.tree.map(jnp.negative, jax.jvp(velocity, (state,), (direction,))[1])
