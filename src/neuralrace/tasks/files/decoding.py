"""Bytes into text: UTF-8, UTF-16 and UTF-32 that say so, and Latin-1 where nothing else fits, which is told."""

import codecs
from pathlib import Path
from typing import TextIO

from neuralrace.errors import FileFormatError, in_bytes

MARKS = (  # longer ones first: UTF-32 begins as UTF-16 does
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
BLOCK = 2**20


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
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        try:
            while block := file.read(BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True
