"""The flow of wide routing networks against scipy's integrator, wide orthogonal weights and the closed form."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace.errors import RangeError
from neuralrace.tasks.pairs import trained_pairs
from neuralrace.theory.exact import PairRace
from neuralrace.theory.routed import wide_errors


def solved(pairs, encoders, hidden, decoders, end, variance):
    """The errors (input, output) of one mode in a network of depth three, by scipy."""
    parts = encoders.T, hidden, decoders  # (width, M), (width, width), (M, width)
    ends, shapes = np.cumsum([part.size for part in parts])[:-1], [part.shape for part in parts]

    def split(state):
        return [part.reshape(shape) for part, shape in zip(np.split(state, ends), shapes, strict=True)]

    def move(_, state):
        E, W, D = split(state)
        off = variance * pairs.T * (1 - D @ W @ E) / pairs.sum()  # (output, input)
        return np.concatenate([part.ravel() for part in (W.T @ D.T @ off, D.T @ off @ E.T, off @ E.T @ W.T)])

    start = np.concatenate([part.ravel() for part in parts])
    E, W, D = split(solve_ivp(move, (0, end), start, rtol=1e-9, atol=1e-11).y[:, -1])
    return (1 - D @ W @ E).T ** 2


@pytest.mark.parametrize("end", [0.0, 30.0, 200.0])
def test_the_flow_is_that_of_scipy(end):
    pairs, gain, unit = trained_pairs("hubs", 3, 2, 0), 0.5, np.eye(6)
    exact = solved(pairs, gain * unit[:3], gain * unit, gain * unit[3:], end, 0.5)
    np.testing.assert_allclose(wide_errors(pairs, gain, end, variance=0.5), exact, rtol=1e-4, atol=1e-7)


def test_it_is_the_limit_of_wide_orthogonal_weights():
    pairs, gain, width = trained_pairs("hubs", 3, 2, 0), 0.5, 300
    draws = np.random.default_rng(0).normal(size=(3, width, width))
    first, hidden, last = (gain * np.linalg.qr(draw)[0] for draw in draws)
    found = solved(pairs, first[:3], hidden, last[:3], 30.0, 0.5)
    # an overlap has the deviation 1 / sqrt(width)
    np.testing.assert_allclose(found, wide_errors(pairs, gain, 30.0, variance=0.5), atol=2 / np.sqrt(width))


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_the_closed_form_agrees(depth):
    """The other modes of this graph have one rate, so the closed form is exact to the end."""
    pairs = trained_pairs("neighbors", 4, 2)
    closed = float(PairRace(pairs, 0.4, 1.0, depth).untrained)
    assert closed == pytest.approx(wide_errors(pairs, 0.4, 1e5, depth=depth)[~pairs].mean(), rel=1e-4)


def test_mistakes_are_named():
    with pytest.raises(RangeError, match="pairs must be a square matrix of booleans with at least one"):
        wide_errors(np.zeros((2, 2)), 0.1, 1.0)
    with pytest.raises(RangeError, match="gain must be a finite number, above 0"):
        wide_errors(np.eye(3), 0.0, 1.0)
