"""Tasks from files: tables of text, read by pandas, and .npz archives. Nothing in a file is executed."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.archives import read_archive
from neuralrace.datafiles import as_path
from neuralrace.errors import FileFormatError, TaskError, UnknownNameError, nearest
from neuralrace.task import Task
from neuralrace.tasks.registry import NamedTask
from neuralrace.tasks.scaling import standardized, with_constant

if TYPE_CHECKING:
    import pandas

TABLES = (".csv", ".tsv", ".txt", ".data")
KINDS = {"inputs": "fiub", "targets": "fiubUS", "groups": "fiubUS", "weights": "fiub", "input_names": "US"}
KINDS |= {"target_names": "US"}  # arrays of an archive, and of which kinds of numpy they may be
MOST_CLASSES = 1_000  # of a column of labels
INDEX_NAMES = ("unnamed: 0", "index", "id", "row")

Columns = str | int | Sequence[str | int] | None
Outputs = tuple[np.ndarray, tuple[str, ...], np.ndarray | None, str]  # (N, outputs), names, labels if classes, a note


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
        names = _names(source, "input_names", arrays, inputs.shape[1])
        found = arrays["targets"]
        several = found.ndim == 2 and not classes and found.dtype.kind not in "US"
        columns = [(f"target {i + 1}", column) for i, column in enumerate(found.T)] if several else [("target", found)]
        classes = False if several else classes
    elif source.suffix.lower() in TABLES:
        frame = _frame(source, csv)
        chosen = _places(source, frame, [*wanted, *unwanted])
        if not wanted:
            shown = ", ".join(map(str, frame.columns[:12])) + (", ..." if frame.shape[1] > 12 else "")
            raise FileFormatError(f"{source} must say which columns are targets (targets=...); its columns are {shown}")
        names, inputs = _inputs(source, frame, set(chosen), notes)
        columns = [(str(frame.columns[place]), frame.iloc[:, place].to_numpy()) for place in chosen[: len(wanted)]]
    else:
        raise FileFormatError(f"a table ({', '.join(TABLES)}) or an .npz is required; {source.name} came")
    outputs = {title: _outputs(source, title, values, classes, len(columns) == 1) for title, values in columns}
    rows = np.hstack([output for output, *_ in outputs.values()])
    titles = _names(source, "target_names", arrays, rows.shape[1]) or tuple(
        name for _, named, *_ in outputs.values() for name in named
    )
    notes += [note for *_, note in outputs.values() if note]
    numeric = np.repeat(
        [labels is None for _, _, labels, _ in outputs.values()], [o.shape[1] for o, *_ in outputs.values()]
    )
    groups = {title: labels for title, (_, _, labels, _) in outputs.items() if labels is not None}
    groups = {"group": _text(arrays["groups"])} if "groups" in arrays else groups
    try:
        task = Task({"x": inputs}, {"y": rows}, arrays.get("weights"))
        if standardize:
            inputs = standardized(task.inputs["x"], task.weights)
            rows = np.where(numeric, standardized(task.targets["y"], task.weights), task.targets["y"])
        if bias and ((np.ptp(inputs, axis=0) == 0) & (inputs[0] != 0)).any():
            notes.append("an input is constant already, so none was added")
        elif bias:
            inputs, names = with_constant(inputs, names or tuple(f"input {i + 1}" for i in range(inputs.shape[1])))
        asked = {"targets": ",".join(wanted), "standardize": bool(standardize), "bias": bool(bias)}
        return NamedTask(
            name=source.stem,
            settings={name: value for name, value in asked.items() if value},
            task=Task({"x": inputs}, {"y": rows}, arrays.get("weights")),
            groups=groups,
            labels={node: found for node, found in (("x", names), ("y", titles)) if found},
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


def _inputs(
    source: Path, frame: "pandas.DataFrame", left_out: set[int], notes: list[str]
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the other columns, which must hold numbers; a first column that only counts the rows is left out."""
    names, kept = [str(name) for name in frame.columns], [i for i in range(frame.shape[1]) if i not in left_out]
    if len(kept) > 1 and kept[0] == 0 and names[0].lower() in INDEX_NAMES and frame.dtypes.iloc[0].kind in "iu":
        numbers = frame.iloc[:, 0].to_numpy()
        if any(np.array_equal(numbers, np.arange(start, start + len(numbers))) for start in (0, 1)):
            notes.append(f"the first column, {names[0]!r}, was left out: it counts the rows; rename it to keep it")
            kept = kept[1:]
    for place in kept:
        if frame.dtypes.iloc[place].kind not in "fiub":
            values = frame.iloc[:, place]
            slip = next((value for value in values if not _is_number(value)), values.iloc[0])
            raise FileFormatError(
                f"{source}: inputs must be numbers; column {names[place]!r} holds {str(slip)[:40]!r}: name it as a "
                "target, drop it, or write it as numbers (decimal commas need sep=';' and decimal=',')"
            )
    if not kept:
        raise FileFormatError(f"{source} must hold a column of inputs beside the targets; it holds none")
    headless = names[0] == "column 1"
    return () if headless else tuple(names[i] for i in kept), frame.iloc[:, kept].to_numpy(dtype=np.float64)


