import jax
import numpy as np
import pytest

from neuralrace.arrays import float64
from neuralrace.errors import AssumptionError, RangeError
from neuralrace.theory import exact


def rotation(rng, n):
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


def balanced(rng, inputs, hidden, outputs, imbalance, strength):
    """Unaligned weights with W2^T W2 - W1 W1^T = imbalance I; the larger layer must reach every hidden unit."""
    small = np.zeros(hidden)
    rank = min(hidden, inputs, outputs)
    small[:rank] = strength * rng.uniform(0.5, 1.5, rank)
    large = np.sqrt(small**2 + abs(imbalance))
    first, second = (small, large) if imbalance >= 0 else (large, small)
    middle = rotation(rng, hidden)
    w1 = np.zeros((hidden, inputs))
    w2 = np.zeros((outputs, hidden))
    np.fill_diagonal(w1, first[: min(w1.shape)])
    np.fill_diagonal(w2, second[: min(w2.shape)])
    return middle @ w1 @ rotation(rng, inputs), rotation(rng, outputs) @ w2 @ middle.T


def integrated(integrate, correlation, first, second, times):
    cut = first.size

    def field(_, state):
        w1, w2 = state[:cut].reshape(first.shape), state[cut:].reshape(second.shape)
        error = correlation - w2 @ w1
        return np.concatenate([(w2.T @ error).ravel(), (error @ w1.T).ravel()])

    states = integrate(field, np.concatenate([first.ravel(), second.ravel()]), times)
    return states[:, :cut].reshape(-1, *first.shape), states[:, cut:].reshape(-1, *second.shape)


SHAPES = [(3, 4, 2), (2, 3, 4), (3, 2, 4), (3, 3, 3), (1, 1, 1)]  # the hidden layer widest, between, narrowest


def starts(inputs, hidden, outputs):
    """Weights with lambda zero and of either sign, where the larger layer can reach all hidden units."""
    rng = np.random.default_rng(inputs + 10 * hidden + 100 * outputs)
    possible = [0.0] + [0.7] * (hidden <= outputs) + [-0.7] * (hidden <= inputs)
    for imbalance in possible:
        for strength in (1e-5, 0.4):
            first, second = balanced(rng, inputs, hidden, outputs, imbalance, strength)
            correlation = rng.normal(size=(outputs, inputs)) + 1.5 * np.eye(outputs, inputs)
            square = inputs == hidden == outputs
            if square and np.linalg.det(second @ first) * np.linalg.det(correlation) < 0:
                correlation[0] *= -1  # keep to the side of the saddle from which the task can be learned
            yield correlation, first, second


@pytest.mark.parametrize("shape", SHAPES)
def test_flow_is_that_of_the_matrices(shape, integrate):
    times = np.array([0.0, 0.03, 0.5, 2.0, 5.0, 10.0])
    for correlation, first, second in starts(*shape):
        w1, w2 = integrated(integrate, correlation, first, second, times)
        flow = exact.lambda_balanced_flow(np.append(times, [1e3, 1e6]), correlation, first, second)
        # a saddle on the way multiplies scipy's 1e-12 by the growth since, which stays below 1e4 here
        close = {"rtol": 1e-8, "atol": 1e-8}
        np.testing.assert_allclose(flow.function[:-2], w2 @ w1, **close)
        np.testing.assert_allclose(flow.input_gram[:-2], w1.transpose(0, 2, 1) @ w1, **close)
        np.testing.assert_allclose(flow.output_gram[:-2], w2 @ w2.transpose(0, 2, 1), **close)
        # long after, the strongest modes that the hidden layer has room for are learned, and no more
        u, s, v = np.linalg.svd(correlation)
        kept = min(shape)
        learned = (u[:, :kept] * s[:kept]) @ v[:kept]
        np.testing.assert_allclose(flow.function[-2:], [learned, learned], atol=1e-9)
        assert np.all(np.isfinite(flow.input_gram))
        assert np.all(np.isfinite(flow.output_gram))


def test_small_weights_keep_relative_digits_on_the_plateau(integrate):
    rng = np.random.default_rng(5)
    first, second = balanced(rng, 3, 4, 2, 0.0, 1.0)
    correlation = rng.normal(size=(2, 3))
    tiny = exact.lambda_balanced_flow(np.ones(8), correlation, 1e-12 * first, 1e-12 * second)
    # linear growth: W1, W2 move by exp of the off-diagonal generator; its next order is 1e-24
    values, vectors = np.linalg.eigh(np.block([[np.zeros((3, 3)), correlation.T], [correlation, np.zeros((2, 2))]]))
    grown = vectors @ np.diag(np.exp(values)) @ vectors.T @ np.vstack([first.T, second])
    np.testing.assert_allclose(tiny.function[0], 1e-24 * grown[3:] @ grown[:3].T, rtol=1e-11)


