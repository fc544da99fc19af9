"""ReLU networks read as gated networks: exactly, by the few modules that they form, and by the race between gatings."""

# The few modules that it forms
from neuralrace.reln.discovery import Discovery, Tried, discover

# A ReLU network is a gated network
from neuralrace.reln.equivalence import Equivalent, equivalent, equivalent_arrays, equivalent_torch

# Which gates a neuron can have
from neuralrace.reln.implementable import Implementable, implementable, implementable_patterns
from neuralrace.reln.modules import Modules, find_modules, gate_samples, gated_problem

# Which gating wins
from neuralrace.reln.race import Race, Runner, gatings_of_groups, race

# A sequence of gatings
from neuralrace.reln.staged import Staged, handover_record, staged_forecast

__all__ = [
    "Discovery",
    "Equivalent",
    "Implementable",
    "Modules",
    "Race",
    "Runner",
    "Staged",
    "Tried",
    "discover",
    "equivalent",
    "equivalent_arrays",
    "equivalent_torch",
    "find_modules",
    "gate_samples",
    "gated_problem",
    "gatings_of_groups",
    "handover_record",
    "implementable",
    "implementable_patterns",
    "race",
    "staged_forecast",
]
