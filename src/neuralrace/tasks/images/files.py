"""Images as they are published: IDX files, CIFAR's binary version, plain arrays. Nothing in a file is executed.

Sizes are read first and compared with what the file can hold, so that a wrong header allocates nothing; of a
compressed file no more is unpacked than its header promises.
"""

import gzip
import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from neuralrace.archives import read_archive
from neuralrace.errors import FileFormatError

BYTE = 8  # the type code of unsigned bytes in IDX
LARGEST = 1 << 31  # bytes of one file; the published ones have at most 47 million
CIFAR_IMAGE = 3 * 32 * 32
ARRAYS = ("images", "labels", "test_images", "test_labels")


def find_file(place: Path, names: Sequence[str]) -> Path:
    """The first of the names that is a file in the folder, or say what was looked for."""
    if not place.is_dir():
        raise FileFormatError(f"folder must be a folder with the files of the images; there is no folder {place}")
    for name in names:
        if (place / name).is_file():
            return place / name
    held = ", ".join(sorted(entry.name for entry in place.iterdir())[:6]) or "nothing"
    raise FileFormatError(f"{place} must hold {' or '.join(names)}; it holds {held}")


def read_idx(source: Path, axes: int) -> np.ndarray:
    """An IDX file of unsigned bytes with so many axes, plain or .gz."""
    try:
        with gzip.open(source, "rb") if source.suffix == ".gz" else source.open("rb") as file:
            header = file.read(4 + 4 * axes)
            sizes = _idx_sizes(source, header, axes)
            count = math.prod(sizes)
            if source.suffix != ".gz" and source.stat().st_size != len(header) + count:
                raise FileFormatError(
                    f"{source} must hold {len(header) + count} bytes, as its header says; it holds "
                    f"{source.stat().st_size}: it was cut short, or is another file"
                )
            content = file.read(count + 1)  # one more shows what should not be there
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(f"{source} is not a readable IDX file ({str(error).splitlines()[0]})") from None
    if len(content) != count:
        raise FileFormatError(
            f"{source} must hold {count} bytes after its header; it holds {'more' if len(content) > count else ''}"
            f"{len(content) if len(content) < count else ''}: it was cut short, or is another file"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(sizes)


def _idx_sizes(source: Path, header: bytes, axes: int) -> tuple[int, ...]:
    wanted = bytes([0, 0, BYTE, axes])
    if len(header) != 4 + 4 * axes or header[:4] != wanted:
        raise FileFormatError(
            f"{source} must be an IDX file of unsigned bytes with {axes} axes, which starts with {wanted.hex(' ')}; "
            f"it starts with {header[:4].hex(' ') or 'nothing'}"
        )
    sizes = tuple(int(size) for size in np.frombuffer(header[4:], dtype=">u4"))
    if not all(sizes) or math.prod(sizes) > LARGEST:
        raise FileFormatError(f"{source} says that its array is {' x '.join(map(str, sizes))}: that cannot be")
    return sizes


def read_cifar(source: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 3, 32, 32) and labels of one file of CIFAR-10's binary version."""
    size = source.stat().st_size
    if not size or size % (1 + CIFAR_IMAGE) or size > LARGEST:
        raise FileFormatError(
            f"{source} must hold records of {1 + CIFAR_IMAGE} bytes, a label and an image; it holds {size} bytes"
        )
    rows = np.fromfile(source, dtype=np.uint8).reshape(-1, 1 + CIFAR_IMAGE)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def read_arrays(source: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz: images, labels, test_images and test_labels."""
    if not source.is_file():
        raise FileFormatError(f"an .npz with {', '.join(ARRAYS)} is required; there is no file {source}")
    stored = read_archive(source, LARGEST)
    missing = [name for name in ARRAYS if name not in stored]
    if missing:
        raise FileFormatError(
            f"{source} must hold {', '.join(ARRAYS)}; {', '.join(missing)} is missing among "
            f"{', '.join(stored) or 'nothing'}"
        )
    return {name: stored[name] for name in ARRAYS}


def read_features(folder: Path) -> dict[str, np.ndarray]:
    """What scripts/cifar_features.py wrote: the features of images turned by each angle, (domains, N, features).

    The large arrays stay on disk until they are used.
    """
    labels = find_file(folder, ("features.npz",))
    found: dict[str, np.ndarray] = {}
    try:
        with np.load(labels, allow_pickle=False) as stored:
            for part, prefix in (("train", ""), ("test", "test_")):
                place = find_file(folder, (f"rotated_{part}.npy",))
                found[f"{prefix}labels"] = stored[f"{part}_labels"]
                found[f"{prefix}images"] = np.load(place, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise FileFormatError(f"{folder} does not hold what the script of features wrote ({error})") from None
    for name, rows in (("labels", found["images"]), ("test_labels", found["test_images"])):
        if rows.ndim != 3 or rows.shape[1] > len(found[name]):
            raise FileFormatError(
                f"the features in {folder} must be (domains, images, features) of at most {len(found[name])} images; "
                f"they are {rows.shape}"
            )
        found[name] = found[name][: rows.shape[1]]
    return found
