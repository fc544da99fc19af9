"""The race of the modes of trained pairs, against whole encoders, hidden matrices and decoders, integrated by scipy."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace.errors import AssumptionError, RangeError
from neuralrace.tasks.pairs import trained_pairs
from neuralrace.theory.exact import PairRace


def wide_flow(pairs, first, depth, residual, done):
    """The outputs of all pairs, (M, M), at infinite width for one mode of the data, when `done` reaches zero.

    Every mode of the pairs has two directions of its own in the 2 M hidden units, for its encoder and its decoder.
    """
    count = len(pairs)
    left, _, right = np.linalg.svd(pairs.astype(float))
    both = np.eye(2 * count)
    layers = [first * both[:count].T @ left.T, *[first * both] * (depth - 2), first * right.T @ both[count:]]
    ends = np.cumsum([layer.size for layer in layers])[:-1]
    shapes = [layer.shape for layer in layers]

    def split(state):
        return [part.reshape(shape) for part, shape in zip(np.split(state, ends), shapes, strict=True)]

    def outputs(state):
        return np.linalg.multi_dot(split(state)[::-1]).T

    def move(_, state):
        matrices = split(state)
        gradients = []
        for place in range(depth):
            before, after = np.eye(count), np.eye(count)
            for matrix in matrices[:place]:
                before = matrix @ before
            for matrix in matrices[:place:-1]:
                after = after @ matrix
            gradients.append(after.T @ residual(outputs(state)).T @ before.T)
        return np.concatenate([part.ravel() for part in gradients])

    def event(time, state):
        return done(time, outputs(state))

    event.terminal = True
    start = np.concatenate([layer.ravel() for layer in layers])
    solved = solve_ivp(move, (0, 1e9), start, "DOP853", rtol=1e-9, atol=1e-12, events=event)
    assert solved.status == 1
    return outputs(solved.y_events[0][0])


@pytest.mark.parametrize("depth", [2, 3])
def test_with_one_residual_the_strengths_are_those_of_whole_matrices(depth):
    pairs = trained_pairs("regular", 5, 3, 1)
    found = PairRace(pairs, 0.2, [0.7, 0.9], depth)
    left, _, right = np.linalg.svd(pairs.astype(float))
    learned = wide_flow(pairs, 0.2, depth, lambda _: pairs, lambda _, T: T[pairs].mean() - 0.7) / 0.7
    # 1e-6: the tolerances of two integrations that grow a hundredfold
    np.testing.assert_allclose(found.strengths[0], np.diag(left.T @ learned @ right.T), rtol=1e-6)
    off = (1 - learned) ** 2
    np.testing.assert_allclose(found.untrained[0], off[~pairs].mean(), rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(("name", "depth"), [("circulant", 3), ("regular", 4)])
def test_when_trained_pairs_are_learned_the_race_is_within_a_tenth_of_the_full_flow(name, depth):
    """With the full residual, at twice the time in which the uniform mode alone is learned."""
    pairs, end = trained_pairs(name, 8, 3, 1), 2 * 1.25 * 0.3 ** (2 - depth) / 3
    learned = wide_flow(pairs, 0.3, depth, lambda T: pairs * (1 - T), lambda time, _: time - end)
    expected = np.mean((1 - learned[~pairs]) ** 2)
    assert float(PairRace(pairs, 0.3, 1.0, depth).untrained) == pytest.approx(expected, rel=0.1)


def test_pairs_that_nothing_joins_learn_nothing_of_the_others():
    assert PairRace(np.eye(4, dtype=bool), 0.05, 1.0).untrained == pytest.approx(1.0, abs=1e-12)
    assert np.isnan(PairRace(np.ones((4, 4), dtype=bool), [0.01, 0.1], 1.0).untrained).all()


def test_mistakes_are_named():
    pairs = np.eye(3, dtype=bool)
    with pytest.raises(AssumptionError, match="domains are in 1 to 4: use"):
        PairRace(trained_pairs("hubs", 4, 2), 0.1, 1.0)
    with pytest.raises(RangeError, match="pairs must be a square matrix of booleans"):
        PairRace(np.ones((2, 3), dtype=bool), 0.1, 1.0)
    with pytest.raises(RangeError, match="first must be finite and above 0"):
        PairRace(pairs, 0.0, 1.0)
    with pytest.raises(RangeError, match="depth must be a whole number, at least 2"):
        PairRace(pairs, 0.1, 1.0, depth=1)