def test_slow_winners_are_resolved_long_after_their_exponentials_have_overflowed():
    """Two modes race for one hidden unit at rates that differ by 1e-4; at t = 2e4 the exponents are 2e4."""
    correlation = np.diag([1.0, 1.0 - 1e-4])
    first, second = np.array([[0.6e-3, 0.8e-3]]), np.array([[0.6e-3], [0.8e-3]])
    times = np.array([0.0, 1e2, 1e3, 5e3, 1e4, 2e4, 5e4, 2e5])
    function = exact.lambda_balanced_flow(times, correlation, first, second).function
    # the direction obeys d log(v1/v2)/dt = 1e-4 while and after the amplitude saturates
    ratio = 0.75 * np.exp(1e-4 * times)
    np.testing.assert_allclose(function[:, 0, 0] / function[:, 0, 1], ratio, rtol=1e-6)


def test_a_mode_that_the_weights_do_not_touch_stays_on_its_saddle():
    correlation = np.diag([2.0, 1.0])
    first, second = np.array([[0.1, 0.0]]), np.array([[0.1], [0.0]])
    times = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 1e3, 1e6])
    late = exact.lambda_balanced_flow(times, correlation, first, second).function
    np.testing.assert_allclose(late[:, 0, 0], exact.two_layer_mode(times, 2.0, 1.0, 0.01), rtol=1e-13)
    assert np.all(late[:, 1, 1] == 0)


def test_one_unit_is_the_unbalanced_mode():
    times = np.array([0.0, 0.1, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0])
    flow = exact.lambda_balanced_flow(times, [[1.3]], [[0.2]], [[-0.9]])
    np.testing.assert_allclose(flow.function[:, 0, 0], exact.unbalanced_mode(times, 1.3, 1.0, 0.2, -0.9), rtol=1e-12)
    w1, w2 = exact.unbalanced_layers(times, 1.3, 1.0, 0.2, -0.9)
    np.testing.assert_allclose(flow.input_gram[:, 0, 0], w1**2, rtol=1e-12)
    np.testing.assert_allclose(flow.output_gram[:, 0, 0], w2**2, rtol=1e-12)


def test_tangent_kernel_moves_the_function():
    rng = np.random.default_rng(3)
    first, second = balanced(rng, 3, 2, 4, 0.5, 0.3)
    correlation = rng.normal(size=(4, 3))
    step = 1e-5
    times = 1.0 + step * np.array([-1, 0, 1, 0, 0, 0, 0, 0])
    flow = exact.lambda_balanced_flow(times, correlation, first, second)
    kernel = exact.tangent_kernel(flow.input_gram, flow.output_gram)
    assert kernel.shape == (8, 12, 12)
    velocity = kernel[1] @ (correlation - flow.function[1]).ravel()
    difference = (flow.function[2] - flow.function[0]).ravel() / (2 * step)
    np.testing.assert_allclose(velocity, difference, rtol=1e-7, atol=1e-9)  # central difference, 1e-10


def test_gradients_even_where_eigenvalues_coincide():
    rng = np.random.default_rng(4)
    first, second = balanced(rng, 3, 2, 4, 0.0, 0.4)
    weight = rng.normal(size=(4, 3))

    def probe(target, t):  # eight times, as elsewhere, of which one counts
        return (exact.lambda_balanced_flow(t * np.ones(8), target, first, second).function[0] * weight).sum()

    slopes = float64(jax.jit(jax.grad(probe, (0, 1))))
    for correlation in (rng.normal(size=(4, 3)), np.eye(4, 3)):
        to_target, to_time = slopes(correlation, 1.5)
        for index in np.ndindex(correlation.shape):
            step = np.zeros_like(correlation)
            step[index] = 1e-5
            difference = (probe(correlation + step, 1.5) - probe(correlation - step, 1.5)) / 2e-5
            assert float(to_target[index]) == pytest.approx(float(difference), rel=1e-6, abs=1e-8)
        difference = (probe(correlation, 1.5 + 1e-5) - probe(correlation, 1.5 - 1e-5)) / 2e-5
        assert float(to_time) == pytest.approx(float(difference), rel=1e-7)


def test_imbalance_is_found_and_wrong_weights_are_refused():
    rng = np.random.default_rng(2)
    value, residual = exact.imbalance(*balanced(rng, 4, 3, 2, -0.7, 0.3))
    assert float(value) == pytest.approx(-0.7, rel=1e-12)
    assert residual < 1e-14
    with pytest.raises(AssumptionError, match=r"lambda-balanced.*relative residual was 0\.\d+"):
        exact.lambda_balanced_flow(1.0, np.eye(2), rng.normal(size=(2, 2)), rng.normal(size=(2, 2)))


def test_bad_arguments_are_named():
    square = np.eye(2)
    with pytest.raises(RangeError, match=r"one hidden size; the shapes were \(3, 3\) and \(2, 2\)"):
        exact.lambda_balanced_flow(1.0, square, np.eye(3), square)
    with pytest.raises(RangeError, match=r"correlation must be \(outputs, inputs\) = \(2, 2\)"):
        exact.lambda_balanced_flow(1.0, np.ones((3, 2)), square, square)
    with pytest.raises(RangeError, match=r"times .* it was -1"):
        exact.lambda_balanced_flow(-1.0, square, square, square)
    with pytest.raises(RangeError, match=r"must not both be 0"):
        exact.lambda_balanced_flow(1.0, square, 0 * square, 0 * square)
    with pytest.raises(RangeError, match=r"first_layer must be finite; it was nan"):
        exact.lambda_balanced_flow(1.0, square, np.nan * square, square)
