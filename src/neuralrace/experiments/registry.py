"""The experiments that there are: every module in `figures` but those that start with "_", which figures share."""

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from neuralrace.errors import UnknownNameError, nearest
from neuralrace.experiments import figures
from neuralrace.experiments.experiment import Experiment


@functools.cache
def registered() -> Mapping[str, Experiment]:
    """Name -> experiment, in the order of the names."""
    found = {}
    for module in pkgutil.iter_modules(figures.__path__):
        if not module.name.startswith("_"):
            experiment: Experiment = importlib.import_module(f"{figures.__name__}.{module.name}").EXPERIMENT
            found[experiment.name] = experiment
    return dict(sorted(found.items()))


def names() -> tuple[str, ...]:
    """The names of all experiments."""
    return tuple(registered())


def get(name: str) -> Experiment:
    """Look an experiment up."""
    if name not in registered():
        raise UnknownNameError(f"there is no experiment {name!r}; {nearest(name, registered())}")
    return registered()[name]
