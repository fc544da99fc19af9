import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import hyp2f1

from neuralrace.errors import RangeError
from neuralrace.theory import exact

SLOPE = 1e-6  # central differences are right to about 1e-10 of truncation and rounding, times the curvature

DEPTHS = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 7.0, 30.0]
STARTS = [1e-12, 1e-4, 0.2, 0.41, 0.9, 8.0]  # below, across and above the end, s/d = 0.5
S, D = 0.65, 1.3


def rate(a, depth):
    return depth * a ** (2 - 2 / depth) * (S - D * a)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("a0", STARTS)
def test_time_is_the_integral_of_the_equation(depth, a0, padded):
    """Against scipy's adaptive quadrature of dt = da / rate in the log of the strength or of the gap."""
    fractions = np.array([1e-3, 0.3, 0.9, 0.9999])
    goals = a0 + (S / D - a0) * fractions
    found = padded(exact.deep_time)(goals, S, D, a0, depth)

    def by_gap(x):  # a = s/d - gap, gap = e^-x
        a = S / D - np.sign(S / D - a0) * np.exp(-x)
        return np.exp(-x) / abs(rate(a, depth))

    def by_strength(x):
        return np.exp(x) / rate(np.exp(x), depth)

    def slow(a, b):
        if a0 > S / D:
            return quad(by_gap, -np.log(a - S / D), -np.log(b - S / D), epsabs=0, epsrel=1e-12, limit=400)[0]
        knee = np.clip(S / D / 2, a, b)
        low = quad(by_strength, np.log(a), np.log(knee), epsabs=0, epsrel=1e-12, limit=400)[0] if knee > a else 0
        if knee >= b:
            return low
        return low + quad(by_gap, -np.log(S / D - knee), -np.log(S / D - b), epsabs=0, epsrel=1e-12, limit=400)[0]

    # quadrature at 1e-12, and the rounding of s/d - a at the last goal, 1e-16/1e-4
    np.testing.assert_allclose(found, [slow(a0, b) for b in goals], rtol=3e-11)


def test_time_is_the_hypergeometric_function(padded):
    """Scipy's 2F1 as a second oracle: the clock is u^(r-1)/(r-1) 2F1(1, r-1; r; u), r = 2/L."""
    for depth in (1.5, 3.0, 4.0, 7.0, 30.0):
        r, u0, u = 2 / depth, 1e-3, np.array([0.01, 0.3, 0.6, 0.97])

        def clock(u, r=r):
            return u ** (r - 1) / (r - 1) * hyp2f1(1, r - 1, r, u)

        found = padded(exact.deep_time)(u, 1.0, 1.0, u0, depth) * depth
        np.testing.assert_allclose(found, clock(u) - clock(u0), rtol=1e-12)


def test_mode_solves_its_equation(integrate, padded):
    """Before, through and long after the transition; near it a time error counts by the rate.

    At strength 1e-12 and depth 7 the plateau lasts 1e8 times as long as the transition, so scipy's 1e-12
    in time is all that either can promise: the bound is 1e-9 of (a + rate * t).
    """
    for depth in (1.5, 3.0, 7.0):
        for a0 in (1e-12, 8.0):
            half = float(padded(exact.deep_time)(0.5 * (a0 + S / D), S, D, a0, depth))
            times = half * np.array([0.0, 1e-3, 0.5, 0.99, 1.0, 1.01, 1.5, 3.0])

            # for L < 2 the strength leaves zero at a finite speed, so its root a^(2/L-1) is the smooth variable
            power = 2 / depth - 1 if depth < 2 else 0.0

            def field(t, y, depth=depth, power=power):
                if power:
                    a = np.maximum(y, 1e-300) ** (1 / power)
                    return power * depth * (S - D * a)
                a = np.exp(np.minimum(y, 20.0))
                return depth * a ** (1 - 2 / depth) * (S - D * a)

            start = [a0**power if power else np.log(a0)]
            states = integrate(field, start, times, "LSODA" if depth > 2 else "DOP853")[:, 0]
            oracle = states ** (1 / power) if power else np.exp(states)
            found = padded(exact.deep_mode)(times, S, D, a0, depth)
            scale = oracle + np.abs(rate(oracle, depth)) * times
            assert np.max(np.abs(found - oracle) / scale) < 1e-9, (depth, a0)


