"""The front door of files: paths and what they mean in, a task with names, groups and notes out."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neuralrace.archives import Header, read_archive
from neuralrace.datafiles import as_path
from neuralrace.errors import FileFormatError, TaskError, require_count
from neuralrace.task import Task
from neuralrace.tasks.files.columns import Targets, find_columns, input_columns, is_a_code, make_targets, one_hot
from neuralrace.tasks.files.preparation import has_constant, standardized, with_constant
from neuralrace.tasks.files.tables import Table, read_table
from neuralrace.tasks.registry import NamedTask

NEEDED, ALLOWED = ("inputs", "targets"), ("inputs", "targets", "groups", "weights", "input_names", "target_names")
TABLES = (".csv", ".tsv", ".txt", ".data")
MOST_BYTES = 2**29  # 512 MiB: of a table of text, or of the arrays of an archive; `most_bytes` raises it
KINDS = {"inputs": "fiub", "targets": "fiubUS", "weights": "fiub", "groups": "fiubUS"}  # names: words alone

Columns = str | int | Sequence[str | int] | None


class Contents(NamedTuple):
    """What a file holds, whatever its kind."""

    inputs: np.ndarray
    names: tuple[str, ...]
    targets: Targets
    groups: np.ndarray | None
    weights: np.ndarray | None
    notes: tuple[str, ...]


def read(
    *paths: str | os.PathLike[str],
    targets: Columns = None,
    drop: Columns = None,
    separator: str | None = None,
    classes: bool | None = None,
    standardize: bool = False,
    bias: bool = False,
    most_bytes: int = MOST_BYTES,
) -> NamedTask:
    """Read a task: one .npz; one table with `targets`; or tables in the order inputs, targets and, if wanted, groups.

    An .npz holds inputs and targets and may hold groups, weights, input_names and target_names. A table (.csv, .tsv,
    .txt) has one example per line; a first line of names is noticed. targets, drop: columns by name or by number,
    which counts from 1, or from -1 at the end; a text may hold several, with commas. separator: found if not given.
    classes: whether targets are labels, each class an output of its own; words always are, and so are whole numbers
    without a gap, three or more, unless False is given. standardize: inputs and numeric targets get mean 0 and
    standard deviation 1, constant ones size 1. bias: a constant input is added. most_bytes: what a file may hold at
    most, unpacked.

    `notes` of what comes back say what was done that was not asked for; `tasks.cautions` says what to mind.
    """
    given = paths[0] if len(paths) == 1 and isinstance(paths[0], (list, tuple)) else paths
    files, most = [as_path("each argument", path) for path in given], require_count("most_bytes", most_bytes)
    for path in files:
        if not path.is_file():
            raise FileFormatError(f"a file with examples is required; there is no file {path}")
    wanted, dropped = _listed("targets", targets), _listed("drop", drop)
    kinds = [path.suffix.lower() for path in files]
    if kinds == [".npz"]:
        if wanted or dropped or separator is not None:
            raise FileFormatError("targets, drop and separator are for tables; an .npz names its arrays itself")
        found = _from_archive(files[0], classes, most)
    elif len(files) == 1 and kinds[0] in TABLES:
        found = _from_table(files[0], wanted, dropped, separator, classes, most)
    elif len(files) in (2, 3) and set(kinds) <= set(TABLES):
        if wanted or dropped:
            raise FileFormatError("targets and drop are for one table; here the second file holds the targets")
        found = _from_tables(files, separator, classes, most)
    else:
        raise FileFormatError(
            "one .npz is required, one .csv with targets, or two or three .csv: inputs, targets, groups; "
            f"{', '.join(path.name for path in files) or 'nothing'} came"
        )
    return _named(files[0], found, wanted, standardize, bias)


def _listed(name: str, columns: Columns) -> list[str]:
    """Columns as a list of their names or numbers."""
    if columns is None:
        return []
    parts: list[Any]
    if isinstance(columns, str):
        parts = columns.split(",")
    else:
        parts = list(columns) if isinstance(columns, (Sequence, np.ndarray)) else [columns]
    if any(isinstance(part, bool) or not isinstance(part, (str, int, np.integer)) for part in parts):
        raise FileFormatError(f"{name} must be columns by name or number; it was {columns!r}")
    texts = [str(part).strip() for part in parts]
    if not all(texts):
        raise FileFormatError(f"{name} must name its columns; it was {columns!r}")
    return texts


# tables


def _from_table(
    path: Path, wanted: list[str], dropped: list[str], separator: str | None, classes: bool | None, most: int
) -> Contents:
    """One table that holds inputs and targets."""
    names = [column for column in (*wanted, *dropped) if not column.removeprefix("-").isdecimal()]

    def kept(head: Sequence[str], width: int) -> list[int]:
        return find_columns(path, [*wanted, *dropped], head, width)

    table = read_table(path, separator, most, kept, names)
    if not wanted:
        titles = ", ".join(table.title(column) for column in range(min(table.width, 12)))
        raise FileFormatError(
            f"{path} must say which columns are targets (targets=...), or come with a second .csv of targets; its "
            f"columns are {titles}{', ...' if table.width > 12 else ''}"
        )
    columns = kept(table.names, table.width)
    inputs, notes = input_columns(table, columns)
    targets = make_targets(table, columns[: len(wanted)], classes)
    return _examples(table, inputs, targets, bool(table.names), None, (*table.notes, *notes))


def _from_tables(files: Sequence[Path], separator: str | None, classes: bool | None, most: int) -> Contents:
    """A table of inputs, one of targets and, if there is one, a column of groups."""
    first, second = (read_table(path, separator, most) for path in files[:2])
    inputs, notes = input_columns(first, ())
    second = _with_first_label(second, len(first))
    targets = make_targets(second, range(second.width), classes)
    groups = None if len(files) == 2 else _labels(files[2], separator, most, len(first))
    return _examples(first, inputs, targets, bool(second.names), groups, (*first.notes, *second.notes, *notes))


def _examples(
    table: Table,
    inputs: Sequence[int],
    targets: Targets,
    headed: bool,
    groups: np.ndarray | None,
    notes: tuple[str, ...],
) -> Contents:
    rows = np.column_stack([table.numbers[column] for column in inputs])
    names = tuple(table.title(column) for column in inputs) if table.names else ()
    if not headed and targets.numeric.all():
        targets = targets._replace(names=())
    return Contents(rows, names, targets, groups, None, (*notes, *targets.notes))


def _labels(path: Path, separator: str | None, most: int, count: int) -> np.ndarray:
    table = read_table(path, separator, most, kept=lambda head, width: range(width))
    if table.width != 1:
        raise FileFormatError(f"{path} must have one label per line; a line has {table.width}")
    return np.array(_with_first_label(table, count).words[0])


def _with_first_label(table: Table, count: int) -> Table:
    """A column of words that is one short of the examples: what looks like its name is a label like the others."""
    if table.width == 1 and table.names and 0 in table.words and len(table) == count - 1:
        return replace(table, count=count, names=(), words={0: [table.names[0], *table.words[0]]})
    return table


# archives


def _from_archive(path: Path, classes: bool | None, most: int) -> Contents:
    arrays = read_archive(path, most, lambda name, header: _check_array(path, name, header))
    for name in NEEDED:
        if name not in arrays:
            raise FileFormatError(f"{path} must hold {' and '.join(NEEDED)}; it holds {', '.join(arrays) or 'nothing'}")
    inputs = _rows(path, "inputs", arrays["inputs"])
    targets = _array_targets(path, arrays["targets"], classes)
    names = _names(path, "input_names", arrays, inputs.shape[1])
    titles = _names(path, "target_names", arrays, targets.rows.shape[1]) or targets.names
    targets = targets._replace(names=titles)
    groups = arrays.get("groups")
    return Contents(inputs, names, targets, _as_labels(groups), arrays.get("weights"), targets.notes)


def _check_array(path: Path, name: str, header: Header) -> None:
    """Refuse, from its header, an array that cannot be part of a task."""
    if name not in ALLOWED:
        raise FileFormatError(f"{path} may hold {', '.join(ALLOWED)}; it also holds {name}")
    if header.dtype.kind not in KINDS.get(name, "US"):
        lost = ": split them into real and imaginary columns" if header.dtype.kind == "c" else ""
        kind = "numbers" if "f" in KINDS.get(name, "") else "words"
        raise FileFormatError(f"{path}: {name} must be {kind}; they are of type {header.dtype}{lost}")
    if name in NEEDED and len(header.shape) not in (1, 2):
        raise FileFormatError(f"{path}: {name} must have one row per example; their shape is {header.shape}")
    if name in NEEDED and 0 in header.shape:
        missing = "examples" if header.shape[0] == 0 else "columns"
        raise FileFormatError(f"{path}: {name} must have at least one row and one column; they have no {missing}")
    if name not in NEEDED and len(header.shape) != 1:
        raise FileFormatError(f"{path}: {name} must have one axis; their shape is {header.shape}")


def _rows(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        rows = np.asarray(array if array.ndim == 2 else array[:, None], dtype=np.float64)
    if array.dtype.itemsize > rows.dtype.itemsize and np.isinf(rows).sum() > np.isinf(array).sum():
        raise FileFormatError(f"{path}: {name} must fit double precision, at most 1.8e308; a number is larger")
    return rows


def _array_targets(path: Path, array: np.ndarray, classes: bool | None) -> Targets:
    """Words, and whole numbers that count classes, become one output for each class."""
    whole = array.ndim == 1 and array.dtype.kind in "iu"
    counted = whole and classes is None and is_a_code(array)
    if array.dtype.kind in "US" or counted or classes:
        if array.ndim == 2 and array.shape[1] != 1:
            raise FileFormatError(f"{path}: labels must be one for each example; the shape of targets is {array.shape}")
        note = f"targets hold {len(np.unique(array))} whole numbers without a gap and were read as classes"
        return one_hot(path, "target", _as_labels(array.reshape(-1)), True, (note,) if counted else ())
    rows = _rows(path, "targets", array)
    return Targets(rows, (), {}, np.ones(rows.shape[1], dtype=bool), ())


def _as_labels(array: np.ndarray | None) -> Any:
    if array is None or array.dtype.kind != "S":
        return array if array is None or array.dtype.kind == "U" else array.astype(str)
    return np.char.decode(array, "utf-8", "replace")


def _names(path: Path, name: str, arrays: dict[str, np.ndarray], count: int) -> tuple[str, ...]:
    if name not in arrays:
        return ()
    found = tuple(map(str, _as_labels(arrays[name])))
    if len(found) != count or len(set(found)) != count:
        raise FileFormatError(f"{path}: {name} must be {count} different names; they are {len(set(found))}")
    return found


# both


def _named(path: Path, found: Contents, wanted: list[str], standardize: bool, bias: bool) -> NamedTask:
    """The task, with what was asked done to its columns."""
    try:
        given = Task({"x": found.inputs}, {"y": found.targets.rows}, found.weights)
        inputs, targets, notes = given.inputs["x"], given.targets["y"], list(found.notes)
        names = (
            found.names or tuple(f"input {column + 1}" for column in range(inputs.shape[1])) if bias else found.names
        )
        if standardize:
            inputs = standardized(inputs, given.weights)
            targets = np.where(found.targets.numeric, standardized(targets, given.weights), targets)
        if bias and has_constant(inputs):
            notes.append("an input is constant already, so none was added")
        elif bias:
            inputs, names = with_constant(inputs, names)
        labels = {"x": names, "y": found.targets.names}
        groups = dict(found.targets.labels) if found.groups is None else {"group": found.groups.reshape(-1)}
        asked = {"targets": ",".join(wanted), "standardize": bool(standardize), "bias": bool(bias)}
        return NamedTask(
            name=path.stem,
            settings={name: value for name, value in asked.items() if value},
            task=Task({"x": inputs}, {"y": targets}, given.weights),
            groups=groups,
            labels={node: titles for node, titles in labels.items() if titles},
            notes=tuple(notes),
        )
    except TaskError as error:
        raise FileFormatError(f"{path}: {error}") from None
