"""Gradient descent on examples, for networks with gates and with activations."""

from neuralrace.training.condition import Condition
from neuralrace.training.learner import Penalty
from neuralrace.training.relu_network import ReLUNetwork
from neuralrace.training.train import train, train_together

__all__ = ["Condition", "Penalty", "ReLUNetwork", "train", "train_together"]
