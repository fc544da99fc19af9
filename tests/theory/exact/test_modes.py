"""Single modes against scipy's integrators and quadrature, and 400 decimal digits."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from neuralrace.errors import RangeError
from neuralrace.theory.exact import Mode, TwoLayer

STRENGTHS = [1e-12, 1e-6, 1e-2, 0.7, 5.0]
DEPTHS = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 7.0, 30.0]
S, D = 0.65, 1.3  # of deep paths; the end is 0.5


def decimal_mode(t: float, s: float, d: float, a0: float) -> tuple[Decimal, Decimal]:
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
    mode = TwoLayer(s, d, a0)
    # scipy's tolerance of 1e-12 per step adds up to less than 1e-10
    np.testing.assert_allclose(mode.strength(times), oracle, rtol=1e-10)
    goal = a0 + (s / d - a0) * np.array([1e-6, 0.1, 0.5, 0.9, 0.999])
    np.testing.assert_allclose(mode.strength(mode.time(goal)), goal, rtol=1e-12)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(t=st.floats(0, 60), s=st.floats(0.01, 5), d=st.floats(0.01, 5), exponent=st.floats(-12, 1))
def test_strength_and_loss_keep_their_digits(t, s, d, exponent):
    a0 = 10.0**exponent
    a, gap = decimal_mode(t, s, d, a0)
    # 2st up to 600 is rounded before exp, which costs up to 600 * 1e-16; the gap also s/d - a0 near balance
    rtol = 1e-13 + 4e-16 * (2 * s * t + s / d / max(abs(s / d - a0), 1e-300))
    assert float(TwoLayer(s, d, a0).strength(t)) == pytest.approx(float(a), rel=rtol)
    loss = 0.5 * d * float(gap) ** 2
    assert float(TwoLayer(s, d, a0).loss(t)) == pytest.approx(loss, rel=2 * rtol, abs=1e-250)


def test_limits_of_a_criterion():
    mode = TwoLayer(1.0, 1.0, 0.1)
    np.testing.assert_array_equal(mode.time([0.05, 1.0, 2.0]), [0.0, np.inf, np.inf])
    assert TwoLayer(1.0, 1.0, 2.0).time(0.5) == np.inf  # beyond the end, from above
    np.testing.assert_array_equal(
        Mode.deep(S, D, 0.2, [[1.0], [2.0], [5.0]]).time([0.1, S / D, 1.0]), [[0.0, np.inf, np.inf]] * 3
    )


def rate(a, depth):
    return depth * a ** (2 - 2 / depth) * (S - D * a)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("a0", [1e-12, 1e-4, 0.2, 0.41, 0.9, 8.0])  # below, across and above the end
def test_time_of_a_deep_path_is_the_integral_of_its_equation(depth, a0):
    """Against scipy's adaptive quadrature of dt = da / rate in the log of the strength or of the gap."""
    goals = a0 + (S / D - a0) * np.array([1e-3, 0.3, 0.9, 0.9999])
    found = Mode.deep(S, D, a0, depth).time(goals)

    def by_gap(x):  # a = s/d - gap, gap = e^-x
        a = S / D - np.sign(S / D - a0) * np.exp(-x)
        return np.exp(-x) / abs(rate(a, depth))

    def slow(a, b):
        knee = np.clip(S / D / 2, a, b) if a0 < S / D else a
        low = quad(
            lambda x: np.exp(x) / rate(np.exp(x), depth), np.log(a), np.log(knee), epsabs=0, epsrel=1e-12, limit=400
        )
        ends = -np.log(abs(S / D - knee)), -np.log(abs(S / D - b))
        high = quad(by_gap, *ends, epsabs=0, epsrel=1e-12, limit=400)
        return low[0] * (knee > a) + high[0] * (knee != b)

    # quadrature at 1e-12, and the rounding of s/d - a at the last goal, 1e-16/1e-4
    np.testing.assert_allclose(found, [slow(a0, b) for b in goals], rtol=3e-11)
    # beyond depth two a double that holds the time of a long plateau cannot resolve the transition after it
    plateau = np.abs(rate(goals, depth)) * found / goals
    back = Mode.deep(S, D, a0, depth).strength(found)
    assert np.max(np.abs(back / goals - 1) / (1 + plateau)) < 1e-13


