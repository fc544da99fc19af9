from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from neuralrace.errors import RangeError
from neuralrace.theory import exact

SLOPE = 1e-6  # central differences are right to about 1e-10 of truncation and rounding, times the curvature

# S, D, B1(0), B2(0), M, P: equal and unequal layers, C of both signs and zero, start above the end
CASES = [
    (3.0, 1.0, 1e-12, 1e-12, 7, 49),
    (3.0, 0.25, 0.08, 0.08, 7, 49),
    (3.0, 0.25, 0.2, 0.2, 10, 4),
    (2.0, 1.0, 1e-6, 0.5, 3, 9),
    (2.0, 1.0, 0.5, 1e-6, 3, 9),
    (2.0, 1.0, 0.5, 0.5 * np.sqrt(3), 3, 9),
    (1.0, 1.0, 2.0, 2.0, 4, 16),
    (1.0, 1.0, 0.1, 3.0, 4, 1),
]
S, D, OUTER, HIDDEN, DOMAINS, PATHS = np.array(CASES).T


def field(case):
    s, d, _, _, domains, paths = case

    def logs(_, y):  # P1 eqs 16-17 for log B1 and log B2
        outer, hidden = np.exp(np.minimum(y, 20.0))
        error = s - hidden * outer**2 * d
        return np.sqrt(paths) / domains**2 * hidden * error, paths / domains**2 * outer**2 / hidden * error

    return logs


def test_layers_solve_eqs_16_and_17(integrate, padded):
    """All cases at once; near a steep transition a time error counts by the rate times the time."""
    half = padded(exact.routing_time)(
        0.5 * (HIDDEN + exact.routing_final(*np.array(CASES).T).hidden), *np.array(CASES).T
    )
    times = half * np.array([0.0, 0.01, 0.9, 1.0, 1.1, 1.5, 4.0])[:, None]
    found = padded(exact.routing_layers)(times, *np.array(CASES).T)
    for i, case in enumerate(CASES):
        if i == 0:  # a transition of length 1 after a plateau of 1e12: see the quadrature below
            continue
        states = integrate(field(case), np.log(case[2:4]), times[:, i])
        for layer, state, k in zip(found, states.T, (0, 1), strict=True):
            rates = np.array([field(case)(0, y)[k] for y in states])
            error = np.abs(np.log(layer[:, i]) - state) / (1 + np.abs(rates) * times[:, i])
            assert np.max(error) < 1e-9, (case, k)


@pytest.mark.parametrize("case", CASES)
def test_time_is_the_integral_of_eq_15(case):
    """Against scipy's adaptive quadrature of dt = dB2 / rate, in log B2 and then in the log of the gap."""
    s, d, outer, hidden, domains, paths = case
    m, g = np.sqrt(paths), np.sqrt(paths) / domains**2
    end = float(exact.routing_final(*case).hidden)

    def slowness(step):  # by the distance from the start, so that b^2 + C keeps its digits
        square = m * outer**2 + step * (2 * hidden + step)
        return 1 / (g * square * (s - (hidden + step) * square * d / m))

    goals = hidden + (end - hidden) * np.array([1e-3, 0.5, 0.999])
    found = exact.routing_time(goals, *case)
    for goal, t in zip(goals, found, strict=True):
        sign = np.sign(end - hidden)
        half = min(abs(goal - hidden), abs(end - hidden) / 2)

        def early(x, sign=sign):
            return slowness(sign * np.exp(x)) * sign * np.exp(x)

        def late(x, sign=sign):
            return slowness(end - hidden - sign * np.exp(-x)) * sign * np.exp(-x)

        pieces = np.linspace(np.log(half) - 60, np.log(half), 13)  # from e^-60 of the way
        total = sum(quad(early, *ends, epsabs=0, epsrel=1e-12)[0] for ends in pairwise(pieces))
        if abs(goal - hidden) > half:
            total += quad(late, -np.log(abs(end - hidden) - half), -np.log(abs(end - goal)), epsrel=1e-12)[0]
        # the rate loses three digits at the last goal, where S - B2 B1^2 D is a thousandth of S
        assert t == pytest.approx(total, rel=1e-10)


def test_full_sharing_is_eq_15_and_needs_no_number_of_paths(padded):
    times = np.array([0.0, 3.0, 10.0, 3.0 + 1e-5, 3.0 - 1e-5])
    default = padded(exact.routing_layers)(times, 3.0, 1.0, 0.1, 0.2, 7)
    named = padded(exact.routing_layers)(times, 3.0, 1.0, 0.1, 0.2, 7, 49)
    np.testing.assert_allclose(default, named, rtol=1e-14)
    c = 7 * 0.1**2 - 0.2**2
    b = default.hidden[1]
    rate = (b**2 + c) / 7 * (3.0 - b * (b**2 + c) / 7)  # P1 eq. 15
    assert (default.hidden[3] - default.hidden[4]) / 2e-5 == pytest.approx(rate, rel=1e-8)


def test_time_inverts_the_hidden_layer(padded):
    final = exact.routing_final(*np.array(CASES).T).hidden
    goals = HIDDEN + (final - HIDDEN) * np.array([1e-6, 0.1, 0.5, 0.99])[:, None]
    times = padded(exact.routing_time)(goals, *np.array(CASES).T)
    back = padded(exact.routing_layers)(times, *np.array(CASES).T).hidden
    outer = np.sqrt((goals**2 + exact.routing_invariant(OUTER, HIDDEN, DOMAINS, PATHS)) / np.sqrt(PATHS))
    rates = PATHS / DOMAINS**2 * outer**2 / goals * (S - goals * outer**2 * D)
    # a rounding of the time counts by the rate
    assert np.max(np.abs(np.log(back / goals)) / (1 + np.abs(rates) * times)) < 1e-14


