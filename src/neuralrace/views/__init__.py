"""The race of views: P3's model, its law derived and solved exactly."""

from neuralrace.views.coupled import CoupledRace, co_occurrence, coupled_race
from neuralrace.views.law import Law, derive, error_term, path_strengths
from neuralrace.views.race import Phases, Race, race
from neuralrace.views.two_layer import lone_responses, two_layer_end

__all__ = [
    "CoupledRace",
    "Law",
    "Phases",
    "Race",
    "co_occurrence",
    "coupled_race",
    "derive",
    "error_term",
    "lone_responses",
    "path_strengths",
    "race",
    "two_layer_end",
]
