"""The race of candidate gatings, before anything is trained."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import reln
from neuralrace.errors import ProblemError, RangeError

SMALL = nr.initial.gaussian(0.01)


@pytest.mark.parametrize(("delta", "winner"), [(0.3, "xor"), (1.5, "linear")])
def test_the_race_of_gatings_agrees_with_the_closed_form(delta, winner):
    named, times = nr.tasks.xor(delta), np.linspace(0, 60, 121)
    candidates = {name: named.problem(name, hidden=8) for name in ("xor", "linear")}
    found = reln.race(named.task, candidates, initial=SMALL, times=times, criterion=0.2, draws=1)
    assert found.winner == winner
    # P2 appendix C: what one of four paths and one of two paths see
    assert found.table.rate["xor"] == pytest.approx(np.sqrt(2 + delta**2) / 4, rel=1e-12)
    assert found.table.rate["linear"] == pytest.approx(delta / 2, rel=1e-12)
    # with a size for each edge of a network every module starts like its layer
    each = nr.initial.gaussian({("x", "h1"): 0.01, ("h1", "y"): 0.01})
    again = reln.race(named.task, candidates, initial=each, times=times, criterion=0.2, draws=1)
    assert again.table.equals(found.table)


def test_a_race_needs_no_more_than_a_task_and_candidates():
    named = nr.tasks.xor(0.3)
    found = reln.race(named.task, {name: named.problem(name, hidden=8) for name in ("linear", "xor")}, draws=1)
    assert found.winner == "xor"
    forecast = found.forecasts["xor"]
    assert 0 < found.table.time["xor"] <= forecast.time[-1] / 2
    assert found.criterion == pytest.approx(0.5 * forecast.loss[0])
    assert "linear" in str(found)


def test_gatings_that_respect_groups():
    labels = nr.tasks.contextual(3, items=2).groups["context"]
    gatings = reln.gatings_of_groups(labels)
    assert {name: len(patterns) for name, patterns in gatings.items()} == {
        "common": 1,
        "common + open in 1 of 3": 4,
        "common + open in 2 of 3": 4,
    }
    with pytest.raises(RangeError, match="below the number of groups, 3"):
        reln.gatings_of_groups(labels, sizes=[3])
    with pytest.raises(ProblemError, match="at least one candidate"):
        reln.race(nr.tasks.xor().task, {}, initial=None, times=[0.0, 1.0])
