"""Figures: settings, computation, claims and drawing; and their results, kept on disk."""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import xarray
from matplotlib.figure import Figure

from neuralrace.errors import (
    FileFormatError,
    RangeError,
    bounds_in_words,
    require_count,
    require_kind,
    require_known,
    require_name,
    require_number,
)
from neuralrace.io import code_version, load_dataset, make_folder, save_dataset, write_whole
from neuralrace.papers.claims import Claim
from neuralrace.papers.registry import Listed
from neuralrace.plotting import lay_out
from neuralrace.progress import Meter
from neuralrace.settings import entry_of, in_words, read_setting

SIZES = ("full", "tiny")


def setting(default: Any, **bounds: Any) -> Any:
    """Declare a setting with bounds: above, least, most, words.

    Without bounds a word may be any word, and a number must be finite, positive if its defaults are, and not negative
    if some of them are zero.
    """
    return dataclasses.field(default=default, metadata={"bounds": bounds})


def bounds_of(field: "dataclasses.Field[Any]") -> dict[str, Any]:
    """The bounds of a setting, or of each entry of a list: those declared, or those that its default suggests."""
    if "bounds" in field.metadata:
        return dict(field.metadata["bounds"])
    parts = field.default if isinstance(field.default, tuple) else (field.default,)
    lowest = min((part for part in parts if isinstance(part, int | float)), default=1)
    if lowest <= 0:
        return {} if lowest < 0 else {"least": 0}
    return {"least": 1} if entry_of(field.type)[0] is int else {"above": 0}


def override(settings: Any, changes: Mapping[str, Any]) -> Any:
    """Replace settings by name; text, as it comes from the command line, is converted to the setting's type."""
    require_kind("changes", changes, Mapping, RangeError)
    known = {field.name: field for field in dataclasses.fields(settings)}
    read = {}
    for name, value in changes.items():
        require_known(name, known, f"there is no setting {name!r}")
        read[name] = read_setting(name, value, known[name].type, getattr(settings, name))
        if read[name] == () and known[name].default:
            raise RangeError(f"setting {name!r} needs at least one value, like {known[name].default!r}; it was empty")
        bounds = bounds_of(known[name])
        for part in read[name] if isinstance(read[name], tuple) else (read[name],):
            if "words" in bounds:
                require_name(f"setting {name!r}", part, bounds["words"])
            elif isinstance(part, int) and not isinstance(part, bool) and "least" in bounds:
                require_count(f"setting {name!r}", part, **bounds)
            elif isinstance(part, int | float) and not isinstance(part, bool):
                require_number(f"setting {name!r}", part, **bounds)
    return dataclasses.replace(settings, **read)


def as_json(settings: Any) -> str:
    """The settings as one line of JSON, always in the same order."""
    return json.dumps(dataclasses.asdict(settings), sort_keys=True)


def described(full: Any, tiny: Any) -> list[dict[str, Any]]:
    """Describe each setting: its value at both sizes, its type, and its bounds."""
    found = []
    for field in dataclasses.fields(full):
        bounds, number = bounds_of(field), entry_of(field.type)[0] in (int, float)
        limits = bounds_in_words(bounds.get("above"), bounds.get("least"), bounds.get("most"))
        may = ", ".join(bounds.get("words", ())) or " and ".join(limits)
        row = {"setting": field.name, "full": getattr(full, field.name), "tiny": getattr(tiny, field.name)}
        found.append(row | {"is": in_words(field.type), "may be": may if number or "bounds" in field.metadata else ""})
    return found


@dataclass(frozen=True, kw_only=True)
class Experiment(Listed):
    """A figure of the listing with its code, which the command line, the report, the docs and the tests share.

    full, tiny: two frozen settings. compute: settings -> dataset. claims, draw: from the dataset alone. check: refuses
    settings that do not go together, before anything starts; what each may be by itself is declared by `setting`.
    """

    full: Any
    tiny: Any
    compute: Callable[[Any], xarray.Dataset]
    claims: Callable[[xarray.Dataset], Iterable[Claim]]
    draw: Callable[[xarray.Dataset], Figure]
    check: Callable[[Any], object] = lambda settings: None

    def run(self, size: str, changes: Mapping[str, Any], out: str | Path | None, reuse: bool) -> "Result":
        """Run the figure, see `neuralrace.papers.run`."""
        require_name("size", size, SIZES)
        settings = override(getattr(self, size), changes)
        self.check(settings)
        stamp = {"experiment": self.name, "size": size, "settings": as_json(settings), "code": code_version()}
        path = None if out is None else make_folder(make_folder(out) / self.name) / "data.nc"
        if path is not None and reuse:
            try:
                stored = load_dataset(path)
            except FileFormatError:  # it is computed again
                stored = xarray.Dataset()
            if all(stored.attrs.get(key) == value for key, value in stamp.items()):
                return Result(self, size, settings, stored)
        with Meter(self.name):
            data = self.compute(settings).assign_attrs(stamp)
        if path is not None:
            save_dataset(data, path)
        return Result(self, size, settings, data)


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
            note = f"Titles state the results at the usual settings; {others} of {len(self.claims)} verdicts"
            figure.suptitle(f"{note} are others here.", fontsize="small")
        return figure

    @cached_property
    def laid_out(self) -> Figure:
        """The figure with everything in its place: what its files and its part of a page are made of."""
        return lay_out(self.figure())

    def summary(self) -> dict[str, Any]:
        """The result in plain values: what was run, and each claim with its verdict."""
        return {
            "experiment": self.experiment.name,
            **{key: getattr(self.experiment, key) for key in ("title", "differs", "finding")},
            **{key: getattr(self, key) for key in ("size", "judged", "as_recorded")},
            "settings": json.loads(as_json(self.settings)),
            "claims": [claim.as_values() for claim in self.claims],
        }

    def save(self, out: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
        """Write claims and figure into a folder of the experiment's name; return the pictures, one for each format."""
        for kind in formats:
            require_name("format", kind, ("png", "svg", "pdf"))
        folder = make_folder(Path(out) / self.experiment.name)
        summary = json.dumps(self.summary(), indent=2)
        write_whole(folder / "claims.json", lambda part: part.write_text(summary, encoding="utf-8"))
        paths = [folder / f"figure.{kind}" for kind in formats]
        return [write_whole(path, lambda part: self.laid_out.savefig(part, dpi=150)) for path in paths]
