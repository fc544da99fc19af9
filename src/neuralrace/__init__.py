"""Predict how gated deep linear networks and ReLU networks learn, and check it against training."""

# the values that a problem is made of
from neuralrace import initial, tasks
from neuralrace.architecture import Architecture, Path
from neuralrace.errors import NeuralRaceError
from neuralrace.gates import Gates
from neuralrace.precision import float64
from neuralrace.problem import Problem
from neuralrace.path_statistics import PathStatistics
from neuralrace.task import Task

# theory: from statistics to a learning curve
from neuralrace import theory
from neuralrace.theory import predict

# training, and what it returns
from neuralrace.training import ReLUNetwork, train
from neuralrace.trajectory import Trajectory

# comparing the two
from neuralrace import analysis
from neuralrace.analysis import agreement

# ReLU networks read through gates, and the race of views
from neuralrace import reln, views

# the figures of the papers, and one task explained; last, because they use all of the above
from neuralrace import experiments
from neuralrace.explanation import Explanation, explain

__all__ = [
    "Architecture",
    "Explanation",
    "Gates",
    "NeuralRaceError",
    "Path",
    "PathStatistics",
    "Problem",
    "ReLUNetwork",
    "Task",
    "Trajectory",
    "agreement",
    "analysis",
    "experiments",
    "explain",
    "float64",
    "initial",
    "predict",
    "reln",
    "tasks",
    "theory",
    "train",
    "views",
]
