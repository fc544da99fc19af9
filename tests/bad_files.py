"""Files that are not what they should be, made in a folder: the corpus of bad inputs names them."""

import io
import os
import warnings
import zipfile
from pathlib import Path

import numpy as np

ROWS, TARGETS = np.arange(8.0).reshape(4, 2), np.ones((4, 1))
HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}\n"
LOCAL, CENTRAL = (b"PK\x03\x04", 6), (b"PK\x01\x02", 8)  # the two places where a zip keeps the flags of a member

TABLES = {
    "words.csv": "a,b\n1,2\n3,4\n",
    "empty.csv": "",
    "ragged.csv": "a,b\n1,2\n3\n",
    "quote.csv": 'a,b\n"1,2\n3,4\n',
    "blank.csv": "a,b\n1,2\n,4\n",
    "mixed.csv": "a;b\n1,5;2\n3.5;4\n",
    "wide.csv": "1," * 100_001 + "1\n",
    "short.csv": "1,2\n",
}


def stored(array: object) -> bytes:
    """An array as numpy writes it."""
    file = io.BytesIO()
    np.save(file, np.asarray(array))
    return file.getvalue()


def headed(words: str, numbers: bytes = b"") -> bytes:
    """An array with a header that says what it likes."""
    return b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words.encode() + numbers


INPUTS = {
    "objects": headed(HEADER.format("|O", (4, 2)), bytes(64)),
    "claims": headed(HEADER.format("<f8", (10**12, 2))),
    "headless": b"hello",
    "malformed": headed(HEADER.format("<f8", (4, 2))[:20]),
    "nested": headed("(" * 9000),
    "columns": stored(np.zeros((4, 0))),
    "rows": stored(np.zeros((0, 2))),
    "complex": stored(ROWS + 1j),
    "structured": stored(np.zeros(4, dtype=[("a", "f8")])),
    "nan": stored(ROWS * np.nan),
    "counts": stored(ROWS[:3]),
}


def archive(path: Path, members: list[tuple[str, bytes]], kind: int = zipfile.ZIP_STORED) -> Path:
    """An .npz of any members."""
    with zipfile.ZipFile(path, "w", kind) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one name twice
        for name, content in members:
            file.writestr(name, content)
    return path


def make(folder: Path) -> Path:
    """Make them all; one pipe too."""
    for name, text in TABLES.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    os.mkfifo(folder / "pipe")
    (folder / "trash.npz").write_bytes(b"no archive")
    (folder / "array.npz").write_bytes(stored(ROWS))
    inputs, targets = ("inputs.npy", stored(ROWS)), ("targets.npy", stored(TARGETS))
    for name, content in INPUTS.items():
        archive(folder / f"{name}.npz", [("inputs.npy", content), targets])
    archive(folder / "member.npz", [("inputs.txt", b"hello"), targets])
    archive(folder / "twice.npz", [inputs, inputs, targets])
    archive(folder / "more.npz", [inputs, targets, ("more.npy", stored(ROWS))])
    archive(folder / "lone.npz", [inputs])
    archive(folder / "bzip2.npz", [inputs, targets], zipfile.ZIP_BZIP2)
    whole = archive(folder / "whole.npz", [inputs, targets]).read_bytes()
    (folder / "cut.npz").write_bytes(whole[:-30])
    (folder / "damaged.npz").write_bytes(whole[:200] + bytes([whole[200] ^ 255]) + whole[201:])
    (folder / "encrypted.npz").write_bytes(_encrypted(whole))
    return folder


def _encrypted(whole: bytes) -> bytes:
    """The same archive, whose members say that they are encrypted."""
    changed = bytearray(whole)
    for mark, place in (LOCAL, CENTRAL):
        at = changed.find(mark)
        while at >= 0:
            changed[at + place] |= 1
            at = changed.find(mark, at + 4)
    return bytes(changed)
