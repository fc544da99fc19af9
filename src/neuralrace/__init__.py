"""Predict how gated deep linear networks and ReLU networks learn, and check it against training."""

import typing as _typing

from neuralrace._lazy import open_on_demand as _open_on_demand

if _typing.TYPE_CHECKING:  # for those who read types; the names below are imported when they are used
    # the values that a problem is made of
    from neuralrace import batches, initial, tasks
    from neuralrace.activations import leaky_relu
    from neuralrace.architecture import Architecture, Path
    from neuralrace.errors import NeuralRaceError
    from neuralrace.gates import Gates
    from neuralrace.arrays import float64
    from neuralrace.problem import Problem
    from neuralrace.statistics import PathStatistics
    from neuralrace.task import Task

    # theory: from statistics to a learning curve
    from neuralrace import theory
    from neuralrace.theory import predict

    # training, and what it returns
    from neuralrace.training import ReLUNetwork, RoutedNetwork, train
    from neuralrace.trajectory import Trajectory

    # comparing the two
    from neuralrace import analysis
    from neuralrace.analysis import agreement
    from neuralrace.comparison import compare

    # ReLU networks read through gates, and the race of views
    from neuralrace import reln, views

    # the figures of the papers, and one task explained
    from neuralrace import papers
    from neuralrace.explanation import Explanation
    from neuralrace.explanation.explaining import explain
    from neuralrace.sweeps import sweep

_HOMES = {
    "neuralrace": ("analysis", "batches", "papers", "initial", "reln", "tasks", "theory", "views"),
    "neuralrace.activations": ("leaky_relu",),
    "neuralrace.analysis": ("agreement",),
    "neuralrace.architecture": ("Architecture", "Path"),
    "neuralrace.comparison": ("compare",),
    "neuralrace.errors": ("NeuralRaceError",),
    "neuralrace.explanation": ("Explanation", "explain"),
    "neuralrace.gates": ("Gates",),
    "neuralrace.statistics": ("PathStatistics",),
    "neuralrace.arrays": ("float64",),
    "neuralrace.problem": ("Problem",),
    "neuralrace.sweeps": ("sweep",),
    "neuralrace.task": ("Task",),
    "neuralrace.theory": ("predict",),
    "neuralrace.training": ("ReLUNetwork", "RoutedNetwork", "train"),
    "neuralrace.trajectory": ("Trajectory",),
}

__all__ = [
    "Architecture",
    "Explanation",
    "Gates",
    "NeuralRaceError",
    "Path",
    "PathStatistics",
    "Problem",
    "ReLUNetwork",
    "RoutedNetwork",
    "Task",
    "Trajectory",
    "agreement",
    "analysis",
    "batches",
    "compare",
    "explain",
    "float64",
    "initial",
    "leaky_relu",
    "papers",
    "predict",
    "reln",
    "sweep",
    "tasks",
    "theory",
    "train",
    "views",
]

# what a problem is made of comes with both roads
_TOGETHER = ("neuralrace.initial", "neuralrace.problem", "neuralrace.tasks", "neuralrace.theory", "neuralrace.training")

__getattr__, __dir__ = _open_on_demand(__name__, _HOMES, _TOGETHER)
