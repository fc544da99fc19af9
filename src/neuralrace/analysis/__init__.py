"""Arrays and trajectories in, numbers out."""

from neuralrace.analysis.agreement import Agreement, Line, agreement
from neuralrace.analysis.kernel import kernel_change, tangent_kernel
from neuralrace.analysis.similarity import cosine_similarity, similarity

__all__ = ["Agreement", "Line", "agreement", "cosine_similarity", "kernel_change", "similarity", "tangent_kernel"]
