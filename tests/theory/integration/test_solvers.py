"""The explicit solver as one of diffrax's: measured orders, damping, and the state half way."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrace.arrays import float64
from neuralrace.theory.integration import tableaus
from neuralrace.theory.integration.solvers import SolverState, StabilizedTsit5

FAST = 200.0


class Race(eqx.Module):
    """Two strengths that grow together, and beside them a fast decay, which asks for a stabilized method."""

    fast: jax.Array

    def velocity(self, state):
        a, b, decaying = state
        gap = 1 - a * b
        return jnp.stack([b * gap, a * gap, -self.fast * decaying])

    def record(self, state):
        return state

    def rate(self, state, velocity):
        return velocity


class Decay(Race):
    """Every number at its own rate."""

    def velocity(self, state):
        return -self.fast * state


START = np.array([0.3, 0.7, 0.0])


def memory(fast):
    velocity = Race(fast).velocity(START)
    return SolverState(velocity, jnp.asarray(fast > 0), jnp.asarray(fast), jnp.array([0.0, 0.0, 1.0]))


def solve(system, start, width, end, known):
    """To a time in steps of a width."""
    solver = StabilizedTsit5(system)
    return diffrax.diffeqsolve(solver.term(), solver, 0.0, end, width, start, solver_state=known).ys[0]


@jax.jit
def run(width, fast):
    return solve(Race(fast), START, width, 2.0, memory(fast))


@float64
@pytest.mark.parametrize(("fast", "order"), [(0.0, 5), (FAST, 4)])
def test_the_solver_has_the_order_of_its_methods(fast, order):
    best = np.asarray(run(2.0 / 320, fast))
    errors = [np.abs(run(2.0 / steps, fast) - best).max() for steps in (5, 10, 20)]
    # from 0.4 to 0.1 the next order is some per cent of the error
    assert np.log2(errors[0] / errors[2]) / 2 > order - 0.4
    assert fast == 0 or errors[0] > 1e-9  # not rounding


@float64
@pytest.mark.parametrize("fastest", [30.0, 1800.0])
def test_what_is_fast_stays_damped_in_long_steps(fastest):
    rates, start = np.concatenate([[1e-3, 0.1], np.linspace(fastest / 10, fastest, 40)]), np.ones(42)
    begin = SolverState(-rates, jnp.asarray(False), jnp.asarray(fastest / 2), start)  # found by a power iteration
    found = np.asarray(solve(Decay(rates), start, 1.0, 20.0, begin))
    np.testing.assert_allclose(found[:2], np.exp(-20 * rates[:2]), rtol=1e-6)  # 20 errors of 0.1^5 / 600
    assert np.abs(found[2:]).max() < 0.96**20


def matrix_of(method):
    """Every stage of a stabilized method as a combination of the slopes at those before it."""
    degree, last = method.length, method.weights[2:6, 2:6]
    matrix = np.zeros((degree + 5, degree + 5))
    for j in range(degree):
        matrix[j + 1] = (1 + method.nu[j]) * matrix[j] - method.nu[j] * matrix[j - 1] * (j > 0)
        matrix[j + 1, j] += method.mu[j]
    matrix[degree + 1 :] = matrix[degree]
    matrix[degree + 1 :, degree:-1] = last
    return matrix


def grown(matrix, z):
    """Every stage of the method on dy/dt = z y, from 1."""
    stages = np.ones((len(matrix), len(z)))
    for j in range(1, len(stages)):
        stages[j] = 1 + z * (matrix[j, :j] @ stages[:j])
    return stages


@pytest.mark.parametrize("stages", tableaus.STAGES[::3])
def test_the_stabilized_methods_are_of_fourth_order_and_stable(stages):
    method = tableaus.make_method(stages)
    matrix = matrix_of(method)
    # sums of a hundred terms of order one
    np.testing.assert_allclose(tableaus.order_conditions(matrix), tableaus.EXACT, atol=1e-13)
    z = np.linspace(-method.extent, 0.0, 4001)
    inner = grown(matrix, z)
    assert np.abs(inner[-1][z < -tableaus.NEAR]).max() < 0.96  # what is fast dies out
    assert np.abs(inner).max() < 2  # and no stage on the way is much larger than the start
    small = np.array([-0.01, 0.01])
    near = grown(matrix, small)
    assert np.abs(near[-1] - np.exp(small)).max() < 0.01**5 / 120
    error = small * (method.error[-5:] @ near[-5:])
    np.testing.assert_allclose(error, small**4 / 384, rtol=0.05)  # the next order is 1 %
