"""Bytes into text, and text into cells: which encoding, which separator, and what is told where that is a guess."""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from neuralrace.errors import FileFormatError, RangeError
from neuralrace.memory import in_bytes

SEPARATORS = (",", ";", "\t", "|", " ")
SPELLED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}
WITH_COMMA = re.compile(r"[-+]?(\d+,\d*|,\d+)([eE][-+]?\d+)?")
MARKS = (  # longer ones first: UTF-32 begins as UTF-16 does
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
BLOCK = 2**20


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


def opened(path: Path, most_bytes: int) -> tuple[TextIO, tuple[str, ...]]:
    """Open a table of text of a bounded size, and say in which encoding where that is a guess."""
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise FileFormatError(
                f"{path} must be at most {in_bytes(most_bytes)}; it is {in_bytes(size)}: take fewer examples, or raise "
                "most_bytes"
            )
        with path.open("rb") as file:
            start = file.read(4)
        known = [name for mark, name in MARKS if start.startswith(mark)]
        encoding = known[0] if known else ("utf-8" if _is_utf8(path) else "latin-1")
        notes = (f"{path.name} is not UTF-8: it was read as Latin-1",) if encoding == "latin-1" else ()
        return path.open(newline="", encoding=encoding), notes
    except OSError as error:
        raise FileFormatError(f"{path} is not a readable .csv ({error.strerror or error})") from None


def _is_utf8(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8") as file:
            while file.read(BLOCK):
                pass
        return True
    except UnicodeDecodeError:
        return False
