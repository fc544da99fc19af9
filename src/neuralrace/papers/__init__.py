"""The figures of the papers again, each with its claims measured."""

import typing as _typing

from neuralrace._lazy import open_on_demand as _open_on_demand

if _typing.TYPE_CHECKING:  # for those who read types; a listing needs none of the machinery
    from neuralrace.papers.claim import Claim, Claims
    from neuralrace.papers.experiment import Experiment, Result, get
    from neuralrace.papers.listing import listed, names
    from neuralrace.papers.settings import setting
    from neuralrace.papers.store import check_formats, check_size, run, save_result, summarize

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
    "summarize",
]

__getattr__, __dir__ = _open_on_demand(
    __name__,
    {
        "neuralrace.papers.claim": ("Claim", "Claims"),
        "neuralrace.papers.experiment": ("Experiment", "Result", "get"),
        "neuralrace.papers.listing": ("listed", "names"),
        "neuralrace.papers.settings": ("setting",),
        "neuralrace.papers.store": ("check_formats", "check_size", "run", "save_result", "summarize"),
    },
)
