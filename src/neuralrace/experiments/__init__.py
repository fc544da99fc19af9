"""The figures of the papers again, each with its claims measured."""

from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment, Result
from neuralrace.experiments.registry import get, names
from neuralrace.experiments.store import check_formats, run, save_result, summarise

__all__ = ["Claim", "Experiment", "Result", "check_formats", "get", "names", "run", "save_result", "summarise"]