def test_one_and_two_layers_are_the_exponential_and_the_logistic(padded):
    times = np.array([0.0, 1e-3, 1.0, 10.0, 40.0, 1e3, 1e6])[:, None]
    a0 = np.array(STARTS)
    exponential = a0 - (S / D - a0) * np.expm1(-D * times)
    np.testing.assert_allclose(padded(exact.deep_mode)(times, S, D, a0, 1), exponential, rtol=1e-13)
    logistic = exact.two_layer_mode(times, S, D, a0)
    np.testing.assert_allclose(padded(exact.deep_mode)(times, S, D, a0, 2), logistic, rtol=1e-12)


def test_depth_is_continuous_through_two_layers(padded):
    around = padded(exact.deep_mode)(20.0, S, D, 1e-6, 2 + np.array([-1e-7, 0.0, 1e-7]))
    assert around[1] == pytest.approx(0.5 * (around[0] + around[2]), rel=1e-10)


def test_many_layers_tend_to_their_limit_at_first_order(padded):
    a0, scaled = 0.01, np.array([10.0, 100.0, 150.0, 160.0])
    limit = padded(exact.infinitely_deep_mode)(scaled, S, D, a0)
    gaps = [
        np.max(np.abs(padded(exact.deep_mode)(scaled / depth, S, D, a0, depth) - limit)) for depth in (1e3, 1e4, 1e5)
    ]
    ratios = np.array(gaps[:-1]) / np.array(gaps[1:])
    np.testing.assert_allclose(ratios, 10.0, rtol=0.1)  # first order in 1/L
    back = padded(exact.infinitely_deep_time)(limit, S, D, a0)
    np.testing.assert_allclose(back, scaled, rtol=1e-10)  # s/d - a has lost five digits at the last


def test_values_and_loss_survive_very_late_times(padded):
    depth = np.array(DEPTHS)
    half = padded(exact.deep_time)(0.25, S, D, 1e-12, depth)
    late = 1e6 + 3 * half
    np.testing.assert_allclose(padded(exact.deep_mode)(late, S, D, 1e-12, depth), S / D, rtol=1e-14)
    assert np.all(padded(exact.deep_loss)(late, S, D, 1e-12, depth) == 0)
    t = half[:, None] + np.array([10.0, 20.0]) / (depth * (S / D) ** (1 - 2 / depth) * S)[:, None]
    loss = padded(exact.deep_loss)(t, S, D, 1e-12, depth[:, None])
    # ten units of the scaled clock shrink the gap by e^-10 once it is small; here the loss is 1e-9 to 1e-18
    np.testing.assert_allclose(loss[:, 1] / loss[:, 0], np.exp(-20.0), rtol=1e-3)


def test_limits_of_a_criterion():
    for depth in (1.0, 2.0, 5.0):
        assert exact.deep_time(0.1, S, D, 0.2, depth) == 0.0
        assert exact.deep_time(S / D, S, D, 0.2, depth) == np.inf
        assert exact.deep_time(1.0, S, D, 0.2, depth) == np.inf


def test_gradients_to_every_argument(gradient_errors):
    for depth in (1.5, 2.0, 6.0):
        half = float(exact.deep_time(0.25, S, D, 1e-3, depth))
        assert (gradient_errors(exact.deep_mode, half, S, D, 1e-3, depth) < SLOPE).all()
        assert (gradient_errors(exact.deep_time, 0.3, S, D, 1e-3, depth) < SLOPE).all()
        assert (gradient_errors(exact.deep_mode, half, S, D, 3.0, depth) < SLOPE).all()


def test_bad_numbers_are_named():
    with pytest.raises(RangeError, match=r"depth must be finite and at least 1; it was 0.5.*one layer"):
        exact.deep_mode(1.0, S, D, 0.1, 0.5)
    with pytest.raises(RangeError, match=r"singular_value must be finite and above 0; it was -1"):
        exact.deep_mode(1.0, -1.0, D, 0.1, 3)
    with pytest.raises(RangeError, match=r"initial_strength .* it was 0"):
        exact.deep_time(0.1, S, D, 0.0, 3)
    with pytest.raises(RangeError, match=r"times .* it was -3"):
        exact.deep_mode([0.0, -3.0], S, D, 0.1, 3)
    with pytest.raises(RangeError, match=r"scaled_times"):
        exact.infinitely_deep_mode(-1.0, S, D, 0.1)
