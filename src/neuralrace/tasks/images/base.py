"""The base data sets: images with labels, for training and held out, before any domain is made of them.

They come with scikit-learn, from OpenML, or from files as published: IDX, CIFAR's binary version, plain arrays.
Nothing in a file is executed. Sizes are read first and compared with what the file can hold, so that a wrong header
allocates nothing; of a compressed file no more is unpacked than its header promises.
"""

import gzip
import math
import os
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.archives import read_archive
from neuralrace.datafiles import as_path
from neuralrace.errors import FileFormatError, TaskError, in_one_line, require_name, shortened
from neuralrace.images import Images

HELD_OUT = 360  # of the 1,797 digits
TEST = 10_000  # the last so many images of an OpenML data set are its test set, as published
OPENML = {"mnist": "mnist_784", "fashion": "Fashion-MNIST", "cifar10": "CIFAR_10"}
FOLDERS = {"mnist": ("mnist",), "fashion": ("fashion", "fashion-mnist"), "cifar10": ("cifar10", "cifar-10-batches-bin")}
SHAPES = {"mnist": (1, 28, 28), "fashion": (1, 28, 28), "cifar10": (3, 32, 32)}
BYTE = 8  # the type code of unsigned bytes in IDX
LARGEST = 1 << 31  # bytes of one file; the published ones have at most 47 million
CIFAR_IMAGE = 3 * 32 * 32
ARRAYS = ("images", "labels", "test_images", "test_labels")
NEEDED = {
    "arrays": "the name of an .npz with " + ", ".join(ARRAYS),
    "features": "where the script of CIFAR's features has written",
}

ImageFolder = str | os.PathLike[str] | None


def base_images(data: Any, folder: ImageFolder) -> Images:
    """A base data set by its name, or from arrays."""
    if isinstance(data, Images):
        return data
    if isinstance(data, Mapping):
        return _from_arrays("the given arrays", data)
    if not isinstance(data, str):
        raise TaskError(
            f"data must be the name of a data set, or a mapping with {', '.join(ARRAYS)}; it was {shortened(data)}"
        )
    require_name("data", data, ("digits", *OPENML, "features", "arrays"))
    if folder is not None and data == "digits":
        raise TaskError("digits come with scikit-learn and are read from no folder: name other data, or give no folder")
    if folder is None and data in NEEDED:
        raise FileFormatError(f"data={data!r} needs folder, {NEEDED[data]}")
    if folder is None:
        return _digits() if data == "digits" else _from_openml(data)
    place = as_path("folder", folder, "a folder")
    if data == "arrays":
        return _from_arrays(str(place), read_arrays(place))
    if data == "features":
        return _from_arrays(data, read_features(place))
    inner = (place / known for known in FOLDERS[data])  # the folder itself, or the one in it that has the data's name
    place = next((one for one in inner if one.is_dir()), place)
    return _cifar10(place) if data == "cifar10" else _idx(data, place)


def _digits() -> Images:
    from sklearn.datasets import load_digits  # a second of imports

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))  # writers follow one another in the file
    rows, labels = found.data.astype(np.uint8)[order], found.target[order]
    return Images("digits", rows[HELD_OUT:], labels[HELD_OUT:], rows[:HELD_OUT], labels[:HELD_OUT], (1, 8, 8), 1 / 16)


def _idx(name: str, place: Path) -> Images:
    parts = {}
    for part in ("train", "t10k"):
        for kind, axes in (("images-idx3", 3), ("labels-idx1", 1)):
            stem = f"{part}-{kind}-ubyte"
            parts[part, axes] = read_idx(find_file(place, (stem, f"{stem}.gz")), axes)
    images, tests = parts["train", 3], parts["t10k", 3]
    if images.shape[1:] != tests.shape[1:]:
        raise FileFormatError(
            f"training and test images in {place} must have one size; they have {images.shape[1:]} and "
            f"{tests.shape[1:]}"
        )
    rows, test_rows = images.reshape(len(images), -1), tests.reshape(len(tests), -1)
    return Images(name, rows, parts["train", 1], test_rows, parts["t10k", 1], (1, *images.shape[1:]), 1 / 255)


