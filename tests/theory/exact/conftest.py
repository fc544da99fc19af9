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
def gradient_errors() -> Callable:
    """JAX's gradient of the sum of a function against central differences: relative errors, one for each argument."""

    def errors(function: Callable, *arguments: float) -> np.ndarray:
        found = float64(_gradient(function, len(arguments)))(*(float(a) for a in arguments))
        apart = []
        for i, (value, gradient) in enumerate(zip(arguments, found, strict=True)):
            # a relative step of 1e-5 balances truncation (1e-10) and rounding (1e-11)
            step = 1e-5 * abs(value)
            ahead, behind = (
                float(np.sum(function(*arguments[:i], value + sign * step, *arguments[i + 1 :]))) for sign in (1, -1)
            )
            difference = (ahead - behind) / (2 * step)
            rounding = 1e-15 * (abs(ahead) + abs(behind)) / step
            apart.append(max(abs(float(gradient) - difference) - rounding, 0.0) / max(abs(difference), 1e-300))
        return np.array(apart)

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
