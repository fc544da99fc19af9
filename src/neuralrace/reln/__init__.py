"""ReLU networks read as gated networks: exactly, by the few modules that they form, and by the race between gatings."""

from neuralrace.reln.discover import Match, Modular, Module, discover, match
from neuralrace.reln.equivalence import Equivalent, equivalent
from neuralrace.reln.implementable import Implementable, implementable, implementable_patterns
from neuralrace.reln.modules import Modules, find_modules, gate_samples, gated_problem, neuron_strengths
from neuralrace.reln.predict_modules import predict_modules
from neuralrace.reln.race import Ranking, Runner, gatings_of_groups, race
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
    "Runner",
    "discover",
    "equivalent",
    "find_modules",
    "gate_samples",
    "gated_problem",
    "gatings_of_groups",
    "implementable",
    "implementable_patterns",
    "match",
    "neuron_strengths",
    "predict_modules",
    "race",
]
