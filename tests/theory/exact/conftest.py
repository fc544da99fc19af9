import functools
from collections.abc import Callable

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace.arrays import float64


def _integrate(field: Callable, start: np.ndarray, times: np.ndarray, method: str = "DOP853") -> np.ndarray:
    """States at the times, (times, ...), by scipy at a tolerance of 1e-12."""
    solution = solve_ivp(field, (0.0, float(times[-1])), start, t_eval=times, rtol=1e-12, atol=1e-14, method=method)
    assert solution.success
    return solution.y.T


@pytest.fixture
def integrate() -> Callable:
    return _integrate


@functools.cache
def _gradient(function: Callable, count: int) -> Callable:
    """To every argument of the sum of a function, compiled as a whole and once for all tests."""
    return jax.jit(jax.grad(lambda *values: jax.numpy.sum(function(*values)), tuple(range(count))))


@pytest.fixture
def gradient_errors(padded: Callable) -> Callable:
    """JAX's gradient of an elementwise function against central differences: relative errors, one for each argument."""

    def errors(function: Callable, *arguments: float) -> np.ndarray:
        found = np.array(float64(_gradient(function, len(arguments)))(*(float(a) for a in arguments)))
        # a relative step of 1e-5 balances truncation (1e-10) and rounding (1e-11)
        steps = 1e-5 * np.abs(arguments)
        ahead, behind = padded(function)(*(np.array(arguments) + np.stack([np.diag(steps), -np.diag(steps)])).T).T
        difference = (ahead - behind) / (2 * steps)
        rounding = 1e-15 * (np.abs(ahead) + np.abs(behind)) / steps
        return np.maximum(np.abs(found - difference) - rounding, 0.0) / np.maximum(np.abs(difference), 1e-300)

    return errors


@pytest.fixture
def padded() -> Callable:
    """Wrap an elementwise function so that every call has one size, and so is compiled once for all tests."""

    def wrap(function: Callable, size: int = 64) -> Callable:
        def wrapped(*arguments: object) -> object:
            arrays = np.broadcast_arrays(*arguments)
            shape, count = arrays[0].shape, arrays[0].size
            assert count <= size
            result = function(*(np.pad(a.ravel().astype(float), (0, size - count), mode="edge") for a in arrays))
            return jax.tree.map(lambda x: x[:count].reshape(shape), result)

        return wrapped

    return wrap
