"""Which columns of a table are targets, which count the rows, and what labels become."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from neuralrace.errors import FileFormatError, UnknownNameError, nearest
from neuralrace.tasks.files.tables import Table, as_numbers

MOST_CLASSES = 1_000  # of a column of labels
FEWEST_CLASSES = 3  # of whole numbers; two values are the same as a number or as classes
FEWEST_ROWS = 10  # of a table without a head, for a column that counts them to be one by chance no more
NUMBER_LIKE = re.compile(r"[-+]?\d[\d.,_' ]*%?")  # numbers in a way of writing that is not read
INDEX_NAMES = ("", "index", "id", "row", "rownames", "unnamed: 0", "no", "nr", "number", "#")


class Targets(NamedTuple):
    """rows: (N, outputs). names: of the outputs. labels: of the examples, by column of classes. notes: what was done.

    numeric: which outputs are numbers as they came, and not indicators of classes.
    """

    rows: np.ndarray
    names: tuple[str, ...]
    labels: dict[str, np.ndarray]
    numeric: np.ndarray
    notes: tuple[str, ...]


def find_columns(path: Path, asked: Sequence[str], names: Sequence[str], width: int) -> list[int]:
    """The places of columns that are asked for by name or by number, which counts from 1, or from -1 at the end."""
    found: list[int] = []
    for column in asked:
        if column in names:
            place = list(names).index(column)
        elif _counts(column) and 1 <= abs(int(column)) <= width:
            place = int(column) - 1 if int(column) > 0 else width + int(column)
        else:
            known = nearest(column, [name for name in names if name]) if names else f"it has {width} without names"
            raise UnknownNameError(f"{path} has no column {column!r}; {known}")
        if place in found:
            raise UnknownNameError(f"{path}: each column is asked for once; {column!r} came twice")
        found.append(place)
    return found


def _counts(text: str) -> bool:
    return text.removeprefix("-").isascii() and text.removeprefix("-").isdecimal() and len(text) < 9


def make_targets(table: Table, columns: Sequence[int], classes: bool | None) -> Targets:
    """The columns as outputs: labels as one output for each class, numbers as they are."""
    if not columns:
        raise FileFormatError(f"{table.path} must hold a column of targets; it holds none")
    parts = [_target(table, column, classes, alone=len(columns) == 1) for column in columns]
    return Targets(
        np.hstack([part.rows for part in parts]),
        tuple(name for part in parts for name in part.names),
        {name: labels for part in parts for name, labels in part.labels.items()},
        np.concatenate([part.numeric for part in parts]),
        tuple(note for part in parts for note in part.notes),
    )


def _target(table: Table, column: int, classes: bool | None, alone: bool) -> Targets:
    title = table.title(column)
    cells = table.words.get(column)
    numbers = table.numbers[column] if cells is None else as_numbers(cells)
    counted = numbers is not None and classes is None and is_a_code(numbers)
    if numbers is None and classes is None:
        _check_words(table.path, title, cells or ())
    if classes or numbers is None or counted:
        labels = np.array(cells if cells is not None else [f"{number:g}" for number in table.numbers[column]])
        note = f"target {title!r} holds {len(set(labels))} whole numbers without a gap and was read as classes"
        return one_hot(table.path, title, labels, alone, (note,) if counted else ())
    return Targets(numbers[:, None], (title,), {}, np.array([True]), ())


def _check_words(path: Path, title: str, cells: Sequence[str]) -> None:
    """A column of labels is not a column of numbers with a slip in it."""
    slips = [row for row, cell in enumerate(cells) if as_numbers([cell]) is None]
    if len(slips) < len(cells) / 2:
        raise FileFormatError(
            f"{path}: target {title!r} holds numbers, and {cells[slips[0]][:40]!r} in example {slips[0] + 1}: correct "
            "it, or say that they are classes (classes=True)"
        )


def is_a_code(numbers: np.ndarray) -> bool:
    """Whether numbers are the names of classes: 0 or 1 to the last without a gap, three at least, each twice or so."""
    distinct = np.unique(numbers)
    count = len(distinct)
    if not FEWEST_CLASSES <= count <= min(MOST_CLASSES, len(numbers) // 2):
        return False
    return any(np.array_equal(distinct, np.arange(start, start + count)) for start in (0, 1))


def one_hot(path: Path, title: str, labels: np.ndarray, alone: bool, notes: Iterable[str] = ()) -> Targets:
    """One output for each class, under the name of the class."""
    if (labels == "").any():
        row = int(np.argmax(labels == ""))
        raise FileFormatError(f"{path} must have a label in every row; example {row + 1} has none in {title!r}")
    known, which = np.unique(labels, return_inverse=True)
    if all(_counts(name) for name in known):
        known, which = _by_number(known, which)
    if len(known) == 1:
        raise FileFormatError(f"{path} must have two classes at least; all of {title!r} is {str(known[0])!r}")
    if len(known) > min(MOST_CLASSES, max(2, len(labels) // 2)):
        raise FileFormatError(
            f"{path} must have at most {MOST_CLASSES:,} classes, and half as many as examples; {title!r} has "
            f"{len(known):,} different labels in {len(labels):,} rows: is it the column of targets?"
        )
    names = tuple(str(name) if alone else f"{title}={name}" for name in known)
    rows = np.eye(len(known))[which.reshape(-1)]
    return Targets(rows, names, {title: labels}, np.zeros(len(known), dtype=bool), tuple(notes))


def _by_number(known: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Classes that are whole numbers in the order of these: 2 before 10."""
    order = np.argsort([int(name) for name in known], kind="stable")
    return known[order], np.argsort(order)[which]


