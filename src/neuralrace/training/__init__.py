"""Gradient descent on examples, for gated networks and for ReLU networks."""

from neuralrace.training.relu import ReLUNetwork
from neuralrace.training.train import train

__all__ = ["ReLUNetwork", "train"]
