"""Arrays of an .npz archive, whose sizes are checked before anything is unpacked; objects are never read."""

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import FileFormatError
from neuralrace.memory import in_bytes

MOST_BYTES = 1 << 31  # of the arrays of one archive
MOST_HEADER = 10_000  # bytes of the header of an array
READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}

Check = Callable[[str, tuple[int, ...], "np.dtype[Any]"], None]


def read_archive(
    path: Path, most_bytes: int = MOST_BYTES, check: Check = lambda name, shape, dtype: None
) -> dict[str, np.ndarray]:
    """Read all arrays of an archive; `check` sees each name, shape and type first and may refuse it.

    What the headers claim is compared with the sizes of the archive's members, because memory is taken for it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            total = 0
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                with archive.open(info) as file:
                    read = READ_HEADER[np.lib.format.read_magic(file)]
                    shape, _, dtype = read(file, max_header_size=MOST_HEADER)
                    size = math.prod(shape) * dtype.itemsize  # a Python number, which cannot overflow
                    if dtype.hasobject:
                        raise FileFormatError(
                            f"{path}: {name} holds Python objects, which are never read; give it a type, as in "
                            "numpy.asarray(rows, dtype=float)"
                        )
                    if file.tell() + size != info.file_size:
                        raise FileFormatError(
                            f"{path}: {name} claims the shape {shape}, {in_bytes(size)}, and its member has "
                            f"{in_bytes(info.file_size)}: it is damaged; write it with numpy.savez"
                        )
                check(name, shape, dtype)
                total += size
        if total > most_bytes:
            raise FileFormatError(
                f"{path} must unpack to at most {in_bytes(most_bytes)}; it unpacks to {in_bytes(total)}: take fewer "
                "examples"
            )
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except FileFormatError:
        raise
    except Exception as error:  # of zipfile, zlib, tokenize and numpy: whatever damaged bytes lead to
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise FileFormatError(
            f"{path} is not a readable .npz of plain arrays ({reason}); write it with numpy.savez"
        ) from None
