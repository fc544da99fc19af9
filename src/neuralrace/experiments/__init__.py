"""The figures of the papers again, each with its claims measured."""

import typing as _typing

from neuralrace._lazy import open_on_demand as _open_on_demand

if _typing.TYPE_CHECKING:  # for those who read types; a listing needs none of the machinery
    from neuralrace.experiments.claim import Claim, Claims
    from neuralrace.experiments.experiment import Experiment, Result, get
    from neuralrace.experiments.listing import listed, names
    from neuralrace.experiments.settings import setting
    from neuralrace.experiments.store import check_formats, check_size, run, save_result, summarise

__all__ = [
    "Claim",
    "Claims",
    "Experiment",
    "Result",
    "check_formats",
    "check_size",
    "get",
    "listed",
    "names",
    "run",
    "save_result",
    "setting",
    "summarise",
]

__getattr__, __dir__ = _open_on_demand(
    __name__,
    {
        "neuralrace.experiments.claim": ("Claim", "Claims"),
        "neuralrace.experiments.experiment": ("Experiment", "Result", "get"),
        "neuralrace.experiments.listing": ("listed", "names"),
        "neuralrace.experiments.settings": ("setting",),
        "neuralrace.experiments.store": ("check_formats", "check_size", "run", "save_result", "summarise"),
    },
)
