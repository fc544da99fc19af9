"""Arrays and trajectories in, numbers out."""

from neuralrace.analysis.activity import (
    aligned_mds,
    alignment,
    chance_by_groups,
    cosine_similarity,
    groups_active,
    kernel_change,
    rotation_onto,
    share_by_groups,
    similarity,
    tangent_kernel,
)
from neuralrace.analysis.agreement import Agreement, Line, agreement
from neuralrace.analysis.curves import Interval, Plateau, interval, plateaus, proportion, time_to, typical

__all__ = [
    "Agreement",
    "Interval",
    "Line",
    "Plateau",
    "agreement",
    "aligned_mds",
    "alignment",
    "chance_by_groups",
    "cosine_similarity",
    "groups_active",
    "interval",
    "kernel_change",
    "plateaus",
    "proportion",
    "rotation_onto",
    "share_by_groups",
    "similarity",
    "tangent_kernel",
    "time_to",
    "typical",
]
