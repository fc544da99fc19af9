"""Images in M input and M output domains, of which some pairs are trained (P1 section 5).

The images come with scikit-learn, or from files as published: IDX, CIFAR-10's binary version, plain arrays. Nothing in
a file is executed, and no more is unpacked than its header promises. Transformations of images and labels are index
maps, so that a domain is a gather that is made on demand.
"""

import gzip
import itertools
import math
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import (
    FileFormatError,
    RangeError,
    TaskError,
    in_one_line,
    require_count,
    require_name,
    require_number,
    shortened,
)
from neuralrace.images import RoutedImages, check_pairs
from neuralrace.io import as_path, read_archive
from neuralrace.tasks.pairs import trained_pairs

LARGEST = 1 << 31  # bytes of one file; the published ones have at most 47 million
ARRAYS = ("images", "labels", "test_images", "test_labels")
HELD = ", ".join(ARRAYS)


def routed_images(
    data: Any = "digits",
    domains: int = 10,
    trained: int = 4,
    inputs: str = "permuted",
    outputs: str = "permuted",
    folder: str | os.PathLike[str] | None = None,
    *,
    pairs: Any = "circulant",
    degrees: float = 270.0,
    key: int = 0,
) -> RoutedImages:
    """Route images from any of M input domains to any of M output domains, of which some pairs are trained.

    data: "digits" (embedded in scikit-learn), "mnist", "fashion", "cifar10", "features", or a mapping with images,
    labels, test_images and test_labels; images (M, N, features) are those of each domain, and inputs is then "given".
    folder: where the published files are (IDX plain or .gz; CIFAR-10's binary version; for "features" an .npz or a
    folder with an .npy for each array). domains: M. trained: K, output domains per input domain. inputs: "permuted"
    pixels, "rotated" by degrees * i / M (270 in P1's code, 180 in its text), or "plain". outputs: "permuted" labels,
    the first M permutations in lexicographic order, or "plain". pairs: the trained pairs, by name (see `tasks.pairs`)
    or as booleans (M, M). key: seed of all random choices.
    """
    count = require_count("domains", domains, least=2)
    require_name("inputs", inputs, ("permuted", "rotated", "plain", "given"))
    require_name("outputs", outputs, ("permuted", "plain"))
    degrees = require_number("degrees", degrees, above=0, most=360)
    named = isinstance(pairs, str)
    chosen = trained_pairs(pairs, count, trained, key) if named else check_pairs(pairs, count)
    name, arrays, shape, scale, classes = _base_images(data, folder)
    images = arrays["images"]
    given = images.ndim == 3
    if given and len(images) != count:
        raise TaskError(f"{name} has the images of {len(images)} domains; {count} were asked for")
    if inputs == "given" and not given:
        raise TaskError(f"inputs='given' needs images of each domain, (M, N, features); {name} has {images.shape}")
    if inputs == "rotated" and not given and len(shape) != 3:
        raise TaskError(f"rotation needs images, (rows, columns) or (planes, rows, columns); {name} are {shape}")
    input_maps = label_maps = None
    if inputs == "permuted" and not given:
        random = np.random.default_rng([key, images.shape[-1]])
        orders = [random.permutation(images.shape[-1]) for _ in range(count - 1)]
        input_maps = np.stack([np.arange(images.shape[-1]), *orders]).astype(np.int32)
    elif inputs == "rotated" and not given:
        input_maps = rotations(shape, count, degrees)
    if outputs == "permuted":
        if count > math.factorial(classes):
            raise RangeError(
                f"{classes} classes have {math.factorial(classes)} permutations; {count} domains were asked for: use "
                f"outputs='plain'"
            )
        first = itertools.islice(itertools.permutations(range(classes)), count)
        label_maps = np.array(list(first), dtype=np.int32)
    settings = {"data": name, "domains": count, "trained": int(chosen.sum(axis=1).max())}
    settings |= {"inputs": "given" if given else inputs, "outputs": outputs}
    settings |= {"pairs": pairs if named else "given", "degrees": degrees, "key": key}
    base = (arrays["images"], arrays["labels"], arrays["test_images"], arrays["test_labels"])
    return RoutedImages(*base, scale, classes, chosen, input_maps, label_maps, settings)


