"""Data that do not fit into memory: the statistics and the few examples of a gated problem in one pass over batches."""

from neuralrace.batches.batch import Batch, cut
from neuralrace.batches.gathered import problem

__all__ = ["Batch", "cut", "problem"]
