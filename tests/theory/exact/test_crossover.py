"""P2 appendix C, between XOR and a linear margin: what its two gatings see, and which of them is faster."""

import numpy as np
import pytest
from scipy.optimize import brentq

from neuralrace.theory.exact import TwoLayer

LABELS = np.array([-1.0, 1.0, 1.0, -1.0])
GATES = {"linear": np.array([LABELS > 0, LABELS < 0]), "xor": np.eye(4, dtype=bool)}


def statistics(name: str, margin: float) -> tuple[float, float]:
    """s and d of each path, as docs/theory/exact.md has them."""
    power = 2 + margin**2
    return (margin / 2, margin**2 / 2) if name == "linear" else (np.sqrt(power) / 4, power / 4)


def time_to_loss(name: str, margin: float, a0: float, loss: float = 0.2) -> float:
    s, d = statistics(name, margin)
    return float(TwoLayer(s, d, a0).time(s / d - np.sqrt(2 * loss / len(GATES[name]) / d)))


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("margin", [0.3, 0.9, 2.0])
def test_statistics_are_those_of_the_data(name, margin):
    """The variance of the four-path gating is (2 + Delta^2)/4, not 1/8 + Delta^2/16 (P2 appendix C)."""
    x = np.column_stack([[-1, 1, -1, 1], [-1, -1, 1, 1], margin * LABELS])  # P2 eq. 11
    for gate in GATES[name]:
        correlation = (gate * LABELS) @ x / 4
        s = np.linalg.norm(correlation)
        v = correlation / s
        d = v @ (x.T @ (gate[:, None] * x) / 4) @ v
        np.testing.assert_allclose(statistics(name, margin), [s, d], rtol=1e-14)


def test_printed_variance_of_the_four_path_gating_is_refuted():
    """With d = 1/8 + Delta^2/16 the loss of P2 eq. 23 would end at 1/2 - 2 s^2/d = -3/2, below zero."""
    margin = 0.7
    s, d = statistics("xor", margin)
    assert 0.5 - 2 * s**2 / (1 / 8 + margin**2 / 16) == pytest.approx(-1.5)
    assert 0.5 - 2 * s**2 / d == pytest.approx(0.0, abs=1e-15)


def test_xor_without_margin_is_that_of_the_first_paper():
    np.testing.assert_allclose(statistics("xor", 0.0), [np.sqrt(2) / 4, 2 / 4])


@pytest.mark.parametrize("a0", [1e-12, 1e-6, 1e-3])
def test_crossover_of_the_times_has_equal_times(a0):
    """At finite strength the crossover is larger, and falls to sqrt(2/3) only as 1/log(1/a0)."""
    margin = brentq(lambda margin: time_to_loss("linear", margin, a0) - time_to_loss("xor", margin, a0), 0.6, 2.0)
    assert np.sqrt(2 / 3) < margin < np.sqrt(2 / 3) * (1 + 1.2 / np.log(1 / a0))
    assert time_to_loss("linear", 0.9 * margin, a0) > time_to_loss("xor", 0.9 * margin, a0)
    rates = [statistics(name, np.sqrt(2 / 3))[0] for name in GATES]
    assert rates[0] == pytest.approx(rates[1], rel=1e-14)
