"""ReLU networks read as gated networks: exactly, by the few modules that they form, and by the race between gatings."""

# The few modules that it forms
from neuralrace.reln.discovery import Discovery, Layer, Tried, discover

# A ReLU network is a gated network
from neuralrace.reln.equivalence import Equivalent, equivalent, equivalent_arrays, equivalent_torch

# Which gates a neuron can have
from neuralrace.reln.implementable import Implementable, implementable, implementable_patterns
from neuralrace.reln.modules import Modules, find_modules, gated_problem
from neuralrace.reln.passing import neuron_strengths

# Which gating wins
from neuralrace.reln.race import Race, Runner, gatings_of_groups, race

# A sequence of gatings
from neuralrace.reln.rebuilt import Rebuilt, rebuild, table_of, trade_off
from neuralrace.reln.recorded import gate_samples
from neuralrace.reln.staged import Staged, handover_record, staged_reconstruction

__all__ = [
    "Discovery",
    "Equivalent",
    "Implementable",
    "Layer",
    "Modules",
    "Race",
    "Rebuilt",
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
    "neuron_strengths",
    "race",
    "rebuild",
    "staged_reconstruction",
    "table_of",
    "trade_off",
]
