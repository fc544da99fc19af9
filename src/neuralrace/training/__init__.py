"""Gradient descent on examples, for networks with gates and with activations."""

from neuralrace.objectives import Objective, Squared
from neuralrace.problem import ReLUNetwork
from neuralrace.training.routed import RoutedNetwork
from neuralrace.training.rules import Descent, Momentum, Rule, make_rule
from neuralrace.training.train import Condition, train, train_together

__all__ = [
    "Condition",
    "Descent",
    "Momentum",
    "Objective",
    "ReLUNetwork",
    "RoutedNetwork",
    "Rule",
    "Squared",
    "make_rule",
    "train",
    "train_together",
]
