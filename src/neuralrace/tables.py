"""Examples from tables with named columns: words, classes, missing cells and scales."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.arrays import real_array
from neuralrace.errors import COMMAND_LINE, TaskError, option, require_known, require_name
from neuralrace.memory import require_memory

if TYPE_CHECKING:
    import pandas

MOST_CLASSES = 1000  # of words
FEW = 20  # different whole numbers that are read as classes
MOST_WORDS = 50  # of a column of inputs; more are probably names of the examples
ABSENT = (
    "",
    "?",
    "-",
    "NA",
    "N/A",
    "n/a",
    "<NA>",
    "#N/A",
    "nan",
    "NaN",
    "null",
    "NULL",
    "None",
)  # in columns of numbers

Arrays = dict[str, Any]  # the arguments of a Task


def examples_of_table(
    frame: "pandas.DataFrame",
    targets: str | Sequence[str] | None,
    *,
    classes: bool | None = None,
    drop: str | Sequence[str] = (),
    missing: str = "error",
    standardize: bool = False,
    bias: bool = False,
    weights: Any = None,
) -> tuple[Arrays, dict[str, np.ndarray]]:
    """Make inputs and targets of a table with one example per row; also the labels of each target that holds classes.

    The options are those of `Task.from_frame`; weights may be a function of the number of examples. Those without
    weight decide no mean.
    """
    require_name("missing", missing, ("error", "drop", "mean"))
    frame = frame.set_axis(list(map(str, frame.columns)), axis="columns")
    if not len(frame) or not frame.columns.is_unique:
        raise TaskError("at least one example, and a different name for each column, are required: give both")
    wanted, dropped, known = _names(targets), _names(drop), list(frame)
    if not wanted or len(set(wanted)) < len(wanted):
        how = "--target NAME" if COMMAND_LINE.get() else "targets=..."
        raise TaskError(
            f"the columns that are targets must be given, each once ({how}); there are {', '.join(known[:12])}"
        )
    for name in (*wanted, *dropped):
        hint = f" (was another separator meant, {option('sep', ';')}?)" if len(known) == 1 else ""
        require_known(name, known, f"there is no column {name!r}{hint}")
    if both := set(wanted) & set(dropped):
        raise TaskError(f"column {min(both)!r} is both a target and left out: give one of the two")
    frame = frame.drop(columns=dropped)
    if len(wanted) == frame.shape[1]:
        raise TaskError("a column of inputs beside the targets is required; there is none")
    given = weights(len(frame)) if callable(weights) else weights
    amount = np.ones(len(frame)) if given is None else real_array("weights", given, TaskError)
    if amount.shape != (len(frame),):
        raise TaskError(f"weights must have one number per example, {len(frame)}; their shape is {amount.shape}")
    notes: list[str] = []
    frame = _numbers_or_words(frame, wanted, classes, notes)
    frame, amount = _without_missing(frame, wanted, missing, amount, notes)
    inputs, names = _encoded(frame.drop(columns=wanted), notes)
    outputs: list[np.ndarray] = []
    titles: list[str] = []
    groups: dict[str, np.ndarray] = {}
    for name in wanted:
        kinds, place = np.unique(frame[name].to_numpy(None if _numeric(frame[name]) else str), return_inverse=True)
        if not _are_classes(name, frame[name], len(kinds), classes, notes):
            outputs.append(frame[name].to_numpy(float)[:, None])
            titles.append(name)
            continue
        outputs.append(np.eye(len(kinds))[place])
        titles += [str(kind) if len(wanted) == 1 else f"{name}={kind}" for kind in kinds]
        groups[name] = kinds.astype(str)[place]
    share = amount / amount.sum()
    if missing == "mean":
        inputs = np.where(np.isnan(inputs), _means(inputs, amount), inputs)
    if standardize:
        notes.append("inputs and targets that are numbers have mean 0 and standard deviation 1 (standardized)")
        inputs = standardized(inputs, share)
        parts = zip(wanted, outputs, strict=True)
        outputs = [part if name in groups else standardized(part, share) for name, part in parts]
    if bias and not ((np.ptp(inputs, axis=0) == 0) & (inputs[0] != 0)).any():
        inputs = np.column_stack([inputs, np.ones(len(inputs))])
        names.append("constant" if "constant" not in names else "constant 2")
        notes.append("a constant input was added, whose weights are biases")
    arrays = {"inputs": {"x": inputs}, "targets": {"y": np.hstack(outputs)}, "weights": amount}
    return arrays | {"names": {"x": tuple(names), "y": tuple(titles)}, "notes": tuple(notes)}, groups


def as_table(inputs: Any, targets: Any) -> "tuple[pandas.DataFrame, list[str]]":
    """Join inputs (N, size) and targets (N,) or (N, size), arrays or frames, in a table; also name its targets."""
    import pandas

    parts = []
    for kind, given in (("input", inputs), ("target", targets)):
        size = math.prod(np.shape(given))
        require_memory(f"{kind}s of {size:,} numbers", 8 * size, "take fewer examples, or read them in batches")
        if isinstance(given, np.ma.MaskedArray):
            raise TaskError(f"{kind}s must be plain arrays; these are masked: fill them, with NaN for what is missing")
        table = pandas.DataFrame(given)
        if not isinstance(given, pandas.DataFrame | pandas.Series) or table.columns.inferred_type == "integer":
            size = table.shape[1]
            table.columns = [kind if size == 1 and kind == "target" else f"{kind} {i + 1}" for i in range(size)]
        parts.append(table.reset_index(drop=True))
    if len(parts[0]) != len(parts[1]):
        raise TaskError(
            f"inputs and targets must have the same examples; they have {len(parts[0])} and {len(parts[1])}"
        )
    return pandas.concat(parts, axis="columns"), list(map(str, parts[1].columns))


def standardized(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Give columns mean 0 and standard deviation 1 over the weighted examples, and constant ones size 1."""
    size = np.abs(rows).max(axis=0, initial=0.0)
    unit = rows / np.where(size > 0, size, 1.0)  # so that no square overflows or vanishes
    centered = unit - weights @ unit
    deviation = np.sqrt(weights @ centered**2)
    constant = deviation <= 1e-12
    return np.where(constant, np.sign(unit), centered / np.where(constant, 1.0, deviation))


