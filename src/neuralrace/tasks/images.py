"""Images in M input and M output domains, of which some pairs are trained (P1 section 5).

The images come with scikit-learn, or from files as published. Nothing in a file is executed.
"""

import gzip
import math
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace.errors import (
    FileFormatError,
    TaskError,
    require_count,
    require_name,
    require_number,
    require_place,
    shortened,
)
from neuralrace.io import as_path
from neuralrace.tasks.pairs import trained_pairs

LARGEST = 1 << 31  # bytes of one file, unpacked; the published ones have at most 47 million
ARRAYS = ("images", "labels", "test_images", "test_labels")


@dataclass(frozen=True, eq=False)
class RoutedImages:
    """Base images in M input and M output domains, and which pairs of the two are trained.

    Images are stored as bytes or numbers that `scale` brings to [0, 1], one flattened image per row, (N, pixels), or as
    (M, N, features) with the images of each domain. Rotated domains are made on demand, by `inputs_of(i)`.

    **Permutations are a gauge.** A permutation of pixels is absorbed by the columns of its encoder and one of labels by
    the rows of its decoder, and the distribution of independent initial weights does not change under either. So a
    network on permuted images is, weight for weight, one on plain images, and permuted domains are stored as plain.
    """

    images: np.ndarray
    labels: np.ndarray  # (N,)
    test_images: np.ndarray
    test_labels: np.ndarray
    scale: float
    classes: int
    pairs: np.ndarray  # (M, M) booleans: input domain, output domain
    maps: np.ndarray | None  # (M, pixels), where each pixel comes from; `pixels`: from outside. None: as stored
    settings: Mapping[str, Any]

    def __repr__(self) -> str:
        return (
            f"RoutedImages({self.settings['data']}: {len(self)} training and {len(self.test_labels)} test images of "
            f"{self.images.shape[-1]} numbers, inputs {self.settings['inputs']}, {int(self.pairs.sum())} of "
            f"{self.pairs.size} pairs trained)"
        )

    def __len__(self) -> int:
        """The number of base images that training sees, each in every domain."""
        return len(self.labels)

    @property
    def domains(self) -> int:
        """M."""
        return len(self.pairs)

    def inputs_of(self, domain: int, *, test: bool = False) -> np.ndarray:
        """Return the images of one input domain, (N, pixels), in [0, 1]."""
        require_place("domain", domain, self.domains)
        rows = self.test_images if test else self.images
        if self.maps is not None:
            rows = np.pad(rows, ((0, 0), (0, 1)))[:, self.maps[domain]]  # dark outside
        return (rows[domain] if rows.ndim == 3 else rows) * self.scale

    @property
    def test(self) -> "RoutedImages":
        """The test images in the same domains, to evaluate networks on."""
        return replace(self, images=self.test_images, labels=self.test_labels)

    def with_pairs(self, pairs: Any) -> "RoutedImages":
        """Return the same domains with other pairs: booleans (M, M); at least one of them is true for training."""
        chosen = _check_pairs(pairs, self.domains, least=0)
        return replace(self, pairs=chosen, settings={**self.settings, "pairs": "given"})


def routed_images(
    data: Any = "digits",
    domains: int = 10,
    trained: int = 4,
    inputs: str = "permuted",
    folder: str | os.PathLike[str] | None = None,
    *,
    pairs: Any = "circulant",
    degrees: float = 270.0,
    key: int = 0,
) -> RoutedImages:
    """Route images from any of M input domains to any of M output domains, of which some pairs are trained.

    data: "digits" (embedded in scikit-learn), "mnist", "fashion", "features", or a mapping with images, labels,
    test_images and test_labels; images (M, N, features) are those of each domain, and inputs is then "given". folder:
    where the published files are (IDX, plain or .gz; for "features" an .npy for each array). domains: M. trained: K,
    output domains per input domain. inputs: "permuted" pixels, as plain ones, or "rotated" by degrees * i / M (270 in
    P1's code, 180 in its text). Labels are permuted too, as plain ones. pairs: the trained pairs, by name (see
    `tasks.pairs`) or as booleans (M, M). key: decides random pairs.
    """
    count = require_count("domains", domains, least=2)
    require_name("inputs", inputs, ("permuted", "rotated", "given"))
    degrees = require_number("degrees", degrees, above=0, most=360)
    named = isinstance(pairs, str)
    chosen = trained_pairs(pairs, count, trained, key) if named else _check_pairs(pairs, count)
    name = data if isinstance(data, str) else "the given arrays"
    arrays = _check_arrays(name, data if isinstance(data, Mapping) else _read(data, folder))
    images, by_domain = arrays["images"], len(arrays["images"]) != len(arrays["labels"])
    if by_domain and len(images) != count:
        raise TaskError(f"{name} has the images of {len(images)} domains; {count} are required")
    if not by_domain and (inputs == "given" or (inputs == "rotated" and images.ndim != 3)):
        needed = "(M, N, features)" if inputs == "given" else "(N, rows, columns)"
        raise TaskError(f"inputs={inputs!r} needs images of shape {needed}; those of {name} are {images.shape}")
    inputs = "given" if by_domain else inputs
    if not by_domain:
        arrays |= {part: arrays[part].reshape(len(arrays[part]), -1) for part in ("images", "test_images")}
    settings = {"data": name, "domains": count, "trained": int(chosen.sum(axis=1).max()), "inputs": inputs}
    return RoutedImages(
        **arrays,
        scale=1 / 16 if name == "digits" else 1 / 255 if images.dtype == np.uint8 else 1.0,
        classes=int(max(arrays["labels"].max(), arrays["test_labels"].max())) + 1,
        pairs=chosen,
        maps=rotations(images.shape[1:], count, degrees) if inputs == "rotated" else None,
        settings=settings | {"pairs": pairs if named else "given", "degrees": degrees, "key": key},
    )


