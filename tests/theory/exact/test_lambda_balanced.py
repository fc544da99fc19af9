import numpy as np
import pytest

from neuralrace.errors import AssumptionError, RangeError
from neuralrace.theory.exact import LambdaBalanced, SignSymmetric, TwoLayer, Unbalanced


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
        network = LambdaBalanced(correlation, first, second)
        function, (first_gram, second_gram) = (
            f(np.append(times, [1e3, 1e6])) for f in (network.strength, network.grams)
        )
        # a saddle on the way multiplies scipy's 1e-12 by the growth since, which stays below 1e4 here
        close = {"rtol": 1e-8, "atol": 1e-8}
        np.testing.assert_allclose(function[:-2], w2 @ w1, **close)
        np.testing.assert_allclose(first_gram[:-2], w1.transpose(0, 2, 1) @ w1, **close)
        np.testing.assert_allclose(second_gram[:-2], w2 @ w2.transpose(0, 2, 1), **close)
        # long after, the strongest modes that the hidden layer has room for are learned, and no more
        u, s, v = np.linalg.svd(correlation)
        kept = min(shape)
        learned = (u[:, :kept] * s[:kept]) @ v[:kept]
        np.testing.assert_allclose(function[-2:], [learned, learned], atol=1e-9)
        assert np.isfinite(first_gram).all()
        assert np.isfinite(second_gram).all()


def test_small_weights_keep_relative_digits_on_the_plateau(integrate):
    rng = np.random.default_rng(5)
    first, second = balanced(rng, 3, 4, 2, 0.0, 1.0)
    correlation = rng.normal(size=(2, 3))
    tiny = LambdaBalanced(correlation, 1e-12 * first, 1e-12 * second).strength(1.0)
    # linear growth: W1, W2 move by exp of the off-diagonal generator; its next order is 1e-24
    values, vectors = np.linalg.eigh(np.block([[np.zeros((3, 3)), correlation.T], [correlation, np.zeros((2, 2))]]))
    grown = vectors @ np.diag(np.exp(values)) @ vectors.T @ np.vstack([first.T, second])
    np.testing.assert_allclose(tiny, 1e-24 * grown[3:] @ grown[:3].T, rtol=1e-11)


def test_slow_winners_are_resolved_long_after_their_exponentials_have_overflowed():
    """Two modes race for one hidden unit at rates that differ by 1e-4; at t = 2e4 the exponents are 2e4."""
    correlation = np.diag([1.0, 1.0 - 1e-4])
    first, second = np.array([[0.6e-3, 0.8e-3]]), np.array([[0.6e-3], [0.8e-3]])
    times = np.array([0.0, 1e2, 1e3, 5e3, 1e4, 2e4, 5e4, 2e5])
    function = LambdaBalanced(correlation, first, second).strength(times)
    # the direction obeys d log(v1/v2)/dt = 1e-4 while and after the amplitude saturates
    ratio = 0.75 * np.exp(1e-4 * times)
    np.testing.assert_allclose(function[:, 0, 0] / function[:, 0, 1], ratio, rtol=1e-6)


def test_a_mode_that_the_weights_do_not_touch_stays_on_its_saddle():
    correlation = np.diag([2.0, 1.0])
    first, second = np.array([[0.1, 0.0]]), np.array([[0.1], [0.0]])
    times = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 1e3, 1e6])
    late = LambdaBalanced(correlation, first, second).strength(times)
    np.testing.assert_allclose(late[:, 0, 0], TwoLayer(2.0, 1.0, 0.01).strength(times), rtol=1e-13)
    assert np.all(late[:, 1, 1] == 0)


def test_one_unit_is_the_unbalanced_mode():
    times = np.array([0.0, 0.1, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0])
    network, mode = LambdaBalanced([[1.3]], [[0.2]], [[-0.9]]), Unbalanced(1.3, 1.0, 0.2, -0.9)
    np.testing.assert_allclose(network.strength(times)[:, 0, 0], mode.strength(times), rtol=1e-12)
    np.testing.assert_allclose(network.loss(times), mode.loss(times), rtol=1e-9, atol=1e-15)
    found = [gram[:, 0, 0] for gram in network.grams(times)]
    np.testing.assert_allclose(found, np.square(mode.layers(times)), rtol=1e-12)


