"""What an experiment is: settings, what it computes, what it claims, what it draws; and each of them by its name."""

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import xarray
from matplotlib.figure import Figure

from neuralrace.errors import require_known
from neuralrace.papers.claim import Claim
from neuralrace.papers.listing import SECONDS, listed
from neuralrace.plotting import lay_out


@dataclass(frozen=True)
class Experiment:
    """One figure: a declaration that the command line, the report, the docs and the tests find by its name.

    full, tiny: two frozen settings. compute: settings -> dataset. claims, draw: from the dataset alone. finding: what
    came out, in one sentence that the record bears out. differs: where the full settings are not the paper's, or say
    what it leaves open; empty where they are the same. check: refuses settings that do not
    go together, before anything starts; what each may be for itself stands with it, see `setting`. seconds: of one
    core, about, at full size: of experiments side by side the longest start first.
    """

    name: str
    title: str
    source: str
    full: Any
    tiny: Any
    compute: Callable[[Any], xarray.Dataset]
    claims: Callable[[xarray.Dataset], Iterable[Claim]]
    draw: Callable[[xarray.Dataset], Figure]
    summary: Callable[[xarray.Dataset], str] = lambda data: ""
    differs: str = ""
    finding: str = ""
    check: Callable[[Any], object] = lambda settings: None
    seconds: float = SECONDS


@dataclass(frozen=True)
class Result:
    """A finished experiment."""

    experiment: Experiment
    size: str
    settings: Any
    data: xarray.Dataset

    @cached_property
    def claims(self) -> list[Claim]:
        """Every claim of the experiment, measured; computed once."""
        return list(self.experiment.claims(self.data))

    @property
    def judged(self) -> bool:
        """Whether the claims count: at the tiny size they are computed and not judged."""
        return self.size == "full"

    @property
    def as_recorded(self) -> bool:
        """Whether every verdict came out as it is on record."""
        return not self.judged or all(claim.as_recorded for claim in self.claims)

    def figure(self) -> Figure:
        """Draw the figure anew; its titles say what came out with the usual settings, and so it says where they err."""
        figure = self.experiment.draw(self.data)
        others = sum(not claim.as_recorded for claim in self.claims) if self.judged else 0
        if others:
            told = f"Titles say what came out with the usual settings; {others} of {len(self.claims)} verdicts"
            figure.suptitle(f"{told} are others here.", fontsize="small")
        return figure

    @cached_property
    def laid_out(self) -> Figure:
        """The figure with everything in its place: what its files and its part of a page are made of."""
        return lay_out(self.figure())


def get(name: str) -> Experiment:
    """Look an experiment up; no other is imported for it."""
    require_known(name, listed(), f"there is no experiment {name!r}")
    module = importlib.import_module(f"neuralrace.papers.figures.{listed()[name].module}")
    experiment: Experiment = module.EXPERIMENT
    return experiment
