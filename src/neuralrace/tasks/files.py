"""Tasks from files: tables of text, read by pandas, and .npz archives. Nothing in a file is executed."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.errors import FileFormatError, NeuralRaceError, option
from neuralrace.io import as_path, read_archive
from neuralrace.progress import Meter
from neuralrace.tables import examples_of_table
from neuralrace.task import Task
from neuralrace.tasks.registry import NamedTask

if TYPE_CHECKING:
    import pandas

TABLES = (".csv", ".tsv", ".txt", ".data")
ARRAYS = ("inputs", "targets", "groups", "weights", "input_names", "target_names")


def read(
    path: str | os.PathLike[str],
    targets: str | Sequence[str] | None = None,
    *,
    classes: bool | None = None,
    drop: str | Sequence[str] = (),
    missing: str = "error",
    standardize: bool = False,
    bias: bool = False,
    weights: np.ndarray | None = None,
    **csv: Any,
) -> NamedTask:
    """Read a task from a table of text with `targets`, or from an .npz archive.

    A table (.csv, .tsv, .txt) has one example per line, and names in its first line unless that holds numbers alone:
    they are then "column 1", "column 2", ... csv: options of `pandas.read_csv`, such as sep=";", decimal=",",
    encoding="latin-1" or usecols. An .npz holds inputs and targets and may hold groups, weights, input_names and
    target_names. The other options are those of `Task.from_frame`. `task.notes` lists what reading changed;
    `tasks.cautions` warns about scales.
    """
    source = as_path("path", path)
    if not source.is_file():
        raise FileFormatError(f"a file with examples is required; there is no file {source}")
    arrays: dict[str, np.ndarray] = {}
    if source.suffix.lower() == ".npz":
        if targets is not None or csv:
            raise FileFormatError("targets and options of pandas.read_csv are for tables; an .npz has none")
        arrays, frame = _read_archive(source)
        targets = list(frame.columns[-arrays["targets"][0].size :])
        classes = False if arrays["targets"].ndim == 2 and classes is None else classes
    elif source.suffix.lower() in TABLES:
        frame = _read_table(source, csv)
    else:
        raise FileFormatError(f"a table ({', '.join(TABLES)}) or an .npz is required; got {source.name}")
    options: dict[str, Any] = {"classes": classes, "drop": drop, "missing": missing, "standardize": standardize}
    weights = arrays.get("weights") if weights is None else weights
    try:
        found = from_frame(frame, targets, bias=bias, weights=weights, **options)
        groups = {"group": arrays["groups"].astype(str)} if "groups" in arrays else found.groups
        return replace(found, name=source.stem, groups=groups)
    except NeuralRaceError as error:
        raise type(error)(f"{source}: {error}") from None


def from_frame(frame: "pandas.DataFrame", targets: str | Sequence[str] | None, **options: Any) -> NamedTask:
    """Make a task of a table, with its classes as groupings; the options are those of `Task.from_frame`."""
    arrays, groups = examples_of_table(frame, targets, **options)
    plain = {name: value for name, value in options.items() if name in ("standardize", "bias")}
    listed = targets if isinstance(targets, str) else ",".join(map(str, targets or ()))
    return NamedTask(Task(**arrays), groups=groups, settings={"targets": listed} | plain)


def _read_table(source: Path, csv: dict[str, Any]) -> "pandas.DataFrame":
    """Read a table; only empty cells are missing, and a word among numbers makes a column of words."""
    import pandas

    options = {
        "sep": "\t" if source.suffix.lower() == ".tsv" else ",",
        "skipinitialspace": True,
        "index_col": False,
    } | csv
    options |= {"keep_default_na": False, "na_values": [""], "low_memory": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)  # of lines longer than the first
            first = pandas.read_csv(source, nrows=1, dtype=str, **options | {"header": None, "usecols": None})
            numeric = pandas.to_numeric(first.iloc[0], errors="coerce").notna().all()
            with Meter(f"reading {source.name}"):
                frame = pandas.read_csv(source, **{"header": None if numeric else 0} | options)
    except (ValueError, TypeError, LookupError, OSError, pandas.errors.ParserWarning) as error:
        reason = " ".join(str(error).split())[:200]
        raise FileFormatError(
            f"{source} is not a readable table of one example per line ({reason}); correct it, or give options such "
            f"as {option('sep', ';')} or {option('encoding', 'latin-1')}"
        ) from None
    return frame.rename(columns=lambda place: f"column {place + 1}") if numeric else frame


def _read_archive(source: Path) -> tuple[dict[str, np.ndarray], "pandas.DataFrame"]:
    """Read the arrays of an archive; inputs and then targets are the columns of a table too."""
    import pandas

    found, parts = read_archive(source), []
    if not {"inputs", "targets"} <= set(found) <= set(ARRAYS):
        raise FileFormatError(
            f"{source} must hold inputs and targets, and may hold {', '.join(ARRAYS[2:])}; it holds {', '.join(found)}"
        )
    for name, array in found.items():
        if array.dtype.kind not in "fiubU" or array.ndim not in (1, 2) or not array.size:
            raise FileFormatError(
                f"{source}: {name} must be numbers or words, one row per example; it is {array.dtype} of shape "
                f"{array.shape}"
            )
    for kind in ("input", "target"):
        rows = found[f"{kind}s"].reshape(len(found[f"{kind}s"]), -1)
        names = found.get(f"{kind}_names", [f"{kind} {column + 1}" for column in range(rows.shape[1])])
        if len(rows) != len(found["inputs"]) or len(names) != rows.shape[1]:
            raise FileFormatError(
                f"{source}: {kind}s must have {len(found['inputs'])} rows and {len(names)} columns; their shape is "
                f"{rows.shape}"
            )
        parts.append(pandas.DataFrame(rows, columns=list(names)))
    return found, pandas.concat(parts, axis="columns")