def _is_number(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except ValueError:
        return False


def _outputs(source: Path, title: str, values: np.ndarray, classes: bool | None, alone: bool) -> Outputs:
    """Turn a column into outputs: labels into one for each class, numbers as they are."""
    if values.ndim == 2 and values.shape[1] != 1:
        raise FileFormatError(f"{source}: labels must be one for each example; the shape of targets is {values.shape}")
    values, note = values.reshape(-1), ""
    words = values.dtype.kind not in "fiub"
    if not words and classes is None and values.dtype.kind in "iu":
        known = np.unique(values)
        coded = any(np.array_equal(known, np.arange(start, start + len(known))) for start in (0, 1))
        classes = coded and 3 <= len(known) <= min(MOST_CLASSES, len(values) // 2)
        note = f"target {title!r} holds {len(known)} whole numbers without a gap and was read as classes"
    if not words and not classes:
        return np.asarray(values, dtype=np.float64)[:, None], (title,), None, ""
    if words and classes is None and sum(map(_is_number, values)) > len(values) / 2:
        row, slip = next((row, value) for row, value in enumerate(values) if not _is_number(value))
        raise FileFormatError(
            f"{source}: target {title!r} holds numbers, and {str(slip)[:40]!r} in example {row + 1}: correct it, or "
            "say that they are classes (classes=True)"
        )
    known, which = np.unique(_text(values) if words else values, return_inverse=True)
    if len(known) == 1:
        raise FileFormatError(f"{source} must have two classes at least; all of {title!r} is {str(known[0])!r}")
    if len(known) > min(MOST_CLASSES, max(2, len(values) // 2)):
        raise FileFormatError(
            f"{source} must have at most {MOST_CLASSES:,} classes, and half as many as examples; {title!r} has "
            f"{len(known):,} different labels in {len(values):,} rows: is it the column of targets?"
        )
    names = tuple(str(name) if alone else f"{title}={name}" for name in known)
    labels = known.astype(str)[which.reshape(-1)]
    return np.eye(len(known))[which.reshape(-1)], names, labels, note


def _arrays(source: Path) -> dict[str, np.ndarray]:
    """Read the arrays of an archive, each of which is checked before any is unpacked."""

    def check(name: str, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> None:
        if name not in KINDS:
            raise FileFormatError(f"{source} may hold {', '.join(KINDS)}; it also holds {name}")
        if dtype.kind not in KINDS[name]:
            kind = "numbers" if "f" in KINDS[name] else "words"
            raise FileFormatError(f"{source}: {name} must be {kind}; they are of type {dtype}")
        if name in ("inputs", "targets"):
            if len(shape) not in (1, 2) or 0 in shape:
                raise FileFormatError(
                    f"{source}: {name} must have one row per example and at least one column; their shape is {shape}"
                )
        elif len(shape) != 1:
            raise FileFormatError(f"{source}: {name} must have one axis; their shape is {shape}")

    found = read_archive(source, check=check)
    if missing := {"inputs", "targets"} - set(found):
        raise FileFormatError(
            f"{source} must hold inputs and targets; {' and '.join(sorted(missing))} is missing among "
            f"{', '.join(found) or 'nothing'}"
        )
    return found


def _text(array: np.ndarray) -> np.ndarray:
    return np.char.decode(array, "utf-8", "replace") if array.dtype.kind == "S" else array.astype(str)


def _names(source: Path, name: str, arrays: dict[str, np.ndarray], count: int) -> tuple[str, ...]:
    if name not in arrays:
        return ()
    found = tuple(map(str, _text(arrays[name])))
    if len(set(found)) != count:
        raise FileFormatError(f"{source}: {name} must be a different name for each column; they are {len(set(found))}")
    return found