def rotations(shape: tuple[int, ...], domains: int, degrees: float) -> np.ndarray:
    """Return where each pixel of a rotated image comes from, (domains, pixels); `pixels` if from outside the image.

    Domain i is turned counter-clockwise by degrees * i / domains about the center, to the nearest pixel. shape:
    (rows, columns).
    """
    rows, columns = shape
    row, column = np.indices((rows, columns))
    y, x = row - (rows - 1) / 2, column - (columns - 1) / 2
    maps = np.empty((domains, rows * columns), dtype=np.int32)
    for domain in range(domains):
        angle = math.radians(degrees * domain / domains)
        from_y, from_x = np.sin(angle) * x + np.cos(angle) * y, np.cos(angle) * x - np.sin(angle) * y
        old_row = np.floor(np.round(from_y + (rows - 1) / 2, 9) + 0.5).astype(int)
        old_column = np.floor(np.round(from_x + (columns - 1) / 2, 9) + 0.5).astype(int)
        inside = (old_row >= 0) & (old_row < rows) & (old_column >= 0) & (old_column < columns)
        maps[domain] = np.where(inside, old_row * columns + old_column, rows * columns).ravel()
    return maps


def _check_pairs(pairs: Any, domains: int, least: int = 1) -> np.ndarray:
    """Return given pairs after checking that they are booleans (M, M), at least `least` of them true."""
    found = np.asarray(pairs)
    if found.shape != (domains, domains) or found.dtype != bool or found.sum() < least:
        raise TaskError(
            f"pairs must be booleans ({domains}, {domains}), at least {least} of them true; they are {found.dtype} "
            f"{found.shape}"
        )
    return found


def _check_arrays(name: str, given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Check images (N, ...) or (M, N, features), labels (N,), test_images and test_labels likewise."""
    if missing := [part for part in ARRAYS if part not in given]:
        raise TaskError(f"{name} must hold {', '.join(ARRAYS)}; {', '.join(missing)} is missing")
    arrays = {part: np.asarray(given[part]) for part in ARRAYS}
    images, labels, tests, test_labels = arrays.values()
    lead = 2 if images.ndim == 3 and images.shape[1:2] == labels.shape != images.shape[:1] else 1
    if images.ndim < 2 or images.ndim != tests.ndim or images.shape[lead:] != tests.shape[lead:]:
        raise TaskError(
            f"training and test images of {name} must be one per row and of one size; their shapes are {images.shape} "
            f"and {tests.shape}"
        )
    for rows, own in ((images, labels), (tests, test_labels)):
        if rows.dtype.kind not in "fiu" or (rows.dtype.kind == "f" and not np.isfinite(rows).all()):
            raise TaskError(f"images of {name} must be finite numbers; they are of type {rows.dtype}")
        if own.shape != rows.shape[lead - 1 : lead] or own.dtype.kind not in "iu" or not len(own) or own.min() < 0:
            raise TaskError(
                f"{name} must have one whole number from 0 as label per image, and at least one; it has images "
                f"{rows.shape} and labels {own.dtype} {own.shape}"
            )
    return arrays


def _read(data: Any, folder: Any) -> dict[str, np.ndarray]:
    """Read the arrays of a data set by its name."""
    if not isinstance(data, str):
        raise TaskError(
            f"data must be the name of a data set, or a mapping with {', '.join(ARRAYS)}; {shortened(data)}"
        )
    require_name("data", data, ("digits", "mnist", "fashion", "features"))
    if data == "digits":
        if folder is not None:
            raise TaskError("digits come with scikit-learn and are read from no folder: name other data, or no folder")
        from sklearn.datasets import load_digits  # a second of imports

        stored = load_digits()
        order = np.random.default_rng(0).permutation(len(stored.target))  # writers follow one another in the file
        rows, labels = stored.images.astype(np.uint8)[order], stored.target[order]
        return dict(zip(ARRAYS, (rows[360:], labels[360:], rows[:360], labels[:360]), strict=True))
    if folder is None:
        raise FileFormatError(f"data={data!r} needs folder=..., the folder of its files as they were published")
    place = as_path("folder", folder, "a folder")
    place = place / data if (place / data).is_dir() else place
    stems = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    found = {}
    for name, stem in zip(ARRAYS, stems, strict=True):
        known = [f"{name}.npy"] if data == "features" else [stem, f"{stem}.gz"]
        source = next((place / file for file in known if (place / file).is_file()), None)
        if source is None:
            raise FileFormatError(f"the folder {place} must hold {' or '.join(known)}; it does not")
        try:
            # images of features stay on disk until they are used
            mode: Any = "r" if "images" in name else None
            found[name] = np.load(source, mode, allow_pickle=False) if data == "features" else _read_idx(source)
        except (OSError, ValueError, EOFError, zlib.error) as error:
            raise FileFormatError(f"{source} is not a readable file of arrays ({shortened(error, 120)})") from None
    return found


def _read_idx(source: Path) -> np.ndarray:
    """Read an IDX file of unsigned bytes, plain or .gz: two zeros, 8 for bytes, the number of axes, sizes, content."""
    with gzip.open(source, "rb") if source.suffix == ".gz" else source.open("rb") as file:
        content = file.read(LARGEST)
    axes = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    if axes not in (1, 3):
        raise ValueError(f"it must start with 00 00 08 and one or three axes, and starts with {content[:4].hex(' ')}")
    sizes = np.frombuffer(content, ">u4", axes, offset=4).astype(int)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(sizes)
