"""Rules of thumb for the winner, and their scores over random races."""

import numpy as np
import pytest

from neuralrace import views
from neuralrace.errors import RangeError
from neuralrace.papers.settings import override
from neuralrace.papers.views.winner import Settings, predicted_winners, score_rules


def test_rules():
    start, rates = np.array([0.1, 0.3, 0.2]), np.array([4.0, 1.0, 1.9])
    named = predicted_winners(start, rates, 4.0)
    assert {rule: int(view) for rule, view in named.items()} == {
        "advantage": 0,  # 0.4, 0.3, 0.38
        "head start": 1,
        "fastest rate": 0,
        "blow-up": 1,  # 0.04, 0.09, 0.076
    }


def test_scores_agree_with_single_races():
    data = score_rules((2, 3), (0.0, 0.5), (0.1, 0.01), views=3, draws=5, seed=4)
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


def test_bad_settings_are_refused():
    for changes, says in (({"depths": ""}, "'depths'"), ({"views": "1"}, "'views' must be a whole number, at least 2")):
        with pytest.raises(RangeError, match=says):
            override(Settings(), changes)
