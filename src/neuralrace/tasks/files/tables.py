"""A table of text: one example per line, cells between separators, numbers and words told apart."""

import csv
import itertools
import math
import operator
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from neuralrace.errors import FileFormatError
from neuralrace.tasks.files.texts import as_number, choose_separator, opened

MOST_COLUMNS = 100_000
MOST_LINE = 2**22  # characters
SAMPLE = 100  # lines that a separator is chosen from
CONTROL = re.compile("[\0-\x08\x0e-\x1f\x7f]")  # what no text holds

KeptColumns = Callable[[Sequence[str], int], Iterable[int]]  # names, width -> columns that stay words
NumberedRow = tuple[int, list[str]]  # the number of its line, and its cells


@dataclass(frozen=True)
class Table:
    """names: of the columns, empty if there is no head. numbers: column -> (N,). words: column -> its N cells.

    notes: what a reader of the file should know was done.
    """

    path: Path
    count: int
    width: int
    names: tuple[str, ...]
    numbers: dict[int, np.ndarray]
    words: dict[int, list[str]]
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return self.count

    def title(self, column: int) -> str:
        """What a column is called."""
        return _title(self.names, column)


def read_table(
    path: Path,
    separator: str | None,
    most_bytes: int,
    kept: KeptColumns = lambda names, width: (),
    head_holds: Sequence[str] = (),
) -> Table:
    """Read a table; `kept` says, from names and width, which columns stay words whatever they hold.

    head_holds: names that make a first line the head of the table if it has them all.
    """
    text, notes = opened(path, most_bytes)
    with text as handle:
        try:
            lines = _lines(path, handle)
            sample = list(itertools.islice(lines, SAMPLE))
            mark = choose_separator(sample, separator)
            records = _numbered_rows(path, itertools.chain(sample, lines), mark)
            first = list(itertools.islice(records, 2))
            if not first:
                raise FileFormatError(f"{path} must hold one example per line; it is empty")
            names = _head(path, first, mark, head_holds)
            rows = itertools.chain(first[1 if names else 0 :], records)
            return _filled(path, names, len(first[0][1]), rows, mark, kept, notes)
        except (OSError, UnicodeError) as error:
            raise FileFormatError(f"{path} is not a readable .csv ({str(error).splitlines()[0]})") from None


def _lines(path: Path, handle: TextIO) -> Iterator[str]:
    """The lines, none of them without an end."""
    for number in itertools.count(1):
        line = handle.readline(MOST_LINE + 1)
        if not line:
            return
        if len(line) > MOST_LINE:
            raise FileFormatError(
                f"{path}: a line must have at most {MOST_LINE:,} characters; line {number} has more: one example per "
                "line is required"
            )
        if CONTROL.search(line):
            raise FileFormatError(
                f"{path} is not a readable .csv: line {number} holds bytes that are no text; save it as text in UTF-8"
            )
        yield line


def _numbered_rows(path: Path, lines: Iterable[str], separator: str) -> Iterator[NumberedRow]:
    """The cells of every line that is not blank, as many in each as in the first."""
    if separator == " ":
        lines = (" ".join(line.split()) + "\n" for line in lines)
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    width = 0
    while True:
        started = reader.line_num + 1
        try:
            record = next(reader, None)
        except csv.Error as error:
            at = f"line {started}" if started >= reader.line_num else f"lines {started} to {reader.line_num}"
            raise FileFormatError(f"{path}: {at}: {error}; look for a quote that is not closed, or doubled") from None
        if record is None:
            return
        cells = [cell.strip() for cell in record]
        if not any(cells):
            continue
        width = width or len(cells)
        if width > MOST_COLUMNS:
            raise FileFormatError(f"{path} must have at most {MOST_COLUMNS:,} columns; it has {width:,}")
        if len(cells) != width:
            raise FileFormatError(f"{path} must have {width} columns in every line; line {started} has {len(cells)}")
        yield started, cells


def _head(path: Path, first: Sequence[NumberedRow], separator: str, holds: Sequence[str]) -> tuple[str, ...]:
    """The names in the first line, none if it is an example like the others."""
    line, second = first[0][1], first[1][1] if len(first) > 1 else []
    numeric = [as_number(cell, separator) is not None for cell in line]
    below = [as_number(cell, separator) is not None for cell in second]
    named = bool(holds) and set(holds) <= set(line)
    if not (named or not any(numeric) or any(under and not over for over, under in zip(numeric, below, strict=False))):
        return ()
    for name in line:
        if name and line.count(name) > 1:
            places = " and ".join(str(place + 1) for place, other in enumerate(line) if other == name)
            raise FileFormatError(f"{path} must name each column differently; {name!r} is the name of {places}")
    return tuple(line)


