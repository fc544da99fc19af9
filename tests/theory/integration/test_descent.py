"""Plain steps in several calls; strides: one is descent, several are near it to second order, long ones stay stable."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrace.arrays import float64
from neuralrace.theory.integration import descent
from neuralrace.theory.integration.descent import SINGLE, begin, last, sharpest, stride


class Bowl(eqx.Module):
    """L = |D^(1/2) (w - 1)|^2 / 2 with curvatures D, whose descent is known: w - 1 = (1 - rate D)^n (w_0 - 1)."""

    curvatures: jax.Array

    def velocity(self, state):
        """-D (w - 1)."""
        return {"w": -self.curvatures * (state["w"] - 1)}

    def record(self, state):
        """The loss of the one draw."""
        return 0.5 * jnp.sum(self.curvatures * (state["w"] - 1) ** 2)[None]


def losses(bowl, start, rate, steps):
    left = (1 - rate * np.asarray(bowl.curvatures)) ** np.asarray(steps)[:, None] * (start - 1)
    return 0.5 * (np.asarray(bowl.curvatures) * left**2).sum(axis=1)


def strides(curvatures, start, rate, counts, most):
    with jax.enable_x64(True):
        bowl = Bowl(jnp.asarray(curvatures))
        first = begin(bowl, {"w": jnp.full((1, len(curvatures)), start)})
        [end], [found] = stride(bowl, [first], rate, counts, most)
        exact = losses(bowl, start, rate, np.cumsum(counts))
        return found, exact, np.asarray(last(end)["w"]), sharpest(bowl, end)


@pytest.mark.parametrize(("start", "rtol"), [(1e-3, 1e-4), (1e-20, 1e-12)])
def test_single_steps_are_descent(start, rtol):
    """In single precision to its rounding; from weights that it has no products of, in double."""
    found, exact, weights, _ = strides([1.0, 3.0], start, 0.01, np.array([0, 7, 50, 133]), 1)
    np.testing.assert_allclose(found, exact, rtol=rtol)
    assert weights.dtype == np.float64


def test_the_error_falls_with_the_square_of_the_stride():
    """Slopes of the error, in double precision; 160 steps after the loss has fallen are whole strides of each width."""
    counts, apart = np.array([200, 128]), []
    for most in (2, 4, 8):
        found, exact, *_ = strides([0.5, 0.5], 1e-20, 0.005, counts, most)
        apart.append(abs(found[-1] / exact[-1] - 1))
    assert np.log2(apart[1] / apart[0]) == pytest.approx(np.log2(15 / 3), abs=0.4)  # as most^2 - 1
    assert np.log2(apart[2] / apart[1]) == pytest.approx(np.log2(63 / 15), abs=0.4)


def test_strides_are_no_longer_than_the_curvature_allows():
    found, exact, _, curvature = strides([0.01, 3.0], 1e-3, 0.1, np.array([20, 500]), 50)
    assert curvature == pytest.approx(3.0, rel=1e-3)
    assert found[-1] == pytest.approx(exact[-1], rel=0.05)  # strides of 50 would multiply by -14 each


def test_what_is_left_of_the_loss_is_told_in_double_precision():
    found, exact, *_ = strides([1.0, 1.0], 1e-3, 0.01, np.full(30, 100), 4)
    assert exact[-1] < 1e-20 < SINGLE * exact[0]
    np.testing.assert_allclose(
        found, exact, rtol=0.05
    )  # strides of four lose a thousandth each time that the loss falls by e


def test_descent_that_diverges_says_so():
    found, *_ = strides([3.0, 3.0], 1e-3, 1.0, np.array([10, 400]), 6)
    assert not found[-1] < 1e6


class Decay(eqx.Module):
    """dx/dt = -x."""

    def velocity(self, state):
        return -state

    def record(self, state):
        return state


@float64
def descended():
    return descent.descend(Decay(), np.array([1.0, 2.0]), 0.1, np.array([0, 3, 20]))


def test_descent_in_several_calls(monkeypatch):
    last, records = descended()
    np.testing.assert_allclose(last, np.array([1.0, 2.0]) * 0.9**23, rtol=1e-14)
    monkeypatch.setattr(descent, "AT_ONCE", 7)
    again, others = descended()
    np.testing.assert_allclose(again, last, rtol=1e-15)
    np.testing.assert_allclose(others, records, rtol=1e-15)
