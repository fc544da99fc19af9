"""Weights that another framework trained and wrote: files, names of layers, transposes, the pace of the training."""

from neuralrace.foreign.files import Saved, read_folder, read_weights
from neuralrace.foreign.layers import Linear, layers_of, weights_by_edge
from neuralrace.foreign.pace import Pace, measure_pace

__all__ = ["Linear", "Pace", "Saved", "layers_of", "measure_pace", "read_folder", "read_weights", "weights_by_edge"]
