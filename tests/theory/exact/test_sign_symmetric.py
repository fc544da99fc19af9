import numpy as np
import pytest

from neuralrace.errors import RangeError
from neuralrace.theory import exact

RNG_SEED = 11


def symmetric_data(odd_cubic: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """White, sign-symmetric inputs with odd targets, examples in rows."""
    rng = np.random.default_rng(RNG_SEED)
    half = rng.normal(size=(8, 2))
    x = np.vstack([half, -half])
    x = x @ np.linalg.inv(np.linalg.cholesky(x.T @ x / len(x))).T
    teacher = np.array([[1.5, -0.4], [0.3, 0.8], [0.2, 0.5]])
    return x, x @ teacher.T + odd_cubic * x[:, :1] ** 3


def relu_flow(integrate, x, y, first, second, slope, times):
    """Gradient flow of the leaky ReLU network itself."""
    cut = first.size

    def field(_, state):
        w1, w2 = state[:cut].reshape(first.shape), state[cut:].reshape(second.shape)
        before = x @ w1.T
        gate = np.where(before > 0, 1.0, slope)
        error = (y - (gate * before) @ w2.T) / len(x)
        return np.concatenate([((error @ w2) * gate).T @ x, error.T @ (gate * before)], axis=None)

    states = integrate(field, np.concatenate([first, second], axis=None), times)
    return states[:, :cut].reshape(-1, *first.shape), states[:, cut:].reshape(-1, *second.shape)


def antipodal(strength: float) -> tuple[np.ndarray, np.ndarray]:
    """Balanced, unaligned weights whose neurons come in pairs (w1, w2), (-w1, -w2)."""
    rng = np.random.default_rng(RNG_SEED + 1)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    inner = strength * turn @ np.diag([1.0, 0.6]) @ np.linalg.qr(rng.normal(size=(2, 2)))[0]
    outer = strength * np.linalg.qr(rng.normal(size=(3, 3)))[0][:, :2] @ np.diag([1.0, 0.6]) @ turn.T
    return np.vstack([inner, -inner]), np.hstack([outer, -outer])


@pytest.mark.parametrize(("slope", "cubic"), [(0.0, 0.0), (0.0, 0.3), (0.3, 0.3), (-0.2, 0.0)])
def test_relu_network_is_the_linear_one_in_slower_time(slope, cubic, integrate):
    x, y = symmetric_data(cubic)
    first, second = antipodal(0.05)
    times = np.array([0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0])
    w1, w2 = relu_flow(integrate, x, y, first, second, slope, times)
    flow = exact.sign_symmetric_flow(times, y.T @ x / len(x), first, second, slope)
    before = np.einsum("nd,thd->tnh", x, w1)
    output = np.einsum("tnh,toh->tno", np.where(before > 0, before, slope * before), w2)
    # discontinuous gates cost scipy some of its 1e-12 where a neuron turns past an example
    np.testing.assert_allclose(np.einsum("toi,ni->tno", flow.function, x), output, atol=1e-8)
    np.testing.assert_allclose(flow.input_gram, w1.transpose(0, 2, 1) @ w1, atol=1e-8)
    np.testing.assert_allclose(flow.output_gram, w2 @ w2.transpose(0, 2, 1), atol=1e-8)


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_rank_one_network_follows_one_mode(slope, integrate):
    """Scalar output, W1 = u p^T and W2 = b u^T with sum u|u| = 0, aligned: one two-layer mode."""
    rng = np.random.default_rng(3)
    half = rng.normal(size=(20, 3))
    x = np.vstack([half, -half])
    x = x @ np.linalg.inv(np.linalg.cholesky(x.T @ x / len(x))).T
    direction = np.array([2.0, -1.0, 2.0]) / 3
    y = 1.7 * x @ direction[:, None]
    u = np.array([0.5, 0.3, 0.4, -0.5, -0.5])
    assert np.sum(u * np.abs(u)) == pytest.approx(0.0, abs=1e-15)
    scale = 0.02
    first, second = scale * np.outer(u, direction), scale * u[None]
    strength = float(exact.linear_time_factor(slope)) * scale**2 * np.sum(u**2)
    times = np.array([0.0, 1.0, 3.0, 5.0, 10.0])
    w1, w2 = relu_flow(integrate, x, y, first, second, slope, times)
    before = np.einsum("nd,thd->tnh", x, w1)
    output = np.einsum("tnh,toh->tno", np.where(before > 0, before, slope * before), w2)
    found = exact.sign_symmetric_mode(times, 1.7, 1.0, strength, slope)
    np.testing.assert_allclose(found[:, None] * (x @ direction), output[..., 0], atol=1e-9)
    loss = 0.5 * np.mean((y - output) ** 2, axis=(1, 2))
    np.testing.assert_allclose(exact.sign_symmetric_loss(times, 1.7, 1.0, strength, slope), loss, atol=1e-9)
    goal = exact.sign_symmetric_mode(4.0, 1.7, 1.0, strength, slope)
    assert float(exact.sign_symmetric_time(goal, 1.7, 1.0, strength, slope)) == pytest.approx(4.0, rel=1e-12)


def test_assumptions_are_measured():
    x, y = symmetric_data()
    first, second = antipodal(0.1)
    good = exact.sign_symmetry(x, y, first, second)
    assert good.data < 1e-8
    assert good.even_part < 1e-14
    assert exact.sign_symmetry(x, y + 0.1, first, second).data > 0.01
    assert exact.sign_symmetry(x, y, np.abs(first), second + 0.01).even_part > 0.01


def test_bad_arguments_are_named():
    with pytest.raises(RangeError, match=r"slope must be finite and above -1; it was -1.*ReLU"):
        exact.sign_symmetric_mode(1.0, 1.0, 1.0, 0.1, slope=-1.0)
    with pytest.raises(RangeError, match=r"as many rows; they had 2 and 3"):
        exact.sign_symmetry(np.eye(2), np.eye(3), np.eye(2), np.eye(2))
    with pytest.raises(RangeError, match=r"times .* it was -1"):
        exact.sign_symmetric_mode(-1.0, 1.0, 1.0, 0.1)
    assert exact.sign_symmetric_time(9.0, 1.0, 1.0, 0.1) == np.inf
