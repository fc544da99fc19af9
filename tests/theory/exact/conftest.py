from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp


@pytest.fixture
def integrate() -> Callable:
    """States at the times, (times, ...), by scipy at a tolerance of 1e-12."""

    def solve(field: Callable, start: np.ndarray, times: np.ndarray, method: str = "DOP853") -> np.ndarray:
        solution = solve_ivp(field, (0.0, float(times[-1])), start, t_eval=times, rtol=1e-12, atol=1e-14, method=method)
        assert solution.success
        return solution.y.T

    return solve
