"""The race of views: P3's model, solved exactly, scored and measured in training."""

from neuralrace.views.coupled import CoupledRace, co_occurrence, coupled_race
from neuralrace.views.law import Law, derive, error_term, path_strengths
from neuralrace.views.measure import Interval, coverage, interval, proportion, shares, winner_share
from neuralrace.views.race import Phases, Race, race
from neuralrace.views.sweep import sweep
from neuralrace.views.trial import Trial
from neuralrace.views.winner import initial_advantage, predicted_winners, score_rules, two_layer_end

__all__ = [
    "CoupledRace",
    "Interval",
    "Law",
    "Phases",
    "Race",
    "Trial",
    "co_occurrence",
    "coupled_race",
    "coverage",
    "derive",
    "error_term",
    "initial_advantage",
    "interval",
    "path_strengths",
    "predicted_winners",
    "proportion",
    "race",
    "score_rules",
    "shares",
    "sweep",
    "two_layer_end",
    "winner_share",
]
