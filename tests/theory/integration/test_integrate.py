"""Whole integrations against scipy and formulas."""

import equinox as eqx
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace import initial
from neuralrace.arrays import float64
from neuralrace.errors import RangeError
from neuralrace.theory import predict
from neuralrace.theory.integration.solution import Solution
from theory_problems import chain


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


class Rivals(Bowl):
    """Two modes of very different size that hinder each other; the error of each is relative to itself."""

    def velocity(self, state):
        a, b = state
        return jnp.stack([a * (1 - a - b), b * (self.curvature - a / 2 - b)])

    def error(self, error, before, after, rtol):
        return jnp.max(jnp.abs(error) / (rtol * jnp.abs(before)))


def integrate(system, start, end, rtol, max_steps):
    return Solution(system, start, rtol, max_steps, always=0).curve(end)


MANY = 60  # unknowns of every bowl: one program
TRACED = []


class Watched(Bowl):
    """One that notes when it is traced."""

    def velocity(self, state):
        TRACED.append(True)
        return super().velocity(state)


@float64
def test_a_stiff_flow_is_that_of_scipy_in_few_steps():
    curvature, start, times = np.linspace(0.01, 500.0, MANY), np.linspace(1.0, 2.0, MANY), np.linspace(0, 50, 26)
    curve = integrate(Bowl(curvature), start, 50.0, rtol=1e-7, max_steps=2000)
    exact = solve_ivp(lambda _, y: -curvature * y - (y @ y) * y, (0, 50), start, "Radau", times, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(curve.at(times), exact.y.T, rtol=1e-5, atol=1e-7)
    assert len(curve.times) < 1000  # 50 * 500 / 3.5 would be 7,000


@float64
def test_a_mode_of_1e_12_is_followed_as_exactly_as_the_one_beside_it():
    times, start = np.linspace(0, 60, 31), np.array([0.5, 1e-12])

    def in_logarithms(_, u):
        a, b = np.exp(u)
        return np.array([1 - a - b, 0.9 - a / 2 - b])

    exact = np.exp(solve_ivp(in_logarithms, (0, 60), np.log(start), "DOP853", times, rtol=1e-12, atol=1e-12).y.T)
    curve = integrate(Rivals(np.asarray(0.9)), start, 60.0, rtol=1e-7, max_steps=2000)
    # some hundred steps of 1e-7, and the curve drawn between them
    np.testing.assert_allclose(curve.at(times), exact, rtol=2e-5)
    np.testing.assert_allclose(curve.last, exact[-1], rtol=2e-6)


@float64
def test_an_integration_is_two_programs_and_a_second_compiles_nothing():
    start, counted = np.ones(3), []
    jax.monitoring.register_event_duration_secs_listener(lambda event, seconds, **more: counted.append(event))
    integrate(Watched(np.arange(1.0, 4.0)), start, 5.0, rtol=1e-6, max_steps=1000)
    assert len([event for event in counted if event.endswith("/backend_compile_duration")]) == 2
    count = len(TRACED)
    assert count > 0
    integrate(Watched(np.arange(2.0, 5.0)), 0.5 * start, 9.0, rtol=1e-5, max_steps=2000)
    assert len(TRACED) == count


class Bursting(Bowl):
    """One that grows without bound in a finite time."""

    def velocity(self, state):
        return state**2


class Pushed(Bowl):
    """One that moves from zero."""

    def velocity(self, state):
        return self.curvature - state

    def error(self, error, before, after, rtol):
        return jnp.max(jnp.abs(error) / (rtol * jnp.maximum(jnp.abs(before), jnp.abs(after)) + 1e-290))


@float64
def test_steps_that_would_have_no_length_are_refused():
    with pytest.raises(RangeError, match=r"needs a step below .* at time 1: .*raise rtol, start from smaller"):
        integrate(Bursting(np.ones(2)), np.ones(2), 2.0, rtol=1e-6, max_steps=10**6)
    with pytest.raises(RangeError, match=r"needs a step below .* at time 0: .*the velocity overflows"):
        integrate(Bursting(np.ones(2)), 1e200 * np.ones(2), 2.0, rtol=1e-6, max_steps=10**6)


@float64
def test_what_stands_still_and_what_starts_at_nothing():
    """A start without velocity stays; one at zero is moved all the same."""
    still = integrate(Pushed(np.zeros(2)), np.zeros(2), 3.0, rtol=1e-6, max_steps=100)
    np.testing.assert_array_equal(still.at([0.0, 1.5, 3.0]), np.zeros((3, 2)))
    pushed = integrate(Pushed(np.ones(2)), np.zeros(2), 3.0, rtol=1e-6, max_steps=1000)
    np.testing.assert_allclose(pushed.at([0.0, 0.1, 3.0])[:, 0], 1 - np.exp([0.0, -0.1, -3.0]), atol=1e-5)


@pytest.mark.parametrize("method", ["reduction", "flow"])
def test_long_plateaus_are_crossed(method):
    small = 1e-6
    problem, start = chain(hidden=(4, 4)), initial.decoupled(small)
    times = np.array([0.0, 0.3, 0.4, 0.6, 1.0, 3.0]) / small  # mode s is learned at about 1 / (small s)
    found, formula = (predict(problem, start, times, name).loss for name in (method, "closed_form"))
    np.testing.assert_allclose(found[[0, 1, 2, 3, 5]], formula[[0, 1, 2, 3, 5]], atol=1e-5)
    # in the middle of the last transition, which takes some 3 units of time: the time is right to 1e-7
    late = predict(problem, start, np.array([0.0, 1 - 1e-7, 1 + 1e-7]) / small, "closed_form").loss
    assert late[2] < found[4] < late[1]
