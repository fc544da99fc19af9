"""The base data sets: images with labels, for training and held out, before any domain is made of them."""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.datafiles import as_path
from neuralrace.errors import FileFormatError, TaskError, in_one_line, require_name, shortened
from neuralrace.tasks.images.files import ARRAYS, find_file, read_arrays, read_cifar, read_features, read_idx

CLASSES = 10
HELD_OUT = 360  # of the 1,797 digits
TEST = 10_000  # the last so many images of an OpenML data set are its test set, as published
OPENML = {"mnist": "mnist_784", "fashion": "Fashion-MNIST", "cifar10": "CIFAR_10"}
FOLDERS = {"mnist": ("mnist",), "fashion": ("fashion", "fashion-mnist"), "cifar10": ("cifar10", "cifar-10-batches-bin")}

Folder = str | os.PathLike[str] | None
Place = Path | None


@dataclass(frozen=True, eq=False)
class Images:
    """Images, one flattened in each row, as bytes or numbers that `scale` brings to [0, 1]; shape: of one image.

    Images with one more axis in front are those of each domain, ready made.
    """

    name: str
    images: np.ndarray  # (N, pixels) or (M, N, pixels)
    labels: np.ndarray  # (N,)
    test_images: np.ndarray
    test_labels: np.ndarray
    shape: tuple[int, ...]
    scale: float
    classes: int = CLASSES

    def __post_init__(self) -> None:
        for kind, rows, labels in (
            ("training", self.images, self.labels),
            ("test", self.test_images, self.test_labels),
        ):
            if rows.shape[-2] != len(labels):
                raise TaskError(
                    f"{self.name} must have one label per {kind} image; it has {rows.shape[-2]} images and "
                    f"{len(labels)} labels"
                )
            if not len(labels):
                raise TaskError(f"{self.name} must have at least one {kind} image; it has none")
            if labels.max() >= self.classes or labels.min() < 0:
                raise TaskError(
                    f"the labels of {self.name} must be from 0 to {self.classes - 1}; a {kind} label is "
                    f"{labels.max() if labels.max() >= self.classes else labels.min()}"
                )


def base_images(data: Any, folder: Folder) -> Images:
    """A base data set by its name, or from arrays."""
    if isinstance(data, Images):
        return data
    if isinstance(data, Mapping):
        return _from_arrays("the given arrays", data)
    if not isinstance(data, str):
        raise TaskError(
            f"data must be the name of a data set, or a mapping with {', '.join(ARRAYS)}; it was {shortened(data)}"
        )
    read = READERS[require_name("data", data, READERS)]
    if folder is not None and data == "digits":
        raise TaskError("digits come with scikit-learn and are read from no folder: name other data, or give no folder")
    return read(None if folder is None else as_path("folder", folder, "a folder"))


def _digits(folder: Place) -> Images:
    from sklearn.datasets import load_digits  # a second of imports

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))  # writers follow one another in the file
    rows, labels = found.data.astype(np.uint8)[order], found.target[order]
    return Images("digits", rows[HELD_OUT:], labels[HELD_OUT:], rows[:HELD_OUT], labels[:HELD_OUT], (1, 8, 8), 1 / 16)


def _idx(name: str) -> Callable[[Place], Images]:
    def read(folder: Place) -> Images:
        if folder is None:
            return _from_openml(name, (1, 28, 28))
        place = _inside(folder, name)
        parts = {}
        for part in ("train", "t10k"):
            for kind, axes in (("images-idx3", 3), ("labels-idx1", 1)):
                stem = f"{part}-{kind}-ubyte"
                path = find_file(place, (stem, f"{stem}.gz"))
                parts[part, axes] = read_idx(path, axes)
        images, tests = parts["train", 3], parts["t10k", 3]
        if images.shape[1:] != tests.shape[1:]:
            raise FileFormatError(
                f"training and test images in {place} must have one size; they have {images.shape[1:]} and "
                f"{tests.shape[1:]}"
            )
        return Images(
            name,
            images.reshape(len(images), -1),
            parts["train", 1],
            tests.reshape(len(tests), -1),
            parts["t10k", 1],
            (1, *images.shape[1:]),
            1 / 255,
        )

    return read


def _cifar10(folder: Place) -> Images:
    if folder is None:
        return _from_openml("cifar10", (3, 32, 32))
    place = _inside(folder, "cifar10")
    found = [read_cifar(find_file(place, (f"data_batch_{number}.bin",))) for number in range(1, 6)]
    counts = [len(labels) for _, labels in found]
    if len(set(counts)) > 1:
        raise FileFormatError(
            f"the five files data_batch in {place} must hold as many images each; they hold "
            f"{', '.join(map(str, counts))}: one was cut short"
        )
    tests, test_labels = read_cifar(find_file(place, ("test_batch.bin",)))
    images = np.concatenate([rows.reshape(len(rows), -1) for rows, _ in found])
    labels = np.concatenate([labels for _, labels in found])
    return Images("cifar10", images, labels, tests.reshape(len(tests), -1), test_labels, (3, 32, 32), 1 / 255)


def _arrays(folder: Place) -> Images:
    if folder is None:
        raise FileFormatError("data='arrays' needs folder, the name of an .npz with " + ", ".join(ARRAYS))
    return _from_arrays(str(folder), read_arrays(folder))


def _features(folder: Place) -> Images:
    if folder is None:
        raise FileFormatError("data='features' needs folder, where the script of CIFAR's features has written")
    return _from_arrays("features", read_features(folder))


def _from_arrays(name: str, given: Mapping[str, Any]) -> Images:
    """images (N, ...) or (M, N, features), labels (N,), test_images and test_labels likewise."""
    missing = [part for part in ARRAYS if part not in given]
    if missing:
        raise TaskError(f"{name} must hold {', '.join(ARRAYS)}; {', '.join(missing)} is missing")
    images, tests = np.asarray(given["images"]), np.asarray(given["test_images"])
    labels, test_labels = (np.asarray(given[part]) for part in ("labels", "test_labels"))
    for part, array in given.items():
        if part in ARRAYS and np.asarray(array).dtype.kind not in "fiu":
            raise TaskError(f"{part} of {name} must be numbers; they are of type {np.asarray(array).dtype}")
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
    return Images(
        name,
        images.reshape(*lead, -1),
        labels,
        tests.reshape(*tests.shape[: len(lead)], -1),
        test_labels,
        shape,
        scale,
        int(max(labels.max(initial=0), test_labels.max(initial=0))) + 1,
    )


def _inside(folder: Path, name: str) -> Path:
    """The folder itself, or the one in it that has the name of the data set."""
    inner = (folder / known for known in FOLDERS[name])
    return next((place for place in inner if place.is_dir()), folder)


def _from_openml(name: str, shape: tuple[int, ...]) -> Images:
    from sklearn.datasets import fetch_openml

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


READERS: dict[str, Callable[[Place], Images]] = {
    "digits": _digits,
    "mnist": _idx("mnist"),
    "fashion": _idx("fashion"),
    "cifar10": _cifar10,
    "features": _features,
    "arrays": _arrays,
}
