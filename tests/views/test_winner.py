"""Who wins: the rules of thumb, their scores, and the exact end of random two-layer pathways."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace import views
from neuralrace.errors import RangeError


def test_rules():
    start, rates = np.array([0.1, 0.3, 0.2]), np.array([4.0, 1.0, 1.9])
    named = views.predicted_winners(start, rates, 4.0)
    assert {rule: int(view) for rule, view in named.items()} == {
        "advantage": 0,
        "head start": 1,
        "fastest rate": 0,
        "blow-up": 1,  # 0.04, 0.09, 0.076
    }
    np.testing.assert_allclose(views.initial_advantage(start, rates), [0.4, 0.3, 0.38])


def test_scores_agree_with_single_races():
    data = views.score_rules((2, 3), (0.0, 0.5), (0.1, 0.01), draws=5, seed=4)
    random = np.random.default_rng(4)
    starts, speeds = random.standard_normal((2, 5, 3))
    for depth, spread, scale in ((2, 0.5, 0.1), (3, 0.5, 0.01)):
        for draw in range(5):
            strengths, rates = scale * np.exp(0.5 * starts[draw]), np.exp(spread * speeds[draw])
            race = views.race(strengths, rates, depth)
            cell = data.sel(depth=depth, spread=spread, scale=scale, draw=draw)
            assert bool(cell["right"].sel(rule="advantage")) == (np.argmax(strengths * rates) == race.winner)
            assert float(cell["share"]) == pytest.approx(race.shares.max(), rel=1e-12)
    assert bool(data["right"].sel(rule="head start", spread=0.0).all())


def test_two_layer_end_is_where_the_flow_ends():
    random = np.random.default_rng(2)
    first, last = 1e-4 * random.standard_normal((2, 3, 4, 3))
    last = last.swapaxes(-1, -2)

    def field(_, flat):
        W1, W2 = flat[:36].reshape(3, 4, 3), flat[36:].reshape(3, 3, 4)
        error = (np.eye(3) - (W2 @ W1).sum(axis=0)) / 3
        return np.concatenate([(W2.swapaxes(-1, -2) @ error).ravel(), (error @ W1.swapaxes(-1, -2)).ravel()])

    start = np.concatenate([first.ravel(), last.ravel()])
    final = solve_ivp(field, (0, 200), start, "LSODA", [200.0], rtol=1e-10, atol=1e-13).y[:, 0]
    maps = final[36:].reshape(3, 3, 4) @ final[:36].reshape(3, 4, 3)
    # what the decaying half of the weights leaves is of the order of their square over the growth, 1e-6
    np.testing.assert_allclose(views.two_layer_end(first, last), maps, atol=1e-5)


def test_bad_scores_are_refused():
    with pytest.raises(RangeError, match="depths must hold at least one number"):
        views.score_rules(depths=())
    with pytest.raises(RangeError, match="views must be a whole number, at least 2"):
        views.score_rules(views=1)