def input_columns(table: Table, left_out: Iterable[int]) -> tuple[list[int], tuple[str, ...]]:
    """All other columns that hold numbers, and what is to be told: which column only counts or names the rows."""
    columns = [column for column in range(table.width) if column not in set(left_out)]
    notes: list[str] = []
    if columns and columns[0] == 0 and len(columns) > 1 and _is_index(table):
        called = f", {table.names[0]!r}," if table.names and table.names[0] else ""
        mend = "write it as numbers" if 0 in table.words else "rename it" if table.names else "name the columns"
        notes.append(f"the first column{called} was left out: it only says which row it is; {mend} to keep it")
        columns = columns[1:]
    elif columns and columns[0] == 0 and 0 in table.numbers and table.names and _counts_rows(table.numbers[0]):
        notes.append(f"input {table.title(0)!r} counts the rows; drop it if it means nothing")
    for column in columns:
        if column in table.words:
            word = table.words[column][0]
            mend = "name it as a target, drop it, or write it as numbers"
            if NUMBER_LIKE.fullmatch(word):
                mend = "write numbers as 1234.5, or as 1234,5 where ; or a tab is the separator"
            raise FileFormatError(
                f"{table.path}: inputs must be numbers; column {table.title(column)!r} holds words, such as "
                f"{word[:40]!r}: {mend}"
            )
    if not columns:
        raise FileFormatError(f"{table.path} must hold a column of inputs beside the targets; it holds none")
    return columns, tuple(notes)


def _is_index(table: Table) -> bool:
    """Whether the first column says which row it is: numbers that count, or a word of its own for each."""
    named = bool(table.names) and table.names[0].strip().lower() in INDEX_NAMES
    if 0 in table.words:
        apart = len(set(table.words[0])) == len(table) > 1
        return apart and not any(map(NUMBER_LIKE.fullmatch, table.words[0]))
    counts = _counts_rows(table.numbers[0])
    return counts and (named or (not table.names and len(table) >= FEWEST_ROWS))


def _counts_rows(numbers: np.ndarray) -> bool:
    return len(numbers) > 1 and any(np.array_equal(numbers, np.arange(s, s + len(numbers))) for s in (0, 1))
