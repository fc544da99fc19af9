"""ReLU networks read as gated networks: exactly, by the few modules that they form, and by the race between gatings."""

# The few modules that it forms
from neuralrace.reln.course import Course, course
from neuralrace.reln.directions import Directions, Drop, Fall, directions
from neuralrace.reln.discovery import Discovery, discover

# A ReLU network is a gated network
from neuralrace.reln.equivalence import Equivalent, equivalent, equivalent_arrays, equivalent_torch

# Those that it will form, and which directions grow first
from neuralrace.reln.foreseen import Foreseen, foresee

# Which gates a neuron can have
from neuralrace.reln.implementable import Implementable, implementable, implementable_patterns
from neuralrace.reln.matching import Pair, match
from neuralrace.reln.modular import Layer, Modular, Tried, modules_in
from neuralrace.reln.modules import Modules, find_modules, gated_problem
from neuralrace.reln.passing import neuron_strengths

# Which gating wins
from neuralrace.reln.race import Ranking, Runner, gatings_of_groups, race

# A sequence of gatings
from neuralrace.reln.rebuilt import Rebuilt, rebuild, table_of, trade_off
from neuralrace.reln.recorded import gate_samples
from neuralrace.reln.staged import Staged, handover_record, staged_reconstruction

__all__ = [
    "Course",
    "Directions",
    "Discovery",
    "Drop",
    "Equivalent",
    "Fall",
    "Foreseen",
    "Implementable",
    "Layer",
    "Modular",
    "Modules",
    "Pair",
    "Ranking",
    "Rebuilt",
    "Runner",
    "Staged",
    "Tried",
    "course",
    "directions",
    "discover",
    "equivalent",
    "equivalent_arrays",
    "equivalent_torch",
    "find_modules",
    "foresee",
    "gate_samples",
    "gated_problem",
    "gatings_of_groups",
    "handover_record",
    "implementable",
    "implementable_patterns",
    "match",
    "modules_in",
    "neuron_strengths",
    "race",
    "rebuild",
    "staged_reconstruction",
    "table_of",
    "trade_off",
]
