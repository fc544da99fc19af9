"""Transformations of images and labels as index maps, so that a domain is a gather that is made when it is needed."""

import itertools
import math

import numpy as np

from neuralrace.errors import RangeError


def rotations(shape: tuple[int, ...], domains: int, degrees: float) -> np.ndarray:
    """Where each pixel of a rotated image comes from, (domains, pixels); pixels that come from outside: `pixels`.

    Domain i is turned counter-clockwise by degrees * i / domains about the middle of the image; the nearest pixel is
    taken. Colour planes, (planes, rows, columns), turn together.
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
        flat = old_row * columns + old_column
        for plane in range(planes):
            maps[domain, plane] = np.where(inside, plane * rows * columns + flat, planes * rows * columns)
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