def rotations(shape: tuple[int, ...], domains: int, degrees: float) -> np.ndarray:
    """Return where each pixel of a rotated image comes from, (domains, pixels); `pixels` if from outside the image.

    Domain i is turned counter-clockwise by degrees * i / domains about the center, to the nearest pixel. shape:
    (planes, rows, columns); color planes turn together.
    """
    planes, rows, columns = shape
    row, column = np.indices((rows, columns))
    y, x = row - (rows - 1) / 2, column - (columns - 1) / 2
    maps = np.empty((domains, planes, rows, columns), dtype=np.int32)
    for domain in range(domains):
        angle = math.radians(degrees * domain / domains)
        from_y, from_x = np.sin(angle) * x + np.cos(angle) * y, np.cos(angle) * x - np.sin(angle) * y
        old_row = np.floor(np.round(from_y + (rows - 1) / 2, 9) + 0.5).astype(int)
        old_column = np.floor(np.round(from_x + (columns - 1) / 2, 9) + 0.5).astype(int)
        inside = (old_row >= 0) & (old_row < rows) & (old_column >= 0) & (old_column < columns)
        flat = rows * columns * np.arange(planes)[:, None, None] + old_row * columns + old_column
        maps[domain] = np.where(inside, flat, planes * rows * columns)
    return maps.reshape(domains, -1)


def _base_images(data: Any, folder: Any) -> tuple[str, dict[str, np.ndarray], tuple[int, ...], float, int]:
    """Return the name, the arrays with one flat image per row, and the shape, scale and classes of a data set."""
    if isinstance(data, Mapping):
        return _checked("the given arrays", data)
    if not isinstance(data, str):
        raise TaskError(f"data must be the name of a data set, or a mapping with {HELD}; it was {shortened(data)}")
    require_name("data", data, ("digits", "mnist", "fashion", "cifar10", "features"))
    if data == "digits":
        if folder is not None:
            raise TaskError("digits come with scikit-learn and are read from no folder: name other data, or no folder")
        from sklearn.datasets import load_digits  # a second of imports

        found = load_digits()
        order = np.random.default_rng(0).permutation(len(found.target))  # writers follow one another in the file
        rows, labels = found.images.astype(np.uint8)[order], found.target[order]
        parts = (rows[360:], labels[360:], rows[:360], labels[:360])
        return _checked(data, dict(zip(ARRAYS, parts, strict=True)), 10, 1 / 16)
    if folder is None:
        raise FileFormatError(f"data={data!r} needs folder=..., the folder of its files as they were published")
    place = as_path("folder", folder, "a folder")
    if data == "features":
        return _checked(data, _read_arrays(place))
    place = place / data if (place / data).is_dir() else place
    if data == "cifar10":
        batches = [read_cifar(_find(place, f"data_batch_{number}.bin")) for number in range(1, 6)]
        tests = read_cifar(_find(place, "test_batch.bin"))
        read = [*(np.concatenate(part) for part in zip(*batches, strict=True)), *tests]
    else:
        stems = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
        read = [read_idx(_find(place, stem, f"{stem}.gz"), 3 if "images" in stem else 1) for stem in stems]
    return _checked(data, dict(zip(ARRAYS, read, strict=True)), 10)