def test_tangent_kernel_moves_the_function():
    rng = np.random.default_rng(3)
    first, second = balanced(rng, 3, 2, 4, 0.5, 0.3)
    correlation = rng.normal(size=(4, 3))
    step = 1e-5
    network = LambdaBalanced(correlation, first, second)
    before, here, after = network.strength(1.0 + step * np.array([-1, 0, 1]))
    assert network.kernel([0.0, 1.0]).shape == (2, 12, 12)
    velocity = network.kernel(1.0) @ (correlation - here).ravel()
    difference = (after - before).ravel() / (2 * step)
    np.testing.assert_allclose(velocity, difference, rtol=1e-7, atol=1e-9)  # central difference, 1e-10


@pytest.mark.parametrize("slope", [0.0, 0.3, -0.2])
def test_relu_network_is_the_linear_one_in_slower_time(slope, integrate):
    """Odd targets of sign-symmetric, white inputs, and neurons in pairs (w1, w2), (-w1, -w2)."""
    rng = np.random.default_rng(11)
    half = rng.normal(size=(8, 2))
    x = np.vstack([half, -half])
    x = x @ np.linalg.inv(np.linalg.cholesky(x.T @ x / len(x))).T
    y = x @ rng.normal(size=(2, 3)) + 0.3 * x[:, :1] ** 3
    first, second = balanced(rng, 2, 2, 3, 0.0, 0.05)
    first, second = np.vstack([first, -first]), np.hstack([second, -second])
    times, cut, c = np.array([0.0, 1.0, 2.0, 4.0, 8.0, 16.0]), first.size, (1 + slope) / 2

    def outputs(state):
        w1, w2 = state[:cut].reshape(first.shape), state[cut:].reshape(second.shape)
        gate = np.where(x @ w1.T > 0, 1.0, slope)
        return w2, gate, gate * (x @ w1.T), (gate * (x @ w1.T)) @ w2.T

    def field(_, state):
        w2, gate, hidden, output = outputs(state)
        error = (y - output) / len(x)
        return np.concatenate([((error @ w2) * gate).T @ x, error.T @ hidden], axis=None)

    states = integrate(field, np.concatenate([first, second], axis=None), times)
    relu = SignSymmetric(LambdaBalanced(y.T @ x / len(x), np.sqrt(c) * first, np.sqrt(c) * second), slope)
    # discontinuous gates cost scipy some of its 1e-12 where a neuron turns past an example
    expected = [outputs(state)[-1] for state in states]
    np.testing.assert_allclose(np.einsum("toi,ni->tno", relu.strength(times), x), expected, atol=1e-8)


def test_wrong_weights_are_refused():
    rng, square = np.random.default_rng(2), np.eye(2)
    assert LambdaBalanced(rng.normal(size=(2, 4)), *balanced(rng, 4, 3, 2, -0.7, 0.3)).imbalance == pytest.approx(-0.7)
    with pytest.raises(AssumptionError, match=r"lambda-balanced.*relative residual was 0\.\d+"):
        LambdaBalanced(square, rng.normal(size=(2, 2)), rng.normal(size=(2, 2)))
    with pytest.raises(RangeError, match=r"one hidden size; the shapes were \(3, 3\) and \(2, 2\)"):
        LambdaBalanced(square, np.eye(3), square)
    with pytest.raises(RangeError, match=r"correlation must be \(outputs, inputs\) = \(2, 2\)"):
        LambdaBalanced(np.ones((3, 2)), square, square)
    with pytest.raises(RangeError, match=r"must not both be 0"):
        LambdaBalanced(square, 0 * square, 0 * square)
    with pytest.raises(RangeError, match=r"first_layer must be finite; it was nan"):
        LambdaBalanced(square, np.nan * square, square)
