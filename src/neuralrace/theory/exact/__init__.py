"""Exact learning curves, for plain numbers and arrays.

Conventions: time is learning_rate * step, the loss is half the mean squared error. Results are NumPy
arrays in double precision; inside a JAX transformation they are JAX's, and gradients are had by
`float64(jax.grad(f))`. Derivations and assumptions are in docs/theory/exact.md.
"""

# Two layers, one mode: the logistic curve
from neuralrace.theory.exact.two_layer import (
    two_layer_gap,
    two_layer_loss,
    two_layer_mode,
    two_layer_time,
    two_layer_time_to_loss,
)

# Between XOR and a linear margin: which gating is faster
from neuralrace.theory.exact.separability import (
    GatingStatistics,
    crossover_margin,
    gating_loss,
    gating_time,
    linear_gating,
    xor_gating,
)

# Any depth
from neuralrace.theory.exact.depth import deep_loss, deep_mode, deep_time, infinitely_deep_mode, infinitely_deep_time

# Layers that differ: from rich to lazy
from neuralrace.theory.exact.unbalanced import (
    laziness,
    unbalanced_layers,
    unbalanced_loss,
    unbalanced_mode,
    unbalanced_time,
)

# Two layers, unaligned: the whole matrix
from neuralrace.theory.exact.lambda_balanced import TwoLayerFlow, imbalance, lambda_balanced_flow, tangent_kernel

# The routing network
from neuralrace.theory.exact.routing import (
    RoutingLayers,
    routing_final,
    routing_invariant,
    routing_layers,
    routing_loss,
    routing_ratio,
    routing_time,
)

# Which pairs of domains are trained
from neuralrace.theory.exact.pairs import PairRace, pair_left, pair_race

# The contextual network
from neuralrace.theory.exact.contextual import (
    ContextualStatistics,
    LearningEvents,
    Overlaps,
    contextual_events,
    contextual_loss,
    contextual_mode,
    contextual_overlaps,
    contextual_statistics,
)

# The race of views
from neuralrace.theory.exact.views import RaceEnd, race_amplitudes, race_end, race_invariants

# ReLU networks that are linear in disguise
from neuralrace.theory.exact.sign_symmetric import (
    SignSymmetry,
    linear_time_factor,
    sign_symmetric_flow,
    sign_symmetric_loss,
    sign_symmetric_mode,
    sign_symmetric_time,
    sign_symmetry,
)

# A whole spectrum: order and plateaus
from neuralrace.theory.exact.spectrum import LearningOrder, Plateau, learning_order, next_plateau

__all__ = [
    "ContextualStatistics", "GatingStatistics", "LearningEvents", "LearningOrder", "Overlaps", "PairRace", "Plateau",
    "RaceEnd", "RoutingLayers", "SignSymmetry", "TwoLayerFlow", "contextual_events", "contextual_loss",
    "contextual_mode", "contextual_overlaps", "contextual_statistics", "crossover_margin", "deep_loss",
    "deep_mode", "deep_time", "gating_loss", "gating_time", "imbalance", "infinitely_deep_mode",
    "infinitely_deep_time", "lambda_balanced_flow", "laziness", "learning_order", "linear_gating",
    "linear_time_factor", "next_plateau", "pair_left", "pair_race", "race_amplitudes", "race_end",
    "race_invariants", "routing_final", "routing_invariant", "routing_layers", "routing_loss", "routing_ratio",
    "routing_time",
    "sign_symmetric_flow", "sign_symmetric_loss", "sign_symmetric_mode", "sign_symmetric_time",
    "sign_symmetry", "tangent_kernel", "two_layer_gap", "two_layer_loss", "two_layer_mode", "two_layer_time",
    "two_layer_time_to_loss", "unbalanced_layers", "unbalanced_loss", "unbalanced_mode", "unbalanced_time",
    "xor_gating",
]  # fmt: skip
