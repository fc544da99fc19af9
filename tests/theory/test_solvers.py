"""The solvers by themselves: order, stability, and agreement with formulas and scipy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace import initial
from neuralrace.precision import float64
from neuralrace.theory import predict
from neuralrace.theory.integration import chebyshev
from neuralrace.theory.integration.integrate import integrate
from neuralrace.theory.integration.solvers import ROUNDS, Explicit, Rodas
from theory_problems import chain


def race(state):
    gap = 1 - state[0] * state[1]
    return jnp.stack([state[1] * gap, state[0] * gap])


def stepper(name, velocity):
    """One step of a method: state and width -> Step."""
    solver = Rodas() if name == "rodas" else Explicit()
    method = solver.step if name == "rodas" else getattr(solver, name)

    @jax.jit
    def step(state, width):
        memory = solver.begin(state)
        return method(velocity, state, velocity(state), width, memory)

    return step


@pytest.mark.parametrize("stages", chebyshev.STAGES)
def test_the_stabilised_methods_are_of_fourth_order_and_stable(stages):
    method = chebyshev.make_method(stages)
    count = stages - 4
    matrix = chebyshev.completed(chebyshev._recurrence(method.mu, method.nu), method.last)
    # sums of a hundred terms of order one
    np.testing.assert_allclose(chebyshev.order_conditions(matrix), chebyshev.EXACT, atol=1e-13)
    z = np.linspace(-method.extent, 0.0, 4001)
    inner = np.ones((count + 5, len(z)))
    for j in range(1, len(inner)):
        inner[j] = 1 + z * (matrix[j, :j] @ inner[:j])
    assert np.abs(inner[-1][z < -chebyshev.NEAR]).max() < 0.96  # what is fast dies out
    assert np.abs(inner).max() < 2  # and no stage on the way is much larger than the start
    small = np.array([-0.01, 0.01])
    grown = np.ones((count + 5, 2))
    for j in range(1, len(grown)):
        grown[j] = 1 + small * (matrix[j, :j] @ grown[:j])
    assert np.abs(grown[-1] - np.exp(small)).max() < 0.01**5 / 120
    np.testing.assert_allclose(small * (method.error @ grown[-5:]), small**4 / 384, rtol=0.05)  # the next order is 1 %


@float64
@pytest.mark.parametrize(("name", "order"), [("plain", 5), ("stabilised", 4), ("rodas", 4)])
def test_the_solvers_have_their_orders(name, order):
    step = stepper(name, race)

    def run(steps):
        state = jnp.array([0.3, 0.7])
        for _ in range(steps):
            taken = step(state, 2.0 / steps)
            state = taken.after
        return np.asarray(state), np.asarray(taken.velocity)

    best, last = run(160)
    np.testing.assert_allclose(last, race(best), atol=1e-12)
    errors = [np.abs(run(steps)[0] - best).max() for steps in (5, 10, 20)]
    assert np.log2(errors[0] / errors[2]) / 2 > order - 0.5
    whole, half = step(best * 0.5, 0.1), step(best * 0.5, 0.05)
    np.testing.assert_allclose(whole.middle, half.after, atol=1e-5)


@float64
@pytest.mark.parametrize("fastest", [30.0, 300.0, 1800.0])
def test_what_is_fast_stays_damped_in_long_steps(fastest):
    rates = jnp.concatenate([jnp.array([1e-3, 0.1]), jnp.linspace(fastest / 10, fastest, 40)])
    step = stepper("stabilised", lambda state: -rates * state)
    state = jnp.ones(len(rates))
    for _ in range(20):
        state = step(state, 1.0).after
    np.testing.assert_allclose(state[:2], np.exp(-20 * rates[:2]), rtol=1e-6)  # 20 errors of 0.1^5 / 600
    assert np.abs(state[2:]).max() < 0.96**20


class Bowl(eqx.Module):
    """Gradient flow of a quartic with a wide range of curvatures."""

    curvature: jax.Array

    def velocity(self, state):
        return -self.curvature * state - jnp.sum(state**2) * state

    def record(self, state):
        return state

    def rate(self, state, velocity):
        return velocity

    def error(self, error, before, after, rtol):
        return jnp.max(jnp.abs(error)) / (rtol * jnp.max(jnp.abs(before)))


@float64
def test_a_stiff_flow_is_that_of_scipy_in_few_steps():
    system = Bowl(jnp.linspace(0.01, 500.0, 60))
    start, times = jnp.linspace(1.0, 2.0, 60), np.linspace(0, 50, 26)
    curve = integrate(system, start, 50.0, rtol=1e-7, max_steps=2000)
    exact = solve_ivp(lambda _, y: np.asarray(system.velocity(y)), (0, 50), np.asarray(start), "Radau", times,
                      rtol=1e-9, atol=1e-12)  # fmt: skip
    np.testing.assert_allclose(curve.at(times), exact.y.T, rtol=1e-5, atol=1e-7)
    assert len(curve.ends) < 1000  # 50 * 500 / 3.5 would be 7,000


@float64
def test_the_power_iteration_finds_the_sharpness():
    rates = jnp.array([-1.0, 2.0, 40.0])
    step = stepper("stabilised", lambda state: -rates * state)
    taken = step(jnp.ones(3), 0.1)
    assert ROUNDS >= 8
    assert taken.memory.radius == pytest.approx(40.0, rel=1e-5)


def test_long_plateaus_are_crossed():
    problem = chain(hidden=(4, 4))
    times = np.array([0.0, 3e5, 4e5, 6e5, 1e6, 3e6])  # from 1e-6 mode s is learned at about 1e6 / s
    found = predict(problem, initial.decoupled(1e-6), times, "reduction").loss
    formula = predict(problem, initial.decoupled(1e-6), times, "closed_form").loss
    np.testing.assert_allclose(found[[0, 1, 2, 3, 5]], formula[[0, 1, 2, 3, 5]], atol=1e-5)


def test_plateaus_of_large_systems_are_crossed_in_few_steps():
    problem = chain(hidden=(32, 32))  # more than a thousand weights: no implicit solver
    times = np.array([0.0, 300.0, 1000.0, 2000.0, 2e4])
    found = predict(problem, initial.decoupled(1e-3), times, "flow", max_steps=1500).loss
    formula = predict(problem, initial.decoupled(1e-3), times, "closed_form").loss
    np.testing.assert_allclose(found, formula, atol=1e-4)  # 3 * 2e4 / 3.5 would be 17,000 steps
