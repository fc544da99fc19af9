from decimal import Decimal, localcontext

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralrace.arrays import float64
from neuralrace.errors import NeuralRaceError, RangeError
from neuralrace.theory import exact

SLOPE = 1e-6  # central differences are right to about 1e-10 of truncation and rounding, times the curvature

STRENGTHS = [1e-12, 1e-6, 1e-2, 0.7, 5.0]


def exact_mode(t: float, s: float, d: float, a0: float) -> tuple[Decimal, Decimal]:
    """P2 eq. 7 and the gap s/d - a in four hundred decimal digits."""
    with localcontext() as context:
        context.prec = 400
        t, s, d, a0 = (Decimal(x) for x in (t, s, d, a0))
        a = (s / d) / (1 - (1 - s / (d * a0)) * (-2 * s * t).exp())
        return a, s / d - a


@pytest.mark.parametrize("a0", STRENGTHS)
def test_mode_solves_its_equation(a0, integrate):
    s, d = 1.3, 0.6
    times = np.array([0.0, 0.1, 1.0, 5.0, 10.0, 11.0, 12.0, 20.0, 100.0])
    oracle = np.exp(integrate(lambda t, y: 2 * (s - d * np.exp(y)), np.log([a0]), times)[:, 0])
    # scipy's tolerance of 1e-12 per step adds up to less than 1e-10
    np.testing.assert_allclose(exact.two_layer_mode(times, s, d, a0), oracle, rtol=1e-10)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    t=st.floats(0, 60),
    s=st.floats(0.01, 5),
    d=st.floats(0.01, 5),
    exponent=st.floats(-12, 1),
)
def test_value_and_gap_keep_their_digits(t, s, d, exponent):
    a0 = 10.0**exponent
    a, gap = exact_mode(t, s, d, a0)
    # 2st up to 600 is rounded before exp, which costs up to 600 * 1e-16; the gap also s/d - a0 near balance
    rtol = 1e-13 + 2e-16 * (2 * s * t + s / d / max(abs(s / d - a0), 1e-300))
    assert float(exact.two_layer_mode(t, s, d, a0)) == pytest.approx(float(a), rel=rtol)
    assert float(exact.two_layer_gap(t, s, d, a0)) == pytest.approx(float(gap), rel=rtol, abs=1e-250)


def test_nothing_overflows_at_very_late_times():
    late = exact.two_layer_mode([1e3, 1e6, 1e9], 50.0, 0.5, 1e-12)
    np.testing.assert_allclose(late, 100.0, rtol=1e-15)
    assert exact.two_layer_loss(1e9, 50.0, 0.5, 1e-12) == 0.0
    slope = float64(jax.grad(exact.two_layer_mode, (0, 1, 2, 3)))(1e6, 50.0, 0.5, 1e-12)
    np.testing.assert_allclose(np.array(slope), [0.0, 2.0, -200.0, 0.0], rtol=1e-14, atol=1e-14)


def test_a_mode_without_signal_decays_as_a_power():
    np.testing.assert_allclose(exact.two_layer_mode([0.0, 3.0], 0.0, 0.5, 2.0), [2.0, 2 / (1 + 2 * 0.5 * 2 * 3)])
    assert float(exact.two_layer_time(0.5, 0.0, 0.5, 2.0)) == pytest.approx((1 / 0.5 - 1 / 2) / (2 * 0.5))


@pytest.mark.parametrize("a0", STRENGTHS)
def test_time_inverts_the_mode(a0):
    s, d = 1.3, 0.6
    fractions = np.array([1e-6, 0.1, 0.5, 0.9, 0.999])
    goal = a0 + (s / d - a0) * fractions
    times = exact.two_layer_time(goal, s, d, a0)
    np.testing.assert_allclose(exact.two_layer_mode(times, s, d, a0), goal, rtol=1e-12)


