"""The figures of P3: what they measure, against scipy and by hand, and verdicts that can come out either way."""

import numpy as np
from scipy.integrate import solve_ivp

import neuralrace as nr
from neuralrace.papers.views import gated, winner


def test_shares_and_coverage_at_the_ends():
    np.testing.assert_allclose(winner.shares([[2.0, 1.0, -1.0], [0.0, 0.0, 0.0]]), [[2 / 3, 1 / 3, 0], [1 / 3] * 3])
    np.testing.assert_allclose(winner.coverage([[1.0, 1.0, 1.0], [5.0, 0.0, 0.0]]), [1.0, 1 / 3])
    np.testing.assert_allclose(winner.winner_share([[1.0, 3.0]]), [0.75])


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
    np.testing.assert_allclose(winner.two_layer_end(first, last), maps, atol=1e-5)


def test_answers_to_lone_views_are_contrasts():
    maps = np.random.default_rng(5).standard_normal((2, 4, 3, 3))  # two networks, four views, three classes
    found = winner.lone_responses(maps)
    assert found.shape == (2, 3, 4)
    # class 1 shown by view 2: its own output less the mean of outputs 0 and 2
    np.testing.assert_allclose(found[1, 1, 2], maps[1, 2, 1, 1] - maps[1, 2, [0, 2], 1].mean(), rtol=1e-12)


def test_scores_agree_with_single_races():
    sizes = {"draws": 5, "widths": (3,), "networks": 2, "classes": (3,), "class_networks": 2}
    settings = winner.Settings((2, 3), (0.0, 0.5), (0.1, 0.01), **sizes)
    data = winner.compute(settings)
    starts, speeds = np.random.default_rng(0).standard_normal((2, 5, 3))
    for depth, spread, scale in ((2, 0.5, 0.1), (3, 0.5, 0.01)):
        for draw in range(5):
            strengths, rates = scale * np.exp(0.5 * starts[draw]), np.exp(spread * speeds[draw])
            race = nr.views.race(strengths, rates, depth)
            cell = data["right"].sel(depth=depth, spread=spread, scale=scale, draw=draw)
            assert bool(cell.sel(rule="advantage")) == (np.argmax(strengths * rates) == race.winner)
            assert bool(cell.sel(rule="blow-up")) == (np.argmax(rates * strengths ** (depth - 2)) == race.winner)
    assert bool(data["right"].sel(rule="head start", spread=0.0).all())


def test_log_ratio_falls_at_the_rate_of_the_losers():
    time = np.linspace(0.0, 100.0, 300)
    lost = np.exp(-time / 30)
    views = np.stack([lost, np.full_like(time, 3.0), lost], axis=-1)[None, :, None]  # one network, one class
    np.testing.assert_allclose(np.diff(gated.log_ratio(views), axis=1), -(time[1] - time[0]) / 30, rtol=1e-9)
