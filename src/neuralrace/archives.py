"""Arrays of an .npz archive, checked for size and damage before any of them is read; objects are never read."""

import zipfile
from pathlib import Path

import numpy as np

from neuralrace.errors import FileFormatError
from neuralrace.memory import in_bytes


def read_archive(path: Path, most_bytes: int = 1 << 31) -> dict[str, np.ndarray]:
    """Read all arrays of an archive that unpacks to at most so many bytes; its checksums are compared first."""
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(member.file_size for member in archive.infolist())
            if total > most_bytes:
                raise FileFormatError(
                    f"{path} must unpack to at most {in_bytes(most_bytes)}; it unpacks to {in_bytes(total)}: take "
                    "fewer examples"
                )
            if damaged := archive.testzip():  # a changed header could otherwise hide that the rest is not read
                raise ValueError(f"{damaged} is damaged")
        with np.load(path, allow_pickle=False) as stored:
            found = {name: stored[name] for name in stored.files}
        if others := [name for name, array in found.items() if not isinstance(array, np.ndarray)]:
            raise ValueError(f"{others[0]} is no array")
    except FileFormatError:
        raise
    except Exception as error:  # of zipfile, zlib, tokenize and numpy: whatever damaged bytes lead to
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise FileFormatError(
            f"{path} is not a readable .npz of plain arrays ({reason}); write it with numpy.savez"
        ) from None
    return found
