"""Gradient descent on examples, for networks with gates and with activations."""

from neuralrace.problem import ReLUNetwork
from neuralrace.training.learner import Penalty
from neuralrace.training.objectives import Objective, Squared
from neuralrace.training.routed import RoutedNetwork
from neuralrace.training.rules import Descent, Momentum, Rule, RungeKutta, make_rule
from neuralrace.training.train import Condition, train, train_together

__all__ = [
    "Condition",
    "Descent",
    "Momentum",
    "Objective",
    "Penalty",
    "ReLUNetwork",
    "RoutedNetwork",
    "Rule",
    "RungeKutta",
    "Squared",
    "make_rule",
    "train",
    "train_together",
]
