"""Tasks from files: one .npz, or .csv files of inputs, of targets and, if wanted, of groups. Nothing is executed."""

import csv
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from neuralrace.errors import FileFormatError, TaskError
from neuralrace.task import Task
from neuralrace.tasks.registry import NamedTask

NEEDED, ALLOWED = ("inputs", "targets"), ("inputs", "targets", "groups", "weights")
HIDDEN = 100


def read(*paths: str | os.PathLike[str]) -> NamedTask:
    """Read a task: one .npz, or .csv files in the order inputs, targets and, if wanted, groups.

    An .npz holds inputs and targets and may hold groups and weights. One example per row. A first line of a .csv that
    is not all numbers names the columns. Groups are a label per example, numbers or words.
    """
    files = [Path(path) for path in paths]
    for path in files:
        if not path.is_file():
            raise FileFormatError(f"a file with examples is required; there is no file {path}")
    kinds = [path.suffix.lower() for path in files]
    if kinds == [".npz"]:
        return _from_npz(files[0])
    if kinds in ([".csv"] * 2, [".csv"] * 3):
        return _from_csv(files)
    raise FileFormatError(
        "one .npz is required, or two or three .csv: inputs, targets, groups; "
        f"{', '.join(path.name for path in files) or 'nothing'} came"
    )


def _from_npz(path: Path) -> NamedTask:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        raise FileFormatError(f"{path} is not a readable .npz of plain arrays; write it with numpy.savez") from None
    for name in NEEDED:
        if name not in arrays:
            raise FileFormatError(f"{path} must hold {' and '.join(NEEDED)}; it holds {', '.join(arrays) or 'nothing'}")
    for name in arrays:
        if name not in ALLOWED:
            raise FileFormatError(f"{path} may hold {', '.join(ALLOWED)}; it also holds {name}")
    rows = {name: _numbers(path, name, arrays[name]) for name in NEEDED}
    return _named(path, rows["inputs"], rows["targets"], arrays.get("groups"), arrays.get("weights"), {})


def _numbers(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fiub":
        raise FileFormatError(f"{path}: {name} must be numbers; they are of type {array.dtype}")
    if array.ndim not in (1, 2):
        raise FileFormatError(f"{path}: {name} must have one row per example; their shape is {array.shape}")
    return np.asarray(array if array.ndim == 2 else array[:, None], dtype=np.float64)


def _from_csv(files: Sequence[Path]) -> NamedTask:
    tables = [_table(path) for path in files[:2]]
    labels = {node: names for node, (names, _) in zip("xy", tables, strict=True) if names}
    inputs, targets = (rows for _, rows in tables)
    groups = None if len(files) == 2 else _labels(files[2], len(inputs))
    return _named(files[0], inputs, targets, groups, None, labels)


def _lines(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:
            lines = [[cell.strip() for cell in line] for line in csv.reader(handle) if any(map(str.strip, line))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path} is not a readable .csv ({str(error).splitlines()[0]})") from None
    if not lines:
        raise FileFormatError(f"{path} must hold one example per line; it is empty")
    return lines


def _table(path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the columns, none if the first line is numbers, and the rows."""
    lines = _lines(path)
    names: tuple[str, ...] = ()
    if not all(map(_is_number, lines[0])):
        names, lines = tuple(lines[0]), lines[1:]
    if not lines:
        raise FileFormatError(f"{path} must hold one example per line; it holds names alone")
    width = len(names) or len(lines[0])
    for number, line in enumerate(lines, start=2 if names else 1):
        if len(line) != width:
            raise FileFormatError(f"{path} must have {width} columns in every line; line {number} has {len(line)}")
        for column, cell in enumerate(line, start=1):
            if not _is_number(cell):
                raise FileFormatError(f"{path} must hold numbers; line {number}, column {column} is {cell!r}")
    return names, np.array(lines, dtype=np.float64)


def _labels(path: Path, count: int) -> np.ndarray:
    lines = _lines(path)
    if any(len(line) != 1 for line in lines):
        raise FileFormatError(f"{path} must have one label per line; a line has {max(map(len, lines))}")
    found = [line[0] for line in lines]
    return np.array(found[1:] if len(found) == count + 1 else found)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _named(
    path: Path,
    inputs: np.ndarray,
    targets: np.ndarray,
    groups: np.ndarray | None,
    weights: np.ndarray | None,
    labels: dict[str, tuple[str, ...]],
) -> NamedTask:
    try:
        task = Task({"x": inputs}, {"y": targets}, weights)
        return NamedTask(
            name=path.stem,
            settings={},
            task=task,
            gatings={},
            hidden=HIDDEN,
            groups={} if groups is None else {"group": np.asarray(groups).reshape(-1)},
            labels=labels,
        )
    except TaskError as error:
        raise FileFormatError(f"{path}: {error}") from None
