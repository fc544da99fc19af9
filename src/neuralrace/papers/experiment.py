"""What a figure is: settings, what it computes, what it claims, what it draws; and its result, kept on disk."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import xarray
from matplotlib.figure import Figure

from neuralrace.datafiles import load_dataset, make_folder, save_dataset, write_whole
from neuralrace.errors import FileFormatError, require_name
from neuralrace.papers.claims import Claim
from neuralrace.papers.registry import FIGURES
from neuralrace.papers.settings import as_json, override
from neuralrace.plotting import lay_out
from neuralrace.source import code_version

SIZES = ("full", "tiny")
FORMATS = ("png", "svg", "pdf")


@dataclass(frozen=True)
class Experiment:
    """One figure: a declaration that the command line, the report, the docs and the tests find by its name.

    name: as `neuralrace.papers.registry` lists it. full, tiny: two frozen settings. compute: settings -> dataset.
    claims, draw: from the dataset alone. finding: the result, in one sentence that the record supports. differs:
    where the full settings are not the paper's, or say what it leaves open. check: refuses settings that do not go
    together, before anything starts; what each may be for itself stands with it, see `setting`.
    """

    name: str
    full: Any
    tiny: Any
    compute: Callable[[Any], xarray.Dataset]
    claims: Callable[[xarray.Dataset], Iterable[Claim]]
    draw: Callable[[xarray.Dataset], Figure]
    finding: str
    differs: str = ""
    check: Callable[[Any], object] = lambda settings: None

    @property
    def title(self) -> str:
        """The title in the listing."""
        return FIGURES[self.name].title

    @property
    def source(self) -> str:
        """The place in the paper."""
        return FIGURES[self.name].source


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
        name = self.experiment.name
        return [dataclasses.replace(claim, id=f"{name}-{claim.id}") for claim in self.experiment.claims(self.data)]

    @property
    def judged(self) -> bool:
        """Whether the claims count: at the tiny size they are computed and not judged."""
        return self.size == "full"

    @property
    def as_recorded(self) -> bool:
        """Whether every verdict came out as it is on record."""
        return not self.judged or all(claim.as_recorded for claim in self.claims)

    def figure(self) -> Figure:
        """Draw the figure anew; its titles state the result at the usual settings, and a note says where it differs."""
        figure = self.experiment.draw(self.data)
        others = sum(not claim.as_recorded for claim in self.claims) if self.judged else 0
        if others:
            told = f"Titles state the results at the usual settings; {others} of {len(self.claims)} verdicts"
            figure.suptitle(f"{told} are others here.", fontsize="small")
        return figure

    @cached_property
    def laid_out(self) -> Figure:
        """The figure with everything in its place: what its files and its part of a page are made of."""
        return lay_out(self.figure())

    def summary(self) -> dict[str, Any]:
        """The result in plain values: what was run, and each claim with its verdict."""
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "differs": self.experiment.differs,
            "finding": self.experiment.finding,
            "size": self.size,
            "settings": json.loads(as_json(self.settings)),
            "judged": self.judged,
            "as_recorded": self.as_recorded,
            "claims": [claim.as_values() for claim in self.claims],
        }

    def save(self, out: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
        """Write claims and figure into a folder of the experiment's name; return the pictures, one for each format."""
        check_formats(formats)
        folder = make_folder(Path(out) / self.experiment.name)
        summary = json.dumps(self.summary(), indent=2)
        write_whole(folder / "claims.json", lambda part: part.write_text(summary, encoding="utf-8"))
        paths = [folder / f"figure.{kind}" for kind in formats]
        return [write_whole(path, lambda part: self.laid_out.savefig(part, dpi=150)) for path in paths]


def run(experiment: Experiment, size: str, changes: Mapping[str, Any], out: str | Path | None, reuse: bool) -> Result:
    """Run one experiment, see `neuralrace.papers.run`."""
    require_name("size", size, SIZES)
    settings = override(getattr(experiment, size), changes)
    experiment.check(settings)
    stamp = {"experiment": experiment.name, "size": size, "settings": as_json(settings), "code": code_version()}
    path = None if out is None else make_folder(make_folder(out) / experiment.name) / "data.nc"
    if path is not None and reuse:
        try:
            stored = load_dataset(path)
        except FileFormatError:  # it is computed again
            stored = xarray.Dataset()
        if all(stored.attrs.get(key) == value for key, value in stamp.items()):
            return Result(experiment, size, settings, stored)
    data = experiment.compute(settings).assign_attrs(stamp)
    if path is not None:
        save_dataset(data, path)
    return Result(experiment, size, settings, data)


def check_formats(formats: Sequence[str]) -> None:
    """Refuse a picture format that cannot be written."""
    for kind in formats:
        require_name("format", kind, FORMATS)