def _cifar10(place: Path) -> Images:
    found = [read_cifar(find_file(place, (f"data_batch_{number}.bin",))) for number in range(1, 6)]
    counts = [len(labels) for _, labels in found]
    if len(set(counts)) > 1:
        raise FileFormatError(
            f"the five files data_batch in {place} must hold as many images each; they hold "
            f"{', '.join(map(str, counts))}: one was cut short"
        )
    tests, test_labels = read_cifar(find_file(place, ("test_batch.bin",)))
    images, labels = (np.concatenate(part) for part in zip(*found, strict=True))
    return Images("cifar10", images, labels, tests, test_labels, SHAPES["cifar10"], 1 / 255)


def _from_arrays(name: str, given: Mapping[str, Any]) -> Images:
    """images (N, ...) or (M, N, features), labels (N,), test_images and test_labels likewise."""
    missing = [part for part in ARRAYS if part not in given]
    if missing:
        raise TaskError(f"{name} must hold {', '.join(ARRAYS)}; {', '.join(missing)} is missing")
    arrays = {part: np.asarray(given[part]) for part in ARRAYS}
    for part, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise TaskError(f"{part} of {name} must be numbers; they are of type {array.dtype}")
    images, labels, tests, test_labels = arrays.values()
    if labels.ndim != 1 or test_labels.ndim != 1 or labels.dtype.kind == "f" or test_labels.dtype.kind == "f":
        raise TaskError(f"labels of {name} must be one whole number per image; their shape is {labels.shape}")
    ready = images.ndim == 3 and images.shape[1] == len(labels) != images.shape[0]
    if images.ndim < 2 or images.ndim != tests.ndim:
        raise TaskError(
            f"images of {name} must have one row per image; their shapes are {images.shape} and {tests.shape}"
        )
    shape = images.shape[2:] if ready else images.shape[1:]
    if shape != (tests.shape[2:] if ready else tests.shape[1:]):
        raise TaskError(f"training and test images of {name} must have one size; {images.shape} and {tests.shape} came")
    if not all(np.isfinite(array).all() for array in (images, tests)):
        raise TaskError(f"images of {name} must be finite numbers")
    lead = images.shape[:2] if ready else images.shape[:1]
    scale = 1 / 255 if images.dtype == np.uint8 else 1.0
    shape = shape if len(shape) == 3 else (1, *shape) if len(shape) == 2 else shape
    rows, test_rows = images.reshape(*lead, -1), tests.reshape(*tests.shape[: len(lead)], -1)
    classes = int(max(labels.max(initial=0), test_labels.max(initial=0))) + 1
    return Images(name, rows, labels, test_rows, test_labels, shape, scale, classes)


def _from_openml(name: str) -> Images:
    from sklearn.datasets import fetch_openml

    shape = SHAPES[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # each time that it tries again
            rows, labels = fetch_openml(OPENML[name], version=1, as_frame=False, return_X_y=True, parser="liac-arff")
    except Exception as error:  # whatever a network does
        reason = in_one_line(error, 120)
        raise TaskError(
            f"{name} could not be fetched from OpenML ({reason}): put its files into a folder and give folder=..."
        ) from None
    rows, labels = np.asarray(rows).astype(np.uint8), np.asarray(labels).astype(np.uint8)
    if len(rows) <= TEST or rows.shape[1] != np.prod(shape):
        raise TaskError(f"OpenML's {OPENML[name]} must have rows of {np.prod(shape)} pixels; its shape is {rows.shape}")
    return Images(name, rows[:-TEST], labels[:-TEST], rows[-TEST:], labels[-TEST:], shape, 1 / 255)


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
        held = "more" if len(content) > count else len(content)
        raise FileFormatError(
            f"{source} must hold {count} bytes after its header; it holds {held}: it was cut short, or is another file"
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
    """Images (N, 3 x 32 x 32) and labels of one file of CIFAR-10's binary version."""
    size = source.stat().st_size
    if not size or size % (1 + CIFAR_IMAGE) or size > LARGEST:
        raise FileFormatError(
            f"{source} must hold records of {1 + CIFAR_IMAGE} bytes, a label and an image; it holds {size} bytes"
        )
    rows = np.fromfile(source, dtype=np.uint8).reshape(-1, 1 + CIFAR_IMAGE)
    return rows[:, 1:], rows[:, 0]


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
