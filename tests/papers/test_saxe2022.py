"""What the figures of P1 measure with: stages of a loss, straight lines in its logarithm, crosstalk between modes."""

import numpy as np
import pytest

from neuralrace import initial, tasks
from neuralrace.papers.saxe2022 import _routing as routing
from neuralrace.papers.saxe2022 import fig4, fig5, fig6
from neuralrace.training import train

TIME = np.linspace(0, 100, 1001)


def drops(moments):
    """A loss that falls from level to level."""
    return 1e-3 + sum(1 / (1 + np.exp(TIME - moment)) for moment in moments)


def test_drops_are_counted_and_a_decay_has_none():
    assert fig6.stages(TIME, drops([20, 50, 80])) == 3
    assert fig6.stages(TIME, drops([50])) == 1
    assert fig6.stages(TIME, np.exp(-TIME / 10)) == 0


def test_a_decay_is_straight_and_drops_are_not():
    assert fig6.straightness(TIME, np.exp(-TIME / 10)) == pytest.approx(1)
    assert fig6.straightness(TIME, drops([20, 50, 80])) < 0.95  # the limit that Fig 6a is judged by


@pytest.mark.parametrize(("initializer", "share"), [(initial.decoupled(0.3), 0.0), (initial.orthogonal(0.3), 0.8)])
def test_decoupled_weights_have_no_crosstalk(initializer, share):
    problem = tasks.routing(3, 2).problem("shared", hidden=8)
    run = train(problem, initializer, 0.1, 1, seeds=2, record="weights", at=[0])
    # random: of 7 x 4 entries 22 lie outside the modes
    assert fig4.crosstalk(problem, run) == pytest.approx(share, abs=1e-12 if share == 0 else 0.1)


def test_the_units_of_the_paper():
    assert pytest.approx(185) == fig5.STRONGEST**2
    assert routing.ZERO_OUTPUT == 122
    assert routing.paper_rate(7, 4, 0.02) == pytest.approx(0.16)  # one step of Fig 4 in units of our time


def test_half_times_are_interpolated():
    strength = 0.5 * fig5.STRONGEST * np.array([0.0, 0.5, 1.5, 2.0])
    assert fig5.half_time(np.arange(4.0), strength) == pytest.approx(1.5)
    assert fig5.half_time(np.arange(4.0), 0.1 * strength) == np.inf