def _names(given: str | Sequence[str] | None) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else np.atleast_1d([] if given is None else given)
    return [str(name).strip() for name in listed]


def _not_a_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return True
    return False


def _numeric(column: "pandas.Series") -> bool:
    return column.dtype.kind in "fiub"


def _numbers_or_words(
    frame: "pandas.DataFrame", wanted: list[str], classes: bool | None, notes: list[str]
) -> "pandas.DataFrame":
    """Read columns of numbers with some other words as numbers, where these words stand for missing cells."""
    import pandas

    found = {}
    for name, column in frame.items():
        if column.dtype.kind in "mMc":
            raise TaskError(
                f"column {name!r} must hold numbers or words; it holds {column.dtype}: convert it, or leave it out "
                f"({option('drop', name)})"
            )
        if _numeric(column) or (name in wanted and classes):
            found[name] = column
            continue
        numbers, there = pandas.to_numeric(column, errors="coerce"), column.notna()
        other = column[there & numbers.isna()].astype(str)
        if numbers[there].notna().mean() <= 0.5:  # words
            kept = sorted(set(other[other.isin(ABSENT)]))
            if kept:
                notes.append(f"{', '.join(map(repr, kept))} in column {name!r} is read as a word, not as missing")
            found[name] = column
            continue
        wrong = other[~other.isin(ABSENT)]
        if len(wrong):
            advice = f"give {option('classes')}" if name in wanted else f"leave it out ({option('drop', name)})"
            raise TaskError(
                f"column {name!r} must hold numbers; {wrong.iloc[0][:40]!r} is in it: correct it, {advice}, or, for "
                f"decimal commas, give {option('sep', ';')} and {option('decimal', ',')}"
            )
        found[name] = numbers
    return pandas.DataFrame(found, index=frame.index)