def test_one_and_two_layers_are_the_exponential_and_the_logistic():
    times, a0 = np.array([0.0, 1e-3, 1.0, 10.0, 40.0, 1e3, 1e6])[:, None], np.array(STRENGTHS)
    exponential = a0 - (S / D - a0) * np.expm1(-D * times)
    np.testing.assert_allclose(Mode.deep(S, D, a0, 1).strength(times), exponential, rtol=1e-13)
    np.testing.assert_allclose(Mode.deep(S, D, a0, 2).strength(times), TwoLayer(S, D, a0).strength(times), rtol=1e-12)


def test_strength_and_loss_survive_very_late_times():
    depth = np.array(DEPTHS)
    half = Mode.deep(S, D, 1e-12, depth).time(0.25)
    late = 1e6 + 3 * half
    np.testing.assert_allclose(Mode.deep(S, D, 1e-12, depth).strength(late), S / D, rtol=1e-14)
    assert np.all(Mode.deep(S, D, 1e-12, depth).loss(late) == 0)
    t = half + np.array([[10.0], [20.0]]) / (depth * (S / D) ** (1 - 2 / depth) * S)
    loss = Mode.deep(S, D, 1e-12, depth).loss(t)
    # ten units of the scaled clock shrink the gap by e^-10 once it is small; here the loss is 1e-9 to 1e-18
    np.testing.assert_allclose(loss[1] / loss[0], np.exp(-20.0), rtol=1e-3)
    np.testing.assert_allclose(TwoLayer(50.0, 0.5, 1e-12).strength([1e3, 1e9]), 100.0, rtol=1e-15)


PAIRS = [(1e-12, 1e-12), (1e-12, 1e-8), (1e-12, 1.0), (2.0, 3.0), (1.5, 20.0)]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_unequal_layers_solve_their_equations(first, second, integrate):
    s, d, times = 1.2, 0.5, np.array([0.0, 0.01, 0.3, 3.0, 15.0, 22.0, 24.0, 40.0])
    unit = max(first, second)  # so that scipy's absolute tolerance does not swallow layers of 1e-12
    start = np.array([first, second]) / unit
    oracle = integrate(lambda t, w: w[::-1] * (s - d * unit**2 * w[0] * w[1]), start, times) * unit
    mode = Mode(s, d, [first, second])
    layers = mode.layers(times)
    # 1e-12 per step of scipy's, over about a hundred steps
    np.testing.assert_allclose(np.transpose(layers), oracle, rtol=3e-10, atol=1e-10 * unit)
    np.testing.assert_allclose(mode.strength(times), oracle.prod(1), rtol=3e-10, atol=1e-10 * unit**2)
    np.testing.assert_allclose(mode.loss(times), 0.5 * d * (s / d - oracle.prod(1)) ** 2, rtol=1e-8, atol=1e-12)
    conserved = layers[1] ** 2 - layers[0] ** 2
    np.testing.assert_allclose(conserved, second**2 - first**2, atol=1e-14 * np.max(oracle**2))
    goals = first * second + (s / d - first * second) * np.array([1e-6, 0.2, 0.7, 0.999])
    back = mode.strength(mode.time(goals))
    np.testing.assert_allclose(back - first * second, goals - first * second, rtol=1e-9, atol=1e-14)