def test_invariant_stays(padded):
    times = np.array([0.0, 5.0, 50.0, 1e4])[:, None]
    layers = padded(exact.routing_layers)(times, *np.array(CASES).T)
    kept = exact.routing_invariant(layers.outer, layers.hidden, DOMAINS, PATHS)
    start = exact.routing_invariant(OUTER, HIDDEN, DOMAINS, PATHS)
    np.testing.assert_allclose(kept, np.broadcast_to(start, kept.shape), atol=1e-14 * 20)


def test_end_solves_the_task_and_keeps_the_invariant():
    final = exact.routing_final(*np.array(CASES).T)
    np.testing.assert_allclose(final.hidden * final.outer**2, S / D, rtol=1e-14)
    kept = exact.routing_invariant(final.outer, final.hidden, DOMAINS, PATHS)
    np.testing.assert_allclose(kept, exact.routing_invariant(OUTER, HIDDEN, DOMAINS, PATHS), atol=1e-13)


def test_ratio_of_layers_is_a_limit_with_a_correction():
    """P1 eqs 51 and 56 give sqrt(M) and P^(1/4); at finite strength the ratio is sqrt(sqrt(P) - C/B1^2)."""
    final = exact.routing_final(*np.array(CASES).T)
    c = exact.routing_invariant(OUTER, HIDDEN, DOMAINS, PATHS)
    ratio = exact.routing_ratio(final.outer, c, DOMAINS, PATHS)
    np.testing.assert_allclose(final.hidden / final.outer, ratio, rtol=1e-12)
    # P1 Fig. 4: M = 7 from 0.08 the ratio of the largest mode is close to sqrt(7), not equal to it
    fourth = exact.routing_final(np.sqrt(185) / 4, 1 / 4, 0.08, 0.08, 7)
    gap = float(fourth.hidden / fourth.outer) - np.sqrt(7)
    assert -3e-3 < gap < -1e-3
    for strength in (1e-2, 1e-4):  # the correction is of second order in the strength
        near = exact.routing_final(1.0, 1.0, strength, strength, 9, 16)
        assert abs(float(near.hidden / near.outer) - 16**0.25) < 2 * strength**2


def test_more_sharing_learns_faster(padded):
    times = padded(exact.routing_time)(1.0, 3.0, 1.0, 0.01, 0.01, 10, np.array([1, 4, 25, 100]))
    assert np.all(np.diff(times) < 0)


def test_loss_is_accurate_in_its_tail_and_nothing_overflows(padded):
    loss = padded(exact.routing_loss)(np.array([30.0, 31.0]), 3.0, 1.0, 0.1, 0.1, 4)
    end = exact.routing_final(3.0, 1.0, 0.1, 0.1, 4)
    rate = (2 * end.hidden**2 * end.outer**2 / 4 + end.outer**4) * 1.0  # kernel of the product at the end
    assert np.log(loss[0] / loss[1]) == pytest.approx(2 * rate, rel=1e-9)
    assert loss[0] < 1e-60
    late = padded(exact.routing_layers)(1e6, *np.array(CASES[1:]).T)
    np.testing.assert_allclose(late.hidden, exact.routing_final(*np.array(CASES[1:]).T).hidden, rtol=1e-14)


def test_limits_of_a_criterion():
    assert exact.routing_time(0.05, 3.0, 1.0, 0.1, 0.1, 4) == 0.0
    assert exact.routing_time(99.0, 3.0, 1.0, 0.1, 0.1, 4) == np.inf


def test_gradients(gradient_errors):
    def hidden(*p):
        return exact.routing_layers(*p, 7.0 + 0.0 * p[0]).hidden  # of the size of the others, as it is compiled already

    assert (gradient_errors(hidden, 5.0, 3.0, 0.8, 0.1, 0.1) < SLOPE).all()
    assert (gradient_errors(hidden, 5.0, 3.0, 0.8, 0.05, 0.5) < SLOPE).all()
    # C = 0 is where arc tangent, logarithm and power meet; the derivatives must not notice
    assert (gradient_errors(hidden, 4.0, 3.0, 0.8, 0.2, 0.2 * np.sqrt(7)) < SLOPE).all()
    assert (gradient_errors(lambda *p: exact.routing_time(*p, 7), 1.0, 3.0, 0.8, 0.1, 0.1) < SLOPE).all()


def test_bad_numbers_are_named():
    with pytest.raises(RangeError, match=r"outer must be finite and above 0; it was 0.*never learns"):
        exact.routing_layers(1.0, 1.0, 1.0, 0.0, 0.1, 4)
    with pytest.raises(RangeError, match=r"hidden must be finite and above 0"):
        exact.routing_layers(1.0, 1.0, 1.0, 0.1, -0.1, 4)
    with pytest.raises(RangeError, match=r"singular_value .* it was -2"):
        exact.routing_time(1.0, -2.0, 1.0, 0.1, 0.1, 4)
    with pytest.raises(RangeError, match=r"paths .*at most 1; it was 1.25.*routes"):
        exact.routing_layers(1.0, 1.0, 1.0, 0.1, 0.1, 2, 5)
    with pytest.raises(RangeError, match=r"times .* it was -1"):
        exact.routing_layers(-1.0, 1.0, 1.0, 0.1, 0.1, 4)
    with pytest.raises(RangeError, match=r"cannot be negative"):
        exact.routing_ratio(0.1, 1.0, 4)
