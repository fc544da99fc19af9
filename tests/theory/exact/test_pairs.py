"""The race of the modes of trained pairs, against the equations that it solves, integrated by scipy."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace.errors import RangeError
from neuralrace.tasks.pairs import trained_pairs
from neuralrace.theory.exact import pair_left, pair_race


def integrated(pairs, first, final, depth, overlaps):
    """Strengths when sum_l g_l tau_l = |G| final, from db/dx = g w^(N-2) b and dw/dx = g b^2 w^(N-3)."""
    values = np.linalg.svd(pairs.astype(float), compute_uv=False)
    count = len(values)
    start = np.concatenate([first * np.sqrt((1 + overlaps) / 2), np.full(count, first)])

    def move(_, state):
        b, w = state[:count], state[count:]
        return np.concatenate([values * w ** (depth - 2) * b, values * b**2 * w ** (depth - 3.0) * (depth > 2)])

    def strengths(state):
        return state[:count] ** 2 * state[count:] ** (depth - 2)

    def finish(_, state):
        return np.log(values @ strengths(state)) - np.log(pairs.sum() * final)

    finish.terminal = True
    solved = solve_ivp(move, (0, 1e9), start, rtol=1e-10, atol=1e-14, events=finish)
    assert solved.status == 1
    return strengths(solved.y_events[0][0]) / final


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_strengths_at_the_finish_are_those_of_the_equations(depth):
    pairs = trained_pairs("regular", 6, 3, 1)
    overlaps = np.random.default_rng(depth).uniform(-0.4, 0.4, size=(2, 6))
    overlaps[0] = 0.0
    found = pair_race(pairs, 0.2, 0.7, depth, overlaps)
    for place, overlap in enumerate(overlaps):
        expected = integrated(pairs, 0.2, 0.7, depth, overlap)
        np.testing.assert_allclose(found.strengths[place], expected, rtol=1e-6)  # of the event's place
    left, _, right = np.linalg.svd(pairs.astype(float))
    off = (1 - (left * found.strengths[0]) @ right) ** 2
    np.testing.assert_allclose([found.trained[0], found.untrained[0]], [off[pairs].mean(), off[~pairs].mean()])


def test_a_single_mode_is_a_mean_of_its_first_and_last_strength():
    """Against da/dx = N a^(2 - 2/N): the leader grows a thousandfold, the other by a fraction of its time."""
    for depth in (2, 3, 4):
        for ratio in (0.3, 0.9):

            def move(x, state, depth=depth, ratio=ratio):
                return depth * np.array([1.0, ratio]) * state ** (2 - 2 / depth)

            def done(x, state):
                return state[0] - 1.0

            done.terminal = True
            solved = solve_ivp(move, (0, 1e6), [1e-3, 1e-3], rtol=1e-10, atol=1e-16, events=done)
            expected = solved.y_events[0][0][1]
            np.testing.assert_allclose(pair_left(ratio, 1e3, depth), expected, rtol=1e-7)


def test_pairs_that_nothing_joins_learn_nothing_of_the_others():
    found = pair_race(np.eye(4, dtype=bool), 0.05, 1.0)
    np.testing.assert_allclose([found.trained, found.untrained], [0.0, 1.0], atol=1e-12)


def test_all_pairs_trained_leave_no_untrained_error_to_speak_of():
    found = pair_race(np.ones((4, 4), dtype=bool), [0.01, 0.1], 1.0)
    assert np.isnan(found.untrained).all()
    assert (found.trained < 1e-3).all()


def test_mistakes_are_named():
    pairs = np.eye(3, dtype=bool)
    with pytest.raises(RangeError, match="pairs must be a square matrix of booleans"):
        pair_race(np.ones((2, 3), dtype=bool), 0.1, 1.0)
    with pytest.raises(RangeError, match="first must be finite and above 0"):
        pair_race(pairs, 0.0, 1.0)
    with pytest.raises(RangeError, match="one number for each of 3 modes"):
        pair_race(pairs, 0.1, 1.0, overlaps=[0.0, 0.0])
    with pytest.raises(RangeError, match="depth must be a whole number, at least 2"):
        pair_race(pairs, 0.1, 1.0, depth=1)
    with pytest.raises(RangeError, match="ratio must be finite and at least 0 and at most 1"):
        pair_left(1.5, 10.0)