def test_from_rich_to_lazy():
    times, w = np.array([0.0, 1.0, 5.0, 12.0, 30.0, 1e6]), np.array([1e-6, 0.03, 2.0])
    rich, logistic = Mode(1.2, 0.5, w[:, None], 2), TwoLayer(1.2, 0.5, w**2)
    np.testing.assert_allclose(rich.strength(times[:, None]), logistic.strength(times[:, None]), rtol=1e-13)
    lazy = 2.4 * -np.expm1(-0.5 * 100.0**2 * times / 1e5)  # the exponential of a kernel machine
    found = Mode(1.2, 0.5, [1e-15, 100.0]).strength(times / 1e5)
    np.testing.assert_allclose(found, lazy, rtol=1e-3, atol=1e-12)  # laziness 1 - 1e-7; (s/d w2^2)^2 = 6e-8


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_relu_network_of_rank_one_follows_one_mode(slope, integrate):
    """Scalar output, W1 = u p^T and W2 = b u^T with sum u|u| = 0, aligned, on sign-symmetric data."""
    half = np.random.default_rng(3).normal(size=(20, 3))
    x = np.vstack([half, -half])
    x = x @ np.linalg.inv(np.linalg.cholesky(x.T @ x / len(x))).T
    direction, u, scale = np.array([2.0, -1.0, 2.0]) / 3, np.array([0.5, 0.3, 0.4, -0.5, -0.5]), 0.02
    y = 1.7 * x @ direction
    times = np.array([0.0, 1.0, 3.0, 5.0, 10.0])

    def outputs(state):
        w1, w2 = state[:15].reshape(5, 3), state[15:]
        before = x @ w1.T
        gate = np.where(before > 0, 1.0, slope)
        return w1, w2, gate, gate * before, (gate * before) @ w2

    def field(_, state):
        _, w2, gate, hidden, output = outputs(state)
        error = (y - output) / len(x)
        return np.concatenate([((error[:, None] * w2 * gate).T @ x).ravel(), error @ hidden])

    states = integrate(field, np.concatenate([scale * np.outer(u, direction).ravel(), scale * u]), times)
    found = np.array([outputs(state)[-1] for state in states])
    c = (1 + slope) / 2  # a linear network at the time c t
    linear = TwoLayer(1.7, 1.0, c * scale**2 * np.sum(u**2))
    np.testing.assert_allclose(linear.strength(c * times)[:, None] * (x @ direction), found, atol=1e-9)


def test_three_unequal_layers_solve_their_equations(integrate):
    start, powers, counts = np.array([0.02, 0.3, 0.1]), np.array([1, 2, 1]), np.array([2.0, 0.5, 3.0])
    mode, times = Mode(1.2, 0.5, start, powers, counts), np.array([0.0, 1.0, 4.0, 6.0, 7.0, 8.0, 12.0])

    def field(_, layers):
        product = np.prod(layers**powers)
        return counts * product / layers * (1.2 - 0.5 * product)

    layers = integrate(field, start, times)
    np.testing.assert_allclose(np.transpose(mode.layers(times)), layers, rtol=1e-9)  # scipy's 1e-12, added up
    np.testing.assert_allclose(mode.time(np.prod(layers**powers, axis=1)[1:5]), times[1:5], rtol=1e-9)


def test_everything_broadcasts():
    times, modes, starts = np.ones((7, 1, 1)), np.ones((3, 1)), np.full(2, 0.1)
    unequal = Mode(modes, 1.0, [[0.1, 0.2]] * 2, [1, 2])
    for mode in (TwoLayer(modes, 1.0, starts), Mode.deep(modes, 1.0, starts, 3), unequal):
        assert mode.strength(times).shape == mode.loss(times).shape == (7, 3, 2)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            lambda: TwoLayer(1.0, 1.0, 0.1).strength(-1.0),
            "times must be finite and at least 0; it was -1.*runs forward",
        ),
        (lambda: Mode(1.0, 1.0, [0.1, 0.0]), r"start must be finite and above 0; it was 0 at position .*never learns"),
        (lambda: TwoLayer([1.0, np.nan], 1.0, 0.1), r"singular_value .* it was nan at position \(1,\)"),
        (lambda: TwoLayer("fast", 1.0, 0.1), "singular_value must be an array of numbers; it was str"),
        (lambda: Mode.deep(S, D, 0.1, 0.5), "depth must be finite and at least 1; it was 0.5.*one layer"),
    ],
)
def test_bad_numbers_are_named(made, words):
    with pytest.raises(RangeError, match=words):
        made()
