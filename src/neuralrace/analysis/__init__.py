"""Arrays and trajectories in, numbers out."""

from neuralrace.analysis.agreement import Agreement, Line, agreement
from neuralrace.analysis.curves import Plateau, plateaus, time_to, typical
from neuralrace.analysis.kernel import kernel_change, tangent_kernel
from neuralrace.analysis.mds import aligned_mds, mds, rotation_onto
from neuralrace.analysis.selectivity import by_group, chance_by_groups, concentration, groups_active, share_by_groups
from neuralrace.analysis.similarity import alignment, cosine_similarity, similarity

__all__ = [
    "Agreement",
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
    "kernel_change",
    "mds",
    "plateaus",
    "rotation_onto",
    "share_by_groups",
    "similarity",
    "tangent_kernel",
    "time_to",
    "typical",
]
