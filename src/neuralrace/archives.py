"""Arrays of an .npz archive, read with nothing trusted: every size is checked before anything is unpacked.

The headers are read here and not by numpy, because what they claim must be compared with what the archive says of its
members, and must be bounded, before memory is taken for it. Objects are never read.
"""

import ast
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from neuralrace.errors import FileFormatError, shortened
from neuralrace.memory import in_bytes

MOST_HEADER = 10_000  # bytes of the header of an array
MOST_MEMBERS = 1_000  # arrays of an archive
MAGIC = b"\x93NUMPY"
LENGTHS = {1: 2, 2: 4, 3: 4}  # version of the format -> bytes that say how long the header is
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 0x1  # the flag of a member
WRITE_ANEW = "write it with numpy.savez"


@dataclass(frozen=True)
class Header:
    """What an array says of itself: its type, its shape, its order, and where its numbers begin."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    start: int

    @property
    def size(self) -> int:
        """Bytes of the array; a Python number, which cannot overflow."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_archive(
    path: Path, most_bytes: int, check: Callable[[str, Header], None] = lambda name, header: None
) -> dict[str, np.ndarray]:
    """All arrays of an archive; `check` sees each name and header first and may refuse it."""
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                raise FileFormatError(f"{path} is one array, an .npy under another name; {WRITE_ANEW}, by name")
        with zipfile.ZipFile(path) as archive:
            members = _members(path, archive.infolist())
            headers = {name: _header(path, archive, info) for name, info in members.items()}
            for name, header in headers.items():
                check(name, header)
            total = sum(header.size for header in headers.values())
            if total > most_bytes:
                raise FileFormatError(
                    f"{path} must unpack to at most {in_bytes(most_bytes)}; it unpacks to {in_bytes(total)}: take "
                    "fewer examples, or raise most_bytes"
                )
            return {name: _array(path, archive, info, headers[name]) for name, info in members.items()}
    except (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise FileFormatError(f"{path} is not a readable .npz of plain arrays ({reason}); {WRITE_ANEW}") from None


def _members(path: Path, found: list[zipfile.ZipInfo]) -> Mapping[str, zipfile.ZipInfo]:
    """The members by the name of their array."""
    if len(found) > MOST_MEMBERS:
        raise FileFormatError(f"{path} must hold at most {MOST_MEMBERS} arrays; it holds {len(found)}")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in found:
        name = info.filename.removesuffix(".npy")
        if name == info.filename:
            raise FileFormatError(f"{path} must hold arrays alone; {shortened(name)} is none: {WRITE_ANEW}")
        if name in members:
            raise FileFormatError(f"{path} must hold each array once; {shortened(name)} is in it twice: {WRITE_ANEW}")
        if info.flag_bits & ENCRYPTED:
            raise FileFormatError(f"{path}: {name} is encrypted; {WRITE_ANEW}, which encrypts nothing")
        if info.compress_type not in COMPRESSIONS:
            raise FileFormatError(
                f"{path}: {name} must be stored or deflated; its compression is of kind {info.compress_type}: "
                f"{WRITE_ANEW}"
            )
        members[name] = info
    return members


def _header(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Header:
    """The header of one member, which must agree with the size that the archive gives it."""
    name = info.filename.removesuffix(".npy")
    with archive.open(info) as file:
        header = _parsed(file)
    if header is None:
        raise FileFormatError(f"{path}: {name} is not an array: its header is damaged, or it has none; {WRITE_ANEW}")
    if header.dtype.hasobject:
        raise FileFormatError(
            f"{path} is not a readable .npz of plain arrays: {name} holds Python objects, which are never read; give "
            "it a type, as in numpy.asarray(rows, dtype=float)"
        )
    if header.start + header.size != info.file_size:
        raise FileFormatError(
            f"{path}: {name} claims the shape {header.shape}, {in_bytes(header.size)}, and its member has "
            f"{in_bytes(info.file_size)}: it is damaged; {WRITE_ANEW}"
        )
    return header


def _parsed(file: IO[bytes]) -> Header | None:
    """Read a header of bounded length; None if it is none."""
    start = file.read(len(MAGIC) + 2)
    if len(start) < len(MAGIC) + 2 or start[: len(MAGIC)] != MAGIC or start[-2] not in LENGTHS:
        return None
    count = LENGTHS[start[-2]]
    length = int.from_bytes(file.read(count), "little")
    if length > MOST_HEADER:
        return None
    words = file.read(length)
    try:
        told = ast.literal_eval(words.decode("utf-8" if start[-2] == 3 else "latin-1").strip())
        if len(words) != length or set(told) != {"descr", "fortran_order", "shape"}:
            return None
        dtype, shape, fortran = np.dtype(told["descr"]), told["shape"], told["fortran_order"]
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, UnicodeError):
        return None
    plain = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if not plain or not isinstance(fortran, bool) or not isinstance(told["descr"], str):
        return None
    return Header(dtype, shape, fortran, len(start) + count + length)


def _array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: Header) -> np.ndarray:
    """Unpack one member; its checksum is checked when its end is reached."""
    with archive.open(info) as file:
        file.read(header.start)
        data = file.read(header.size)
        rest = file.read(1)
    if len(data) != header.size or rest:
        raise FileFormatError(f"{path}: {info.filename} is cut short; {WRITE_ANEW}")
    found = np.frombuffer(data, dtype=header.dtype)
    return found.reshape(header.shape, order="F" if header.fortran else "C")
