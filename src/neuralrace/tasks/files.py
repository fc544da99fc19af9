"""Tasks from files: tables of text, read by pandas, and .npz archives. Nothing in a file is executed."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.errors import FileFormatError, TaskError, UnknownNameError, nearest
from neuralrace.io import as_path, read_archive
from neuralrace.task import Task
from neuralrace.tasks.registry import NamedTask
from neuralrace.tasks.scaling import standardized, with_constant

if TYPE_CHECKING:
    import pandas

TABLES = (".csv", ".tsv", ".txt", ".data")

Columns = str | int | Sequence[str | int] | None


def read(
    path: str | os.PathLike[str],
    targets: Columns = None,
    drop: Columns = None,
    *,
    classes: bool | None = None,
    standardize: bool = False,
    bias: bool = False,
    **csv: Any,
) -> NamedTask:
    """Read a task from a table of text with `targets`, or from an .npz archive.

    A table (.csv, .tsv, .txt) has one example per line, and names in its first line unless that holds numbers alone.
    targets, drop: columns by name or by number, which counts from 1, or from -1 at the end. csv: options of
    `pandas.read_csv`, such as sep=";", decimal="," or encoding="latin-1". An .npz holds inputs and targets and may
    hold groups, weights, input_names and target_names. classes: whether targets are labels, each class an output of its
    own (default: words are, and so are three or more whole numbers from 0 or 1 without a gap). standardize: inputs and
    numeric targets get mean 0 and standard deviation 1, constant ones size 1. bias: a constant input is added.

    `notes` of the task say what was done without being asked; `tasks.cautions` warns about its scales.
    """
    source = as_path("path", path)
    if not source.is_file():
        raise FileFormatError(f"a file with examples is required; there is no file {source}")
    wanted, unwanted = _listed("targets", targets), _listed("drop", drop)
    arrays: dict[str, np.ndarray] = {}
    notes: list[str] = []
    if source.suffix.lower() == ".npz":
        if wanted or unwanted or csv:
            raise FileFormatError("targets, drop and options of pandas.read_csv are for tables; an .npz has none")
        arrays = _arrays(source)
        with np.errstate(over="ignore"):
            inputs = arrays["inputs"].astype(np.float64).reshape(len(arrays["inputs"]), -1)
        names, found = tuple(arrays.get("input_names", ())), arrays["targets"]
        columns = {"target": found} if found.ndim == 1 else {f"target {i + 1}": row for i, row in enumerate(found.T)}
        classes = False if found.ndim == 2 and classes is None else classes
    elif source.suffix.lower() in TABLES:
        frame = _frame(source, csv)
        places = _places(source, frame, [*wanted, *unwanted])
        if not wanted:
            known = ", ".join(map(str, frame.columns[:12]))
            raise FileFormatError(f"{source} must say which columns are targets (targets=...); its columns are {known}")
        asked = [frame.iloc[:, place] for place in places[: len(wanted)]]
        columns = {str(one.name): one.to_numpy(None if one.dtype.kind in "fiub" else str) for one in asked}
        names, inputs = _inputs(source, frame.drop(columns=frame.columns[places]), notes)
    else:
        raise FileFormatError(f"a table ({', '.join(TABLES)}) or an .npz is required; {source.name} came")
    outputs: list[np.ndarray] = []
    titles: list[str] = []
    groups: dict[str, np.ndarray] = {}
    for title, values in columns.items():
        if _are_classes(source, title, values, classes, notes):
            kinds, place = np.unique(values, return_inverse=True)
            outputs.append(np.eye(len(kinds))[place.reshape(-1)])
            titles += [str(kind) if len(columns) == 1 else f"{title}={kind}" for kind in kinds]
            groups[title] = kinds.astype(str)[place.reshape(-1)]
        else:
            outputs.append(np.asarray(values, dtype=np.float64)[:, None])
            titles.append(title)
    try:
        task = Task({"x": inputs}, {"y": np.hstack(outputs)}, arrays.get("weights"))
        if standardize:
            inputs = standardized(inputs, task.weights)
            titled = zip(columns, outputs, strict=True)
            outputs = [rows if title in groups else standardized(rows, task.weights) for title, rows in titled]
        if bias and ((np.ptp(inputs, axis=0) == 0) & (inputs[0] != 0)).any():
            notes.append("an input is constant already, so none was added")
        elif bias:
            inputs, names = with_constant(inputs, names or tuple(f"input {i + 1}" for i in range(inputs.shape[1])))
        labels = {"x": tuple(map(str, names)), "y": tuple(map(str, arrays.get("target_names", titles)))}
        for node, rows in (("x", inputs), ("y", task.targets["y"])):
            if labels[node] and len(set(labels[node])) != rows.shape[1]:
                raise TaskError("input_names and target_names must have a different name for each column")
        settings = {"targets": ",".join(wanted), "standardize": bool(standardize), "bias": bool(bias)}
        return NamedTask(
            name=source.stem,
            settings={name: value for name, value in settings.items() if value},
            task=Task({"x": inputs}, {"y": np.hstack(outputs)}, arrays.get("weights")),
            groups={"group": arrays["groups"].astype(str)} if "groups" in arrays else groups,
            labels={node: found for node, found in labels.items() if found},
            notes=tuple(notes),
        )
    except TaskError as error:
        raise FileFormatError(f"{source}: {error}") from None


def _listed(name: str, columns: Columns) -> list[str]:
    parts = columns.split(",") if isinstance(columns, str) else [columns] if isinstance(columns, int) else columns or []
    texts = [str(part).strip() for part in parts] if isinstance(parts, Sequence) else [""]
    if isinstance(columns, bool) or not all(texts):
        raise FileFormatError(f"{name} must be columns by name or number; it was {columns!r}")
    return texts


def _frame(source: Path, csv: dict[str, Any]) -> "pandas.DataFrame":
    """Read a table; only empty cells are missing, and a word among numbers makes a column of words."""
    import pandas

    options = {"sep": "\t" if source.suffix.lower() == ".tsv" else ",", "skipinitialspace": True} | csv
    options |= {"keep_default_na": False, "na_values": [""], "low_memory": False, "index_col": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)  # of lines longer than the first
            first = pandas.read_csv(source, nrows=1, dtype=str, **options | {"header": None})
            numeric = pandas.to_numeric(first.iloc[0], errors="coerce").notna().all()
            frame = pandas.read_csv(source, **{"header": None if numeric else 0} | options)
    except (ValueError, TypeError, LookupError, OSError, pandas.errors.ParserWarning) as error:
        reason = " ".join(str(error).split())[:200]
        raise FileFormatError(
            f"{source} is not a readable table of one example per line ({reason}); correct it, or give options of "
            "pandas.read_csv such as sep=';' or encoding='latin-1'"
        ) from None
    if numeric:
        frame.columns = [f"column {place + 1}" for place in range(frame.shape[1])]
    if not len(frame):
        raise FileFormatError(f"{source} must hold one example per line; it holds names alone")
    if frame.isna().to_numpy().any():
        row, column = (int(place) for place in np.argwhere(frame.isna().to_numpy())[0])
        raise FileFormatError(
            f"{source} must have a value in every cell; example {row + 1} has none in column "
            f"{frame.columns[column]!r}: fill it, or take the line out"
        )
    return frame


def _places(source: Path, frame: "pandas.DataFrame", asked: Sequence[str]) -> list[int]:
    names, found = [str(name) for name in frame.columns], list[int]()
    for column in asked:
        number = int(column) if column.removeprefix("-").isdecimal() and column.isascii() else 0
        if column not in names and not 1 <= abs(number) <= len(names):
            hint = "; was another separator meant (sep=';')?" if len(names) == 1 else ""
            raise UnknownNameError(f"{source} has no column {column!r}; {nearest(column, names)}{hint}")
        place = names.index(column) if column in names else number - 1 if number > 0 else len(names) + number
        if place in found:
            raise UnknownNameError(f"{source}: each column is asked for once; {column!r} came twice")
        found.append(place)
    return found


def _inputs(source: Path, frame: "pandas.DataFrame", notes: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Return names and numbers of the columns; a first one that only counts the rows is left out."""
    first = str(frame.columns[0]) if frame.shape[1] else ""
    counting = frame.shape[1] > 1 and first.lower() in ("unnamed: 0", "index", "id", "row")
    if counting and any(np.array_equal(frame.iloc[:, 0], np.arange(k, k + len(frame))) for k in (0, 1)):
        notes.append(f"the first column, {first!r}, was left out: it counts the rows; rename it to keep it")
        frame = frame.iloc[:, 1:]
    if not frame.shape[1]:
        raise FileFormatError(f"{source} must hold a column of inputs beside the targets; it holds none")
    for name, values in frame.items():
        if values.dtype.kind not in "fiub":
            slip = next((value for value in values if not _is_number(value)), values.iloc[0])
            raise FileFormatError(
                f"{source}: inputs must be numbers; column {str(name)!r} holds {str(slip)[:40]!r}: name it as a "
                "target, drop it, or write it as numbers (decimal commas need sep=';' and decimal=',')"
            )
    return tuple(map(str, frame.columns)), frame.to_numpy(dtype=np.float64)


