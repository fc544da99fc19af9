"""Images in M input and M output domains, of which some pairs are trained (P1 section 5).

The images come with scikit-learn, from OpenML, or from files as published: IDX, CIFAR-10's binary version, plain
arrays. Nothing in a file is executed, and no more is unpacked than its header promises. Transformations of images and
labels are index maps, so that a domain is a gather that is made on demand.
"""

import gzip
import itertools
import math
import os
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.archives import read_archive
from neuralrace.datafiles import as_path
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
from neuralrace.tasks.pairs import trained_pairs

DEGREES = 270.0  # of P1's code; its text says 180
OPENML = {"mnist": "mnist_784", "fashion": "Fashion-MNIST", "cifar10": "CIFAR_10"}
FOLDERS = {"mnist": ("mnist",), "fashion": ("fashion", "fashion-mnist"), "cifar10": ("cifar10", "cifar-10-batches-bin")}
SHAPES = {"mnist": (28, 28), "fashion": (28, 28), "cifar10": (3, 32, 32)}
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
    degrees: float = DEGREES,
    key: int = 0,
) -> RoutedImages:
    """Route images from any of M input domains to any of M output domains, of which some pairs are trained.

    data: "digits" (embedded in scikit-learn), "mnist", "fashion", "cifar10", "features", "arrays", or a mapping with
    images, labels, test_images and test_labels; images (M, N, features) are those of each domain, and inputs is then
    "given". folder: where the published files are (IDX plain or .gz; CIFAR-10's binary version; for "features" and
    "arrays" an .npz or a folder with an .npy for each array); None: fetch them from OpenML. domains: M. trained: K,
    output domains per input domain. inputs: "permuted" pixels, "rotated" by degrees * i / M, or "plain". outputs:
    "permuted" labels, the first M permutations in lexicographic order, or "plain". pairs: the trained pairs, by name
    (see `tasks.pairs`) or as booleans (M, M). key: seed of all random choices.
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
    input_maps = None
    if inputs == "permuted" and not given:
        random = np.random.default_rng([key, images.shape[-1]])
        orders = [random.permutation(images.shape[-1]) for _ in range(count - 1)]
        input_maps = np.stack([np.arange(images.shape[-1]), *orders]).astype(np.int32)
    elif inputs == "rotated" and not given:
        input_maps = rotations(shape, count, degrees)
    label_maps = None
    if outputs == "permuted":
        if count > math.factorial(classes):
            raise RangeError(
                f"{classes} classes have {math.factorial(classes)} permutations; {count} domains were asked for: use "
                f"outputs='plain'"
            )
        first = itertools.islice(itertools.permutations(range(classes)), count)
        label_maps = np.array(list(first), dtype=np.int32)
    settings = {
        "data": name,
        "domains": count,
        "trained": int(chosen.sum(axis=1).max()),
        "inputs": "given" if given else inputs,
        "outputs": outputs,
        "pairs": pairs if named else "given",
        "degrees": degrees,
        "key": key,
    }
    return RoutedImages(
        **arrays,
        scale=scale,
        classes=classes,
        pairs=chosen,
        input_maps=input_maps,
        label_maps=label_maps,
        settings=settings,
    )


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
        # rounding to nine digits first makes quarter turns exact
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
    require_name("data", data, ("digits", *OPENML, "features", "arrays"))
    if data == "digits":
        if folder is not None:
            raise TaskError("digits come with scikit-learn and are read from no folder: name other data, or no folder")
        from sklearn.datasets import load_digits  # a second of imports

        found = load_digits()
        order = np.random.default_rng(0).permutation(len(found.target))  # writers follow one another in the file
        rows, labels = found.images.astype(np.uint8)[order], found.target[order]
        parts = (rows[360:], labels[360:], rows[:360], labels[:360])
        return _checked(data, dict(zip(ARRAYS, parts, strict=True)), 10, 1 / 16)
    if folder is None and data not in OPENML:
        raise FileFormatError(f"data={data!r} needs folder: an .npz, or a folder of .npy files, with {HELD}")
    if folder is None:
        return _checked(data, _from_openml(data), 10)
    place = as_path("folder", folder, "a folder")
    if data not in OPENML:
        return _checked(data if data == "features" else str(place), _read_arrays(place))
    place = next((place / name for name in FOLDERS[data] if (place / name).is_dir()), place)
    if data == "cifar10":
        batches = [read_cifar(_find(place, f"data_batch_{number}.bin")) for number in range(1, 6)]
        counts = [len(labels) for _, labels in batches]
        if len(set(counts)) > 1:
            raise FileFormatError(
                f"the five files data_batch in {place} must hold as many images each; they hold "
                f"{', '.join(map(str, counts))}: one was cut short"
            )
        images, labels = (np.concatenate(part) for part in zip(*batches, strict=True))
        tests, test_labels = read_cifar(_find(place, "test_batch.bin"))
        return _checked(data, dict(zip(ARRAYS, (images, labels, tests, test_labels), strict=True)), 10)
    stems = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    read = (read_idx(_find(place, stem, f"{stem}.gz"), 3 if "images" in stem else 1) for stem in stems)
    return _checked(data, dict(zip(ARRAYS, read, strict=True)), 10)


def _checked(
    name: str, given: Mapping[str, Any], classes: int | None = None, scale: float | None = None
) -> tuple[str, dict[str, np.ndarray], tuple[int, ...], float, int]:
    """Check and flatten images (N, ...) or (M, N, features), labels (N,), test_images and test_labels likewise."""
    missing = [part for part in ARRAYS if part not in given]
    if missing:
        raise TaskError(f"{name} must hold {HELD}; {', '.join(missing)} is missing")
    arrays = {part: np.asarray(given[part]) for part in ARRAYS}
    for part, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise TaskError(f"{part} of {name} must be numbers; they are of type {array.dtype}")
        if "images" in part and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise TaskError(f"images of {name} must be finite numbers")
        if "labels" in part and (array.ndim != 1 or array.dtype.kind == "f"):
            raise TaskError(f"labels of {name} must be one whole number per image; their shape is {array.shape}")
    images, labels, tests, test_labels = arrays.values()
    lead = 2 if images.ndim == 3 and images.shape[1] == len(labels) != images.shape[0] else 1
    if images.ndim < 2 or images.ndim != tests.ndim or images.shape[lead:] != tests.shape[lead:]:
        raise TaskError(
            f"training and test images of {name} must be one per row and of one size; their shapes are {images.shape} "
            f"and {tests.shape}"
        )
    least, most = (
        min(labels.min(initial=0), test_labels.min(initial=0)),
        max(labels.max(initial=0), test_labels.max(initial=0)),
    )
    classes = int(most) + 1 if classes is None else classes
    if least < 0 or most >= classes:
        raise TaskError(f"labels of {name} must be from 0 to {classes - 1}; one is {least if least < 0 else most}")
    for kind, rows, own in (("training", images, labels), ("test", tests, test_labels)):
        if rows.shape[lead - 1] != len(own) or not len(own):
            raise TaskError(
                f"{name} must have one label per {kind} image, and at least one; it has {rows.shape[lead - 1]} images "
                f"and {len(own)} labels"
            )
    for part in ("images", "test_images"):
        arrays[part] = arrays[part].reshape(*arrays[part].shape[:lead], -1)
    shape = images.shape[lead:]
    scale = scale or (1 / 255 if images.dtype == np.uint8 else 1.0)
    return name, arrays, (1, *shape) if len(shape) == 2 else shape, scale, classes


def _from_openml(name: str) -> dict[str, np.ndarray]:
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one each time that it tries again
            rows, labels = fetch_openml(OPENML[name], version=1, as_frame=False, return_X_y=True, parser="liac-arff")
        images, labels = np.asarray(rows).astype(np.uint8), np.asarray(labels).astype(np.uint8)
        images = images.reshape(len(images), *SHAPES[name])
    except Exception as error:  # any failure of the network, or another shape
        raise TaskError(
            f"{name} could not be fetched from OpenML ({in_one_line(error, 120)}): put its files into a folder and "
            f"give folder=..."
        ) from None
    # the last 10,000 are its test set, as published
    return dict(zip(ARRAYS, (images[:-10_000], labels[:-10_000], images[-10_000:], labels[-10_000:]), strict=True))


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
    wanted = bytes([0, 0, 8, axes])  # 8: unsigned bytes
    try:
        with gzip.open(source, "rb") if source.suffix == ".gz" else source.open("rb") as file:
            header = file.read(4 + 4 * axes)
            if header[:4] != wanted or len(header) != 4 + 4 * axes:
                raise FileFormatError(
                    f"{source} must be an IDX file of unsigned bytes with {axes} axes, which starts with "
                    f"{wanted.hex(' ')}; it starts with {header[:4].hex(' ') or 'nothing'}"
                )
            sizes = tuple(int(size) for size in np.frombuffer(header[4:], dtype=">u4"))
            if not all(sizes) or (count := math.prod(sizes)) > LARGEST:
                raise FileFormatError(f"{source} says that its array is {' x '.join(map(str, sizes))}: that cannot be")
            content = file.read(count + 1)  # one more byte shows whether there is more
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise FileFormatError(f"{source} is not a readable IDX file ({in_one_line(error, 120)})") from None
    if len(content) != count:
        held = "more" if len(content) > count else len(content)
        raise FileFormatError(
            f"{source} must hold {count} bytes after its header; it holds {held}: it was cut short, or is another file"
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
    if not place.is_dir():
        if not place.is_file():
            raise FileFormatError(f"an .npz, or a folder of .npy files, with {HELD} is required; there is no {place}")
        return read_archive(place, LARGEST)
    try:
        return {
            name: np.load(_find(place, f"{name}.npy"), mmap_mode="r" if "images" in name else None, allow_pickle=False)
            for name in ARRAYS
        }
    except (OSError, ValueError, EOFError) as error:
        raise FileFormatError(f"{place} does not hold readable .npy files ({in_one_line(error, 120)})") from None
