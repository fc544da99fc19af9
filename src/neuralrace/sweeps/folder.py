"""A sweep on disk: what it is, and a sealed file for each finished point, so that nothing is computed twice."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuralrace.datafiles import load_dataset, make_folder, write_text, write_whole
from neuralrace.errors import FileFormatError
from neuralrace.sweeps.points import Point, Sweep

DESCRIPTION = "sweep.json"
POINTS = "points"


@dataclass(frozen=True)
class Folder:
    """Where a sweep is kept."""

    path: Path

    def file_of(self, point: Point) -> Path:
        """The file of a point, finished or not."""
        return self.path / POINTS / f"{point.key}.nc"

    def finished(self, point: Point) -> bool:
        """Whether the point is there, whole and undamaged."""
        try:
            load_dataset(self.file_of(point))
        except FileFormatError:
            return False
        return True

    def keep(self, key: str, sealed: bytes) -> None:
        """Put a finished point on disk in one step."""
        write_whole(self.path / POINTS / f"{key}.nc", lambda part: part.write_bytes(sealed))


def find_folder(out: str | os.PathLike[str], sweep: Sweep) -> Folder:
    """The folder of a sweep, as it is or empty; that of another sweep is refused."""
    path = make_folder(out)
    description = path / DESCRIPTION
    if os.path.lexists(description):
        found = _read(description)
        if found != sweep.identity:
            raise FileFormatError(
                f"{path} holds another sweep, {_difference(found, sweep.identity)}: give another folder, or remove it"
            )
    return Folder(path)


def open_folder(out: str | os.PathLike[str], sweep: Sweep) -> Folder:
    """The folder of a sweep that begins or goes on: from now on it is this sweep's."""
    folder = find_folder(out, sweep)
    make_folder(folder.path / POINTS)
    description = folder.path / DESCRIPTION
    if not os.path.lexists(description):
        write_text(description, json.dumps(sweep.identity, indent=2) + "\n")
    return folder


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} must say which sweep this is; it cannot be read ({error}): remove it") from None
    return found if isinstance(found, dict) else {}


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    for name, value in wanted.items():
        if found.get(name) != value:
            return f"with {name} {json.dumps(found.get(name))[:200]} and not {json.dumps(value)[:200]}"
    return "of another kind"
