"""ReLU networks read as gated networks: exactly, by the few modules that they form, and by the race between gatings."""

from neuralrace.reln.discover import Match, Modular, Module, discover, match, predict_modules
from neuralrace.reln.equivalence import Equivalent, equivalent
from neuralrace.reln.implementable import Implementable, implementable, implementable_patterns
from neuralrace.reln.modules import Modules, find_modules, gate_samples, gated_problem
from neuralrace.reln.race import Ranking, gatings_of_groups, race
from neuralrace.reln.replay import Replay

__all__ = [
    "Equivalent",
    "Implementable",
    "Match",
    "Modular",
    "Module",
    "Modules",
    "Ranking",
    "Replay",
    "discover",
    "equivalent",
    "find_modules",
    "gate_samples",
    "gated_problem",
    "gatings_of_groups",
    "implementable",
    "implementable_patterns",
    "match",
    "predict_modules",
    "race",
]
