"""The experiments by name: every module in `figures` but those that start with "_", which figures share."""

import importlib

from neuralrace.errors import UnknownNameError, nearest
from neuralrace.experiments.experiment import Experiment
from neuralrace.experiments.listing import listed


def get(name: str) -> Experiment:
    """Look an experiment up; no other is imported for it."""
    if name not in listed():
        raise UnknownNameError(f"there is no experiment {name!r}; {nearest(name, listed())}")
    module = importlib.import_module(f"neuralrace.experiments.figures.{listed()[name].module}")
    experiment: Experiment = module.EXPERIMENT
    return experiment