def test_time_to_a_loss_inverts_the_loss():
    s, d, power = np.array([1.3, 0.4]), 0.6, 4.0
    for a0 in STRENGTHS:
        start = exact.two_layer_loss(0.0, s, d, a0, power)
        floor = 0.5 * (power - s**2 / d)
        level = floor + 0.01 * (start - floor)
        times = exact.two_layer_time_to_loss(level, s, d, a0, power)
        # the remaining excess is a hundredth of the loss, so a rounding counts a hundredfold
        np.testing.assert_allclose(exact.two_layer_loss(times, s, d, a0, power), level, rtol=1e-12)


def test_loss_is_the_loss_of_the_data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = 0.7 * x + rng.normal(size=200)
    s, d, power = np.mean(x * y), np.mean(x**2), np.mean(y**2)
    a = exact.two_layer_mode(1.5, s, d, 0.01)
    assert float(exact.two_layer_loss(1.5, s, d, 0.01, power)) == pytest.approx(0.5 * np.mean((y - a * x) ** 2))


def test_limits_of_a_criterion():
    assert exact.two_layer_time(0.5, 1.0, 1.0, 0.9) == 0.0, "passed before the start"
    assert exact.two_layer_time(1.0, 1.0, 1.0, 0.1) == np.inf, "the end itself"
    assert exact.two_layer_time(2.0, 1.0, 1.0, 0.1) == np.inf, "beyond the end"
    assert exact.two_layer_time(0.5, 1.0, 1.0, 2.0) == np.inf, "beyond the end from above"
    assert exact.two_layer_time_to_loss(0.0, 1.0, 1.0, 0.1) == np.inf
    assert exact.two_layer_time_to_loss(0.4, 1.0, 1.0, 0.1, target_power=2.0) == np.inf
    assert exact.two_layer_time_to_loss(9.0, 1.0, 1.0, 0.1) == 0.0


def test_gradients(gradient_errors):
    for t in (0.5, 8.0, 12.0):
        assert (gradient_errors(exact.two_layer_mode, t, 1.3, 0.6, 1e-6) < SLOPE).all()
        assert (gradient_errors(lambda *p: exact.two_layer_loss(*p) ** 0.5, t, 1.3, 0.6, 1e-6) < SLOPE).all()
    assert (gradient_errors(exact.two_layer_time, 1.0, 1.3, 0.6, 1e-6) < SLOPE).all()
    assert (gradient_errors(exact.two_layer_time_to_loss, 0.1, 1.3, 0.6, 1e-6) < SLOPE).all()


def test_gradient_exists_where_the_singular_value_vanishes():
    slope = float64(jax.grad(exact.two_layer_mode, 1))(2.0, 0.0, 0.5, 0.1)
    step = 1e-6
    ahead, here = exact.two_layer_mode(2.0, [step, 0.0], 0.5, 0.1)
    assert float(slope) == pytest.approx((ahead - here) / step, rel=1e-5)  # a one-sided difference


def test_everything_broadcasts():
    times, modes, starts = np.ones((7, 1, 1)), np.ones((3, 1)), np.full(2, 0.1)
    assert exact.two_layer_mode(times, modes, 1.0, starts).shape == (7, 3, 2)
    assert exact.two_layer_mode(times, modes, 1.0, starts).dtype == np.float64
    assert isinstance(exact.two_layer_mode(1.0, 1.0, 1.0, 0.1), np.ndarray)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-1.0, 1.0, 1.0, 0.1), "times must be finite and at least 0; it was -1"),
        ((1.0, -2.0, 1.0, 0.1), "singular_value must be finite and at least 0; it was -2"),
        ((1.0, 1.0, 0.0, 0.1), "input_variance must be finite and above 0; it was 0"),
        ((1.0, 1.0, 1.0, 0.0), "initial_strength must be finite and above 0; it was 0.*never learns"),
        ((1.0, [1.0, np.nan], 1.0, 0.1), r"singular_value .* it was nan at position \(1,\)"),
        ((1.0, "fast", 1.0, 0.1), "singular_value must be an array of numbers; it was str"),
    ],
)
def test_bad_numbers_are_named(arguments, words):
    with pytest.raises(RangeError, match=words) as caught:
        exact.two_layer_mode(*arguments)
    assert isinstance(caught.value, NeuralRaceError)
