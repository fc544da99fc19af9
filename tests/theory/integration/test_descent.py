"""Plain steps in several calls; strides: one is descent, several are near it to second order, long ones stay stable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neuralrace._engine.devices import side_by_side
from neuralrace.arrays import float64
from neuralrace.theory.integration import descent
from neuralrace.theory.integration.descent import SINGLE, begin, last, stride
from neuralrace.theory.integration.system import System


class Bowl(System):
    """L = |D^(1/2) (w - 1)|^2 / 2 with curvatures D, whose descent is known: w - 1 = (1 - rate D)^n (w_0 - 1)."""

    curvatures: jax.Array

    def velocity(self, state):
        return {"w": -self.curvatures * (state["w"] - 1)}

    def modes(self, state):
        return [jnp.abs(state["w"])]

    def record(self, state):
        return 0.5 * jnp.sum(self.curvatures * (state["w"] - 1) ** 2)[None]


@float64
def strides(curvatures, start, rate, counts, most):
    """Losses by strides and exactly, the last weights and the largest curvature."""
    bowl, curvatures = Bowl(jnp.asarray(curvatures)), np.asarray(curvatures)
    first = begin(bowl, {"w": jnp.full((1, len(curvatures)), start)})
    [(end, found)] = side_by_side([stride(bowl, first, rate, counts, most)])
    left = (1 - rate * curvatures) ** np.cumsum(counts)[:, None] * (start - 1)
    return found, 0.5 * (curvatures * left**2).sum(axis=1), np.asarray(last(end)["w"]), end.curvature


# single precision to its rounding; from weights that it has no products of, double; each stride of four loses a
# thousandth while the loss falls by e
@pytest.mark.parametrize(
    ("start", "counts", "most", "rtol"),
    [(1e-3, [0, 7, 50, 133], 1, 1e-4), (1e-20, [0, 7, 50, 133], 1, 1e-12), (1e-3, [100] * 30, 4, 0.05)],
)
def test_losses_are_those_of_descent(start, counts, most, rtol):
    found, exact, weights, _ = strides([1.0, 3.0], start, 0.01, np.array(counts), most)
    np.testing.assert_allclose(found, exact, rtol=rtol)
    assert weights.dtype == np.float64
    assert most == 1 or exact[-1] < 1e-20 < SINGLE * exact[0]


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
    found, *_ = strides([3.0, 3.0], 1e-3, 1.0, np.array([10, 400]), 6)
    assert not found[-1] < 1e6  # descent itself diverges


@float64
def test_descent_in_several_calls(monkeypatch):
    bowl, start, counts = Bowl(np.ones(2)), {"w": np.array([2.0, 3.0])}, np.array([0, 3, 20])
    [(once, records)] = side_by_side([descent.descend(bowl, start, 0.1, counts)])
    np.testing.assert_allclose(once["w"] - 1, np.array([1.0, 2.0]) * 0.9**23, rtol=1e-13)
    monkeypatch.setattr(descent, "LOOK", 1)
    works = [descent.descend(bowl, start, 0.1, counts) for _ in range(3)]
    (again, others), *same = side_by_side(works)
    assert all(np.array_equal(records, others) for _, records in same)
    np.testing.assert_allclose(again["w"], once["w"], rtol=1e-15)
    np.testing.assert_allclose(others, records, rtol=1e-15)
