"""Which character stands between the columns of a table."""

import csv
import re
from collections import Counter
from collections.abc import Sequence

from neuralrace.errors import RangeError

SEPARATORS = (",", ";", "\t", "|", " ")
SPELLED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}
WITH_COMMA = re.compile(r"[-+]?(\d+,\d*|,\d+)([eE][-+]?\d+)?")


def choose_separator(lines: Sequence[str], given: str | None) -> str:
    """The one that was given; else the one that cuts the lines alike, into the largest share of numbers."""
    if given is not None:
        mark = SPELLED.get(given, given)
        if len(mark) != 1 or mark in '"\n\r\0' or mark.isalnum() or mark in "+-.":
            raise RangeError(f"separator must be one character such as , or ; or 'tab'; it was {given!r}")
        return mark
    scored = {mark: _score(lines, mark) for mark in SEPARATORS}
    best = max(SEPARATORS, key=lambda mark: scored[mark])  # the first of equals
    return best if scored[best] > (0.0, 0.0) else ","


def _score(lines: Sequence[str], mark: str) -> tuple[float, float]:
    """The share of lines with the most common number of cells, if that is more than one; the share of numbers."""
    cut = [" ".join(line.split()) for line in lines] if mark == " " else lines
    try:
        rows = [row for row in csv.reader(cut, delimiter=mark, skipinitialspace=True) if any(map(str.strip, row))]
    except csv.Error:
        return 0.0, 0.0
    if not rows:
        return 0.0, 0.0
    width, alike = Counter(map(len, rows)).most_common(1)[0]
    if width == 1:
        return 0.0, 0.0
    cells = [cell.strip() for row in rows[1:] or rows for cell in row]
    return alike / len(rows), sum(as_number(cell, mark) is not None for cell in cells) / len(cells)


def as_number(cell: str, separator: str) -> float | None:
    """What a cell says, with a decimal comma where the separator leaves it free; None if that is no number."""
    if separator != "," and WITH_COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    if "_" in cell:  # Python's own way of writing numbers
        return None
    try:
        return float(cell)
    except ValueError:
        return None