def _checked(
    name: str, given: Mapping[str, Any], classes: int | None = None, scale: float | None = None
) -> tuple[str, dict[str, np.ndarray], tuple[int, ...], float, int]:
    """Check and flatten images (N, ...) or (M, N, features), labels (N,), test_images and test_labels likewise."""
    if missing := [part for part in ARRAYS if part not in given]:
        raise TaskError(f"{name} must hold {HELD}; {', '.join(missing)} is missing")
    arrays = {part: np.asarray(given[part]) for part in ARRAYS}
    images, labels, tests, test_labels = arrays.values()
    lead = 2 if images.ndim == 3 and images.shape[1:2] == labels.shape != images.shape[:1] else 1
    shape = images.shape[lead:]
    if images.ndim < 2 or images.ndim != tests.ndim or shape != tests.shape[lead:]:
        raise TaskError(
            f"training and test images of {name} must be one per row and of one size; their shapes are {images.shape} "
            f"and {tests.shape}"
        )
    for kind, rows, own in (("training", images, labels), ("test", tests, test_labels)):
        if rows.dtype.kind not in "fiu" or (rows.dtype.kind == "f" and not np.isfinite(rows).all()):
            raise TaskError(f"{kind} images of {name} must be finite numbers; they are of type {rows.dtype}")
        if own.shape != rows.shape[lead - 1 : lead] or own.dtype.kind not in "iu" or not len(own):
            raise TaskError(
                f"{name} must have one whole number as label per {kind} image, and at least one; it has "
                f"{rows.shape[lead - 1]} images and labels {own.dtype} {own.shape}"
            )
    known = np.concatenate([labels, test_labels])
    classes = int(known.max()) + 1 if classes is None else classes
    if known.min() < 0 or known.max() >= classes:
        worst = known.min() if known.min() < 0 else known.max()
        raise TaskError(f"labels of {name} must be from 0 to {classes - 1}; one is {worst}")
    for part in ("images", "test_images"):
        arrays[part] = arrays[part].reshape(*arrays[part].shape[:lead], -1)
    scale = scale or (1 / 255 if images.dtype == np.uint8 else 1.0)
    return name, arrays, (1, *shape) if len(shape) == 2 else shape, scale, classes


def _find(place: Path, *names: str) -> Path:
    """Return the first of these files that is in the folder."""
    if not place.is_dir():
        raise FileFormatError(f"folder must be a folder with the files of the images; there is no folder {place}")
    for name in names:
        if (place / name).is_file():
            return place / name
    held = ", ".join(sorted(entry.name for entry in place.iterdir())[:6]) or "nothing"
    raise FileFormatError(f"{place} must hold {' or '.join(names)}; it holds {held}")


def read_idx(source: Path, axes: int) -> np.ndarray:
    """Read an IDX file of unsigned bytes with a number of axes, plain or .gz."""
    content, start = b"", bytes([0, 0, 8, axes])  # 8: unsigned bytes
    try:
        with gzip.open(source, "rb") if source.suffix == ".gz" else source.open("rb") as file:
            header = file.read(4 + 4 * axes)
            sizes = tuple(map(int, np.frombuffer(header[4:], dtype=">u4")))
            count = math.prod(sizes)
            if header[:4] == start and count <= LARGEST:
                content = file.read(count + 1)  # one more byte shows whether there is more
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise FileFormatError(f"{source} is not a readable IDX file ({in_one_line(error, 120)})") from None
    if not content or len(content) != count:
        held = "more" if len(content) > count else len(content)
        raise FileFormatError(
            f"{source} must be an IDX file of unsigned bytes with {axes} axes, which starts with {start.hex(' ')}; it "
            f"starts with {header[:4].hex(' ') or 'nothing'}, promises {count} bytes and holds {held}"
        )
    return np.frombuffer(content, dtype=np.uint8).reshape(sizes)


def read_cifar(source: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read images (N, 3, 32, 32) and labels of one file of CIFAR-10's binary version."""
    record, size = 1 + 3 * 32 * 32, source.stat().st_size
    if not size or size % record or size > LARGEST:
        raise FileFormatError(
            f"{source} must hold records of {record} bytes, a label and an image; it holds {size} bytes"
        )
    rows = np.fromfile(source, dtype=np.uint8).reshape(-1, record)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def _read_arrays(place: Path) -> Mapping[str, np.ndarray]:
    """Read an .npz, or a folder with an .npy for each array, of which images stay on disk until they are used."""
    if place.is_file():
        return read_archive(place)
    try:
        return {
            name: np.load(_find(place, f"{name}.npy"), mmap_mode="r" if "images" in name else None, allow_pickle=False)
            for name in ARRAYS
        }
    except (OSError, ValueError, EOFError) as error:
        raise FileFormatError(f"{place} does not hold readable .npy files ({in_one_line(error, 120)})") from None