def _is_number(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except ValueError:
        return False


def _are_classes(source: Path, title: str, values: np.ndarray, classes: bool | None, notes: list[str]) -> bool:
    """Say whether a column of targets holds labels, after checking that labels are fit to be classes."""
    words, known = values.dtype.kind == "U", np.unique(values)
    if not words and classes is None and values.dtype.kind in "iu":
        coded = any(np.array_equal(known, np.arange(start, start + len(known))) for start in (0, 1))
        classes = coded and 3 <= len(known) <= min(1000, len(values) // 2)
        if classes:
            notes.append(f"target {title!r} holds {len(known)} whole numbers without a gap and was read as classes")
    if not words and not classes:
        return False
    if words and classes is None and sum(map(_is_number, values)) > len(values) / 2:
        row, slip = next((row, value) for row, value in enumerate(values) if not _is_number(value))
        raise FileFormatError(
            f"{source}: target {title!r} holds numbers, and {str(slip)[:40]!r} in example {row + 1}: correct it, or "
            "say that they are classes (classes=True)"
        )
    if not 2 <= len(known) <= min(1000, max(2, len(values) // 2)):
        raise FileFormatError(
            f"{source} must have two to 1,000 classes, and at most half as many as examples; {title!r} has "
            f"{len(known):,} different labels in {len(values):,} rows: is it the column of targets?"
        )
    return True


def _arrays(source: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an archive, whose bytes of text are made words."""
    found = read_archive(source)
    numbers, words = "fiub", "U"
    kinds = {"inputs": numbers, "targets": numbers + words, "groups": numbers + words, "weights": numbers}
    kinds |= {"input_names": words, "target_names": words}
    for name, array in found.items():
        if name not in kinds:
            raise FileFormatError(f"{source} may hold {', '.join(kinds)}; it also holds {name}")
        found[name] = array = np.char.decode(array, "utf-8", "replace") if array.dtype.kind == "S" else array
        if array.dtype.kind not in kinds[name]:
            kind = "words" if kinds[name] == words else "numbers"
            raise FileFormatError(f"{source}: {name} must be {kind}; they are of type {array.dtype}")
        if (array.ndim != 1 and (name not in ("inputs", "targets") or array.ndim != 2)) or not array.size:
            raise FileFormatError(f"{source}: {name} must have one row per example; their shape is {array.shape}")
    if missing := {"inputs", "targets"} - set(found):
        raise FileFormatError(
            f"{source} must hold inputs and targets; {' and '.join(sorted(missing))} is missing among "
            f"{', '.join(found) or 'nothing'}"
        )
    return found
