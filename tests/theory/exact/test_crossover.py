import numpy as np
import pytest

from neuralrace.errors import RangeError
from neuralrace.theory.exact import TwoLayer, crossover_margin, linear_gating, xor_gating

LABELS = np.array([-1.0, 1.0, 1.0, -1.0])


def examples(margin: float) -> np.ndarray:
    """The four examples in rows, P2 eq. 11."""
    return np.column_stack([[-1, 1, -1, 1], [-1, -1, 1, 1], margin * LABELS])


GATES = {
    "linear": (linear_gating, [LABELS > 0, LABELS < 0]),
    "xor": (xor_gating, list(np.eye(4, dtype=bool))),
}


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("margin", [0.3, 0.9, 2.0])
def test_statistics_are_those_of_the_data(name, margin):
    """The variance of the four-path gating is (2 + Delta^2)/4, not 1/8 + Delta^2/16 (P2 appendix C)."""
    statistics, gates = GATES[name]
    found = statistics(margin)
    x = examples(margin)
    assert found.paths == len(gates)
    for gate in gates:
        correlation = (gate * LABELS) @ x / 4
        s = np.linalg.norm(correlation)
        v = correlation / s
        d = v @ (x.T @ (gate[:, None] * x) / 4) @ v
        np.testing.assert_allclose([found.singular_value, found.input_variance], [s, d], rtol=1e-14)


@pytest.mark.parametrize("name", GATES)
def test_loss_is_that_of_the_gated_network(name, integrate):
    """Gradient flow of the gated network itself, every path with weights of its own, from aligned weights."""
    margin, a0 = 0.9, 1e-3
    statistics, gates = GATES[name]
    x = examples(margin)
    gates = np.array(gates, dtype=float)
    directions = np.array([(g * LABELS) @ x for g in gates])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)

    def output(state):
        first, second = state[: directions.size].reshape(directions.shape), state[directions.size :]
        return first, second, np.einsum("pn,nd,pd,p->n", gates, x, first, second)

    def field(_, state):
        first, second, y = output(state)
        driven = (gates * (LABELS - y)) @ x / 4
        return np.concatenate([(second[:, None] * driven).ravel(), (first * driven).sum(1)])

    start = np.concatenate([(np.sqrt(a0) * directions).ravel(), np.full(len(gates), np.sqrt(a0))])
    times = np.array([0.0, 3.0, 8.0, 12.0, 20.0, 40.0])
    states = integrate(field, start, times)
    losses = [0.5 * np.mean((LABELS - output(state)[2]) ** 2) for state in states]
    # the oracle's outputs carry 1e-11, and the last loss is 1e-10 of the first
    s, d, paths = statistics(margin)
    np.testing.assert_allclose(paths * TwoLayer(s, d, a0).loss(times), losses, rtol=1e-8, atol=1e-14)


def test_printed_variance_of_the_four_path_gating_is_refuted():
    """With d = 1/8 + Delta^2/16 the loss of P2 eq. 23 would end at 1/2 - 2 s^2/d = -3/2, below zero."""
    margin = 0.7
    s = float(xor_gating(margin).singular_value)
    printed = 1 / 8 + margin**2 / 16
    assert 0.5 - 2 * s**2 / printed == pytest.approx(-1.5)
    assert 0.5 - 2 * s**2 / float(xor_gating(margin).input_variance) == pytest.approx(0.0, abs=1e-15)


def test_xor_without_margin_is_that_of_the_first_paper():
    s, d, paths = xor_gating(0.0)
    np.testing.assert_allclose([s, d, paths], [np.sqrt(2) / 4, 2 / 4, 4])


def test_crossover_of_the_rates_is_the_root_of_two_thirds():
    assert float(crossover_margin()) == pytest.approx(np.sqrt(2 / 3), rel=1e-14)


@pytest.mark.parametrize("a0", [1e-12, 1e-6, 1e-3])
def test_crossover_of_the_times_has_equal_times(a0):
    """At finite strength the crossover is larger, and falls to sqrt(2/3) only as 1/log(1/a0)."""

    def time(gating, margin):
        s, d, paths = gating(margin)
        return float(TwoLayer(s, d, a0).time_to_loss(0.2 / paths))

    margin = crossover_margin(loss=0.2, initial_strength=a0)
    assert time(linear_gating, margin) == pytest.approx(time(xor_gating, margin), rel=1e-13)
    assert np.sqrt(2 / 3) < margin < np.sqrt(2 / 3) * (1 + 1.2 / np.log(1 / a0))
    assert time(linear_gating, 0.9 * margin) > time(xor_gating, 0.9 * margin)


def test_bad_arguments_are_named():
    with pytest.raises(RangeError, match=r"margin must be finite and above 0; it was 0.*nothing to learn"):
        linear_gating(0.0)
    with pytest.raises(RangeError, match=r"margin must be finite and at least 0; it was -1"):
        xor_gating(-1.0)
    with pytest.raises(RangeError, match=r"initial_strength was left out"):
        crossover_margin(loss=0.2)
