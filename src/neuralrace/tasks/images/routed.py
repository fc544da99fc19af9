"""Images in M input and M output domains, of which some pairs are trained (P1 section 5).

Transformations of images and labels are index maps, so that a domain is a gather that is made when it is needed.
"""

import itertools
import math
from typing import Any

import numpy as np

from neuralrace.errors import RangeError, TaskError, require_count, require_name, require_number
from neuralrace.images import Images, RoutedImages, check_pairs
from neuralrace.tasks.images.base import ImageFolder, base_images
from neuralrace.tasks.pairs import trained_pairs

INPUTS, OUTPUTS = ("permuted", "rotated", "plain", "given"), ("permuted", "plain")
DEGREES = 270.0  # of P1's code; its text says 180


def routed_images(
    data: Any = "digits",
    domains: int = 10,
    trained: int = 4,
    inputs: str = "permuted",
    outputs: str = "permuted",
    folder: ImageFolder = None,
    *,
    pairs: Any = "circulant",
    degrees: float = DEGREES,
    key: int = 0,
) -> RoutedImages:
    """Images routed from any of M input domains to any of M output domains, of which some pairs are trained.

    data: "digits" (embedded in scikit-learn), "mnist", "fashion", "cifar10", "features", "arrays", or a mapping with
    images, labels, test_images and test_labels; images (M, N, features) are those of each domain, ready made, and
    inputs is then "given". folder: where the published files are (IDX plain or .gz; CIFAR-10's binary version; what the
    script of CIFAR's features wrote; for "arrays" an .npz); None: they are fetched from OpenML. domains: M. trained: K,
    output domains per input domain. inputs: "permuted" pixels, "rotated" by degrees * i / M, or "plain". outputs:
    "permuted" labels, the first M permutations in lexicographic order, or "plain". pairs: how the trained pairs are
    chosen, by name, or as booleans (M, M). key: of all that is random here.
    """
    count = require_count("domains", domains, least=2)
    for name, value, known in (("inputs", inputs, INPUTS), ("outputs", outputs, OUTPUTS)):
        require_name(name, value, known)
    degrees = require_number("degrees", degrees, above=0, most=360)
    if isinstance(pairs, str):
        chosen, how = trained_pairs(pairs, count, trained, key), pairs
    else:
        chosen, how = check_pairs(pairs, count), "given"
    base = base_images(data, folder)
    ready = base.images.ndim == 3
    if ready and len(base.images) != count:
        raise TaskError(f"{base.name} has the images of {len(base.images)} domains; {count} were asked for")
    if inputs == "given" and not ready:
        raise TaskError(
            f"inputs='given' needs images of each domain, (M, N, features); {base.name} has {base.images.shape}"
        )
    settings = {
        "data": base.name,
        "domains": count,
        "trained": int(chosen.sum(axis=1).max()),
        "inputs": "given" if ready else inputs,
        "outputs": outputs,
        "pairs": how,
        "degrees": degrees,
        "key": key,
    }
    return RoutedImages(
        base,
        chosen,
        None if ready else _input_maps(base, inputs, count, degrees, key),
        label_permutations(base.classes, count) if outputs == "permuted" else None,
        settings,
    )


def _input_maps(base: Images, inputs: str, domains: int, degrees: float, key: int) -> np.ndarray | None:
    if inputs == "permuted":
        return pixel_permutations(base.images.shape[-1], domains, key)
    if inputs == "rotated":
        if len(base.shape) != 3:
            raise TaskError(
                f"rotation needs images, (rows, columns) or (planes, rows, columns); {base.name} are {base.shape}"
            )
        return rotations(base.shape, domains, degrees)
    return None


def rotations(shape: tuple[int, ...], domains: int, degrees: float) -> np.ndarray:
    """Where each pixel of a rotated image comes from, (domains, pixels); pixels that come from outside: `pixels`.

    Domain i is turned counter-clockwise by degrees * i / domains about the middle of the image; the nearest pixel is
    taken. Color planes, (planes, rows, columns), turn together.
    """
    planes, rows, columns = shape
    row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    y, x = row - (rows - 1) / 2, column - (columns - 1) / 2
    maps = np.empty((domains, planes, rows, columns), dtype=np.int32)
    for domain in range(domains):
        angle = math.radians(degrees * domain / domains)
        # the turned image at (x, y) shows the old one at the place that turns there
        from_x = np.cos(angle) * x - np.sin(angle) * y
        from_y = np.sin(angle) * x + np.cos(angle) * y
        # rounding first makes quarter turns exact
        old_row = np.floor(np.round(from_y + (rows - 1) / 2, 9) + 0.5).astype(int)
        old_column = np.floor(np.round(from_x + (columns - 1) / 2, 9) + 0.5).astype(int)
        inside = (old_row >= 0) & (old_row < rows) & (old_column >= 0) & (old_column < columns)
        flat = rows * columns * np.arange(planes)[:, None, None] + old_row * columns + old_column
        maps[domain] = np.where(inside, flat, planes * rows * columns)
    return maps.reshape(domains, -1)


def pixel_permutations(pixels: int, domains: int, key: int) -> np.ndarray:
    """A random order of the pixels for each domain, (domains, pixels); the first domain is as it was."""
    random = np.random.default_rng([key, pixels])
    orders = [np.arange(pixels), *(random.permutation(pixels) for _ in range(domains - 1))]
    return np.stack(orders).astype(np.int32)


def label_permutations(classes: int, domains: int) -> np.ndarray:
    """The first permutations of the labels in lexicographic order, (domains, classes): old label -> new label."""
    if domains > math.factorial(classes):
        raise RangeError(
            f"{classes} classes have {math.factorial(classes)} permutations; {domains} domains were asked for: use "
            f"outputs='plain'"
        )
    return np.array(list(itertools.islice(itertools.permutations(range(classes)), domains)), dtype=np.int32)