def _without_missing(
    frame: "pandas.DataFrame", wanted: list[str], missing: str, amount: np.ndarray, notes: list[str]
) -> "tuple[pandas.DataFrame, np.ndarray]":
    """Refuse missing cells, all at once, or leave out the examples that have some; "mean" keeps those of inputs."""
    empty = frame.isna()
    if not empty.to_numpy().any():
        return frame, amount
    if missing == "error":
        places = []
        for name in frame.columns[empty.any()]:
            rows = np.flatnonzero(empty[name]) + 1
            listed = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
            places.append(f"{name!r} {len(rows)} (example{'s' if len(rows) > 1 else ''} {listed})")
        raise TaskError(
            f"every cell must have a value; cells without one by column: {'; '.join(places)}. Leave out these examples "
            f"({option('missing', 'drop')}), put the mean of the column there ({option('missing', 'mean')}), or leave "
            f"out columns ({option('drop', 'NAME')})"
        )
    if missing == "mean" and (hollow := [name for name in frame.columns if empty[name].all()]):
        raise TaskError(
            f"column {hollow[0]!r} has no value at all, and so no mean: leave it out ({option('drop', hollow[0])})"
        )
    lost = (empty if missing == "drop" else empty[wanted]).any(axis=1).to_numpy()
    if lost.all():
        raise TaskError(f"an example without missing cells is required; there is none: {option('missing', 'mean')}")
    if lost.any():
        what = "missing cells" if missing == "drop" else "a missing target"
        notes.append(f"{lost.sum()} of {len(lost)} examples have {what} and were left out")
    if missing == "mean" and (count := int(empty.drop(columns=wanted)[~lost].to_numpy().sum())):
        notes.append(f"{count} missing cell{'s have' if count > 1 else ' has'} the mean of the column")
    return frame[~lost], amount[~lost]


def _encoded(inputs: "pandas.DataFrame", notes: list[str]) -> tuple[np.ndarray, list[str]]:
    """Return the columns as numbers, one for each word of a column of words, NaN where a cell is missing."""
    parts: list[np.ndarray] = []
    names: list[str] = []
    for name, column in inputs.items():
        if _numeric(column):
            parts.append(column.to_numpy(float, na_value=np.nan)[:, None])
            names.append(str(name))
            continue
        words = sorted(map(str, column.dropna().unique()))
        if len(words) > min(MOST_WORDS, max(2, len(column) // 2)):
            raise TaskError(
                f"column {name!r} must hold numbers or few different words; it has {len(words):,} in {len(column):,} "
                f"examples, {max(words, key=_not_a_number)[:40]!r} among them: leave it out "
                f"({option('drop', str(name))})"
            )
        encoded = (column.astype(str).to_numpy(str)[:, None] == np.array(words, str)).astype(float)
        parts.append(np.where(column.isna().to_numpy()[:, None], np.nan, encoded))
        names += [f"{name}={word}" for word in words]
        notes.append(f"column {name!r} holds {len(words)} different words, which became an input each")
    return np.asfortranarray(np.hstack(parts)), names


def _are_classes(name: str, column: "pandas.Series", kinds: int, classes: bool | None, notes: list[str]) -> bool:
    """Whether a target holds classes: words do, and whole numbers of which there are few."""
    words, most = not _numeric(column), min(MOST_CLASSES, max(2, len(column) // 2))
    if words and classes is False:
        raise TaskError(f"target {name!r} holds words, which are classes: leave out {option('classes', False)}")
    labels = words or bool(classes)
    if classes is None and column.dtype.kind in "iub" and 2 <= kinds <= min(FEW, most):
        labels = True
        if column.dtype.kind != "b":
            notes.append(
                f"target {name!r} holds {kinds} different whole numbers, which were read as classes "
                f"({option('classes', False)}: as numbers)"
            )
    if labels and not 2 <= kinds <= most:
        raise TaskError(
            f"two to {MOST_CLASSES:,} classes are required, and at most half as many as examples; {name!r} has "
            f"{kinds:,} different labels in {len(column):,} examples: is it the column of targets?"
        )
    return labels


def _means(rows: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """The weighted mean of the cells of each column that are there; 0 where none is."""
    there = amount[:, None] * ~np.isnan(rows)
    total = there.sum(axis=0)
    return np.asarray(np.nansum(there * rows, axis=0) / np.where(total > 0, total, 1.0))