def _filled(
    path: Path,
    names: tuple[str, ...],
    width: int,
    rows: Iterator[NumberedRow],
    separator: str,
    kept: KeptColumns,
    notes: tuple[str, ...],
) -> Table:
    """Gather the columns: those whose first cell is a number must be numbers to the end."""
    start = next(rows, None)
    if start is None:
        raise FileFormatError(f"{path} must hold one example per line; it holds names alone")
    stay = set(kept(names, width))
    worded = [c for c, cell in enumerate(start[1]) if c in stay or (cell and as_number(cell, separator) is None)]
    numeric = [c for c in range(width) if c not in set(worded)]
    pick = operator.itemgetter(*numeric) if len(numeric) > 1 else lambda cells: tuple(cells[c] for c in numeric)
    words: list[list[str]] = [[] for _ in worded]
    flat, marks, count = array("d"), DecimalMarks(path, separator), 0
    for line, cells in itertools.chain([start], rows):
        count += 1
        chosen = marks.plain(line, pick(cells))
        try:
            flat.extend(map(float, chosen))
        except ValueError:
            raise _not_a_number(path, names, line, cells, numeric, separator) from None
        for column, stored in zip(worded, words, strict=True):
            stored.append(cells[column])
    found = np.frombuffer(flat, dtype=np.float64).reshape(-1, len(numeric)) if numeric else np.zeros((0, 0))
    _check_finite(path, names, numeric, found)
    return Table(
        path,
        count,
        width,
        names,
        {column: found[:, place] for place, column in enumerate(numeric)},
        dict(zip(worded, words, strict=True)),
        (*notes, *marks.notes),
    )


@dataclass
class DecimalMarks:
    """Decimal commas, where the separator leaves them free; a table uses them or points, not both."""

    path: Path
    separator: str
    comma: int = 0  # the first line with one
    point: int = 0

    def plain(self, line: int, cells: tuple[str, ...]) -> Iterable[str]:
        """The cells with points."""
        joined = "\n".join(cells)
        if "_" in joined:  # which Python would read over
            return (cell.replace("_", "?") for cell in cells)
        if self.separator == ",":
            return cells
        self.comma = self.comma or (line if "," in joined else 0)
        self.point = self.point or (line if "." in joined else 0)
        if self.comma and self.point:
            raise FileFormatError(
                f"{self.path} must write numbers with decimal commas or with points; line {self.comma} has a comma and "
                f"line {self.point} a point: write them all alike, without separators of thousands"
            )
        return joined.replace(",", ".").split("\n") if self.comma else cells

    @property
    def notes(self) -> tuple[str, ...]:
        """That commas were read so."""
        return (f"{self.path.name}: decimal commas were read",) if self.comma else ()


def _not_a_number(
    path: Path, names: Sequence[str], line: int, cells: Sequence[str], numeric: Sequence[int], separator: str
) -> FileFormatError:
    column = next(c for c in numeric if as_number(cells[c], separator) is None)
    cell, mend = cells[column], "correct it, or name the column as a target or as one to drop"
    if not cell:
        mend = "fill it, or take the line out"
    elif separator == "," and re.fullmatch(r"[-+]?\d+,\d+", cell):
        mend = "decimal commas need another separator between the columns, such as ;"
    shown = cell if len(cell) < 40 else cell[:37] + "..."
    where = f"line {line}, column {column + 1}" + (f" ({names[column]})" if names and names[column] else "")
    return FileFormatError(f"{path} must hold numbers; {where} is {shown!r}: {mend}")


def _check_finite(path: Path, names: Sequence[str], numeric: Sequence[int], found: np.ndarray) -> None:
    if not np.isfinite(found).all():
        row, place = (int(i) for i in np.argwhere(~np.isfinite(found))[0])
        raise FileFormatError(
            f"{path} must be finite; example {row + 1}, column {_title(names, numeric[place])!r} is "
            f"{found[row, place]}: remove or replace that example"
        )


def _title(names: Sequence[str], column: int) -> str:
    return (names[column] if names else "") or f"column {column + 1}"


def as_numbers(cells: Sequence[str]) -> np.ndarray | None:
    """A column of cells as finite numbers, or None if one of them is none."""
    marked = any("," in cell for cell in cells)
    found = [as_number(cell, ";" if marked else ",") for cell in cells]
    numbers = [number for number in found if number is not None and math.isfinite(number)]
    return np.array(numbers) if len(numbers) == len(cells) else None
