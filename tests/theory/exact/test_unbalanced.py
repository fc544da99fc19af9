import numpy as np
import pytest

from neuralrace.errors import RangeError
from neuralrace.theory import exact

SLOPE = 1e-6  # central differences are right to about 1e-10 of truncation and rounding, times the curvature

S, D = 1.2, 0.5
STARTS = [
    (1e-12, 1e-12),
    (1e-12, 1e-8),
    (1e-12, 1.0),
    (1e-3, 0.0),
    (-0.2, 0.5),
    (3.0, -0.1),
    (2.0, 3.0),
    (1.5, 20.0),
]


def field(_, w):
    return w[::-1] * (S - D * w[0] * w[1])


@pytest.mark.parametrize(("first", "second"), STARTS)
def test_layers_and_strength_solve_the_equations(first, second, integrate):
    times = np.array([0.0, 0.01, 0.3, 3.0, 15.0, 22.0, 24.0, 40.0])
    # scaled so that scipy's absolute tolerance does not swallow layers of 1e-12
    unit = max(abs(first), abs(second))
    oracle = integrate(lambda t, w: field(t, w * unit) / unit, np.array([first, second]) / unit, times) * unit
    layers = exact.unbalanced_layers(times, S, D, first, second)
    # 1e-12 per step of scipy's, over about a hundred steps
    np.testing.assert_allclose(np.transpose(layers), oracle, rtol=3e-10, atol=1e-10 * unit)
    strength = exact.unbalanced_mode(times, S, D, first, second)
    np.testing.assert_allclose(strength, oracle.prod(1), rtol=3e-10, atol=1e-10 * unit**2)
    conserved = layers[1] ** 2 - layers[0] ** 2
    np.testing.assert_allclose(conserved, second**2 - first**2, atol=1e-14 * np.max(oracle**2))


def test_small_product_of_unequal_layers_keeps_its_digits():
    """At w1 = 1e-12 beside w2 = 1 the strength starts at 1e-12 and grows as w1 + sinh(s t) does."""
    t = 1e-6
    expected = 1e-12 + S * t  # the next term is (s t)^2 / 2 of this
    assert float(exact.unbalanced_mode(t, S, D, 1e-12, 1.0)) == pytest.approx(expected, rel=1e-5)
    assert float(exact.unbalanced_mode(0.0, S, D, 1e-12, 1.0)) == pytest.approx(1e-12, rel=1e-15)


def test_balanced_layers_give_the_logistic_curve():
    times = np.array([0.0, 1.0, 5.0, 12.0, 30.0, 1e6])
    for a0 in (1e-12, 1e-3, 4.0):
        w = np.sqrt(a0)
        logistic = exact.two_layer_mode(times, S, D, a0)
        np.testing.assert_allclose(exact.unbalanced_mode(times, S, D, w, w), logistic, rtol=1e-13)
        loss = exact.two_layer_loss(times, S, D, a0)
        np.testing.assert_allclose(exact.unbalanced_loss(times, S, D, w, w), loss, rtol=1e-12)


def test_very_unbalanced_layers_give_the_exponential_of_a_kernel_machine():
    times = np.linspace(0, 0.1, 5)
    lazy = S / D * -np.expm1(-D * 100.0**2 * times / 100)
    found = exact.unbalanced_mode(times / 100, S, D, 0.0, 100.0)
    np.testing.assert_allclose(found, lazy, rtol=1e-3, atol=1e-12)  # laziness 1 - 1e-7; (s/d w2^2)^2 = 6e-8


def test_laziness_turns_from_rich_to_lazy():
    dial = exact.laziness(S, D, 0.1, np.array([0.1, 0.5, 2.0, 100.0]))
    assert dial[0] == 0
    assert np.all(np.diff(dial) > 0)
    assert dial[-1] == pytest.approx(1.0, abs=1e-6)
    # it is the final rate's share that the imbalance brings
    late = exact.unbalanced_loss(np.array([20.0, 21.0]), S, D, 0.1, 2.0)
    rate = -0.5 * np.log(late[1] / late[0])
    imbalance = 2.0**2 - 0.1**2
    assert D * imbalance / rate == pytest.approx(float(dial[2]), rel=1e-9)


@pytest.mark.parametrize(("first", "second"), STARTS)
def test_time_inverts_the_strength(first, second):
    a0 = first * second
    goals = a0 + (S / D - a0) * np.array([1e-6, 0.2, 0.7, 0.999])
    times = exact.unbalanced_time(goals, S, D, first, second)
    back = exact.unbalanced_mode(times, S, D, first, second)
    np.testing.assert_allclose(back - a0, goals - a0, rtol=1e-9, atol=1e-14)


def test_limits_of_a_criterion_and_the_valley_of_the_saddle():
    assert exact.unbalanced_time(S / D, S, D, 0.1, 0.3) == np.inf
    assert exact.unbalanced_time(9.0, S, D, 0.1, 0.3) == np.inf
    assert exact.unbalanced_time(0.0, S, D, 0.1, 0.3) == 0.0
    # exactly w1 = -w2 runs into the saddle: negative strengths are reached, zero never
    times = np.array([0.5, 2.0])
    valley = exact.unbalanced_mode(times, S, D, -0.5, 0.5)
    assert np.all(valley < 0)
    np.testing.assert_allclose(exact.unbalanced_time(valley, S, D, -0.5, 0.5), times, rtol=1e-12)
    assert exact.unbalanced_time(0.1, S, D, -0.5, 0.5) == np.inf
    assert float(exact.unbalanced_mode(1e6, S, D, -0.5, 0.5)) == 0.0


def test_nothing_overflows_at_very_late_times():
    first, second = np.array([1e-12, -0.3, 5.0]), np.array([1e-12, 1.0, 1e-3])
    np.testing.assert_allclose(exact.unbalanced_mode(1e6, S, D, first, second), S / D, rtol=1e-14)
    assert np.all(exact.unbalanced_loss(1e6, S, D, first, second) == 0)


def test_gradients(gradient_errors):
    for layers in ((1e-3, 1e-3), (0.1, 0.7), (-0.2, 0.9)):
        assert (gradient_errors(exact.unbalanced_mode, 2.0, S, D, *layers) < SLOPE).all()
    assert (gradient_errors(exact.unbalanced_time, 1.0, S, D, 0.1, 0.7) < SLOPE).all()
    assert (gradient_errors(lambda *p: exact.unbalanced_layers(*p)[0], 2.0, S, D, 0.1, 0.7) < SLOPE).all()


def test_bad_numbers_are_named():
    with pytest.raises(RangeError, match=r"first_layer and second_layer must not both be 0.*never learns"):
        exact.unbalanced_mode(1.0, S, D, 0.0, 0.0)
    with pytest.raises(RangeError, match=r"singular_value .* it was -1"):
        exact.unbalanced_mode(1.0, -1.0, D, 0.1, 0.1)
    with pytest.raises(RangeError, match=r"times .* it was -1"):
        exact.unbalanced_layers(-1.0, S, D, 0.1, 0.1)
