"""Arrays and trajectories in, numbers out."""

from neuralrace.analysis.activity import (
    aligned_mds,
    alignment,
    by_group,
    chance_by_groups,
    concentration,
    cosine_similarity,
    groups_active,
    mds,
    rotation_onto,
    share_by_groups,
    similarity,
)
from neuralrace.analysis.agreement import Agreement, Line, agreement
from neuralrace.analysis.curves import Interval, Plateau, interval, plateaus, proportion, time_to, typical
from neuralrace.analysis.kernel import kernel_change, tangent_kernel

__all__ = [
    "Agreement",
    "Interval",
    "Line",
    "Plateau",
    "agreement",
    "aligned_mds",
    "alignment",
    "by_group",
    "chance_by_groups",
    "concentration",
    "cosine_similarity",
    "groups_active",
    "interval",
    "kernel_change",
    "mds",
    "plateaus",
    "proportion",
    "rotation_onto",
    "share_by_groups",
    "similarity",
    "tangent_kernel",
    "time_to",
    "typical",
]
