"""Gradient descent on examples, for networks with gates and with activations."""

from neuralrace.problem import ReLUNetwork
from neuralrace.training.condition import Condition
from neuralrace.training.learner import Penalty
from neuralrace.training.routed import RoutedNetwork
from neuralrace.training.train import train, train_together

__all__ = ["Condition", "Penalty", "ReLUNetwork", "RoutedNetwork", "train", "train_together"]
