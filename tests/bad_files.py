"""Files that are not what they should be, made in a folder: the corpus of bad inputs names them."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np

ROWS, TARGETS = np.arange(8.0).reshape(4, 2), np.ones((4, 1))
HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}\n"

TABLES = {
    "words.csv": "a,b\n1,2\n3,4\n",
    "empty.csv": "",
    "ragged.csv": "a,b\n1,2\n3\n",
    "blank.csv": "a,b\n1,2\n,4\n",
    "wide.csv": "1," * 100_001 + "1\n",
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
    "malformed": headed(HEADER.format("<f8", (4, 2))[:20]),
    "complex": stored(ROWS + 1j),
    "nan": stored(ROWS * np.nan),
    "counts": stored(ROWS[:3]),
}


def archive(path: Path, members: list[tuple[str, bytes]], kind: int = zipfile.ZIP_STORED) -> Path:
    """An .npz of any members."""
    with zipfile.ZipFile(path, "w", kind) as file:
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
    inputs, targets = ("inputs.npy", stored(ROWS)), ("targets.npy", stored(TARGETS))
    for name, content in INPUTS.items():
        archive(folder / f"{name}.npz", [("inputs.npy", content), targets])
    archive(folder / "member.npz", [("inputs.txt", b"hello"), targets])
    archive(folder / "more.npz", [inputs, targets, ("more.npy", stored(ROWS))])
    archive(folder / "lone.npz", [inputs])
    whole = archive(folder / "whole.npz", [inputs, targets]).read_bytes()
    (folder / "cut.npz").write_bytes(whole[:-30])
    (folder / "damaged.npz").write_bytes(whole[:200] + bytes([whole[200] ^ 255]) + whole[201:])
    return folder
