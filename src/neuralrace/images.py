"""Images in many input and output domains, of which some pairs are trained: what routed networks learn."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuralrace.errors import RangeError, TaskError


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
    classes: int = 10

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


@dataclass(frozen=True, eq=False)
class RoutedImages:
    """Base images with M ways to transform them and M ways to name them, and which pairs of the two are trained.

    Nothing is transformed until it is asked for: `inputs_of(i)` and `targets_of(j)` make one domain. input_maps and
    label_maps are index maps, (M, pixels) and (M, classes); None: as it is. pairs: (M, M), which pairs of an input and
    an output domain are trained.
    """

    base: Images
    pairs: np.ndarray
    input_maps: np.ndarray | None
    label_maps: np.ndarray | None
    settings: Mapping[str, Any]

    def __repr__(self) -> str:
        base = self.base
        held, how = len(base.test_labels), self.settings
        return (
            f"RoutedImages({base.name}: {len(self)} training and {held} test images of {base.images.shape[-1]} "
            f"numbers, {self.domains} x {self.domains} domains, inputs {how['inputs']}, outputs {how['outputs']}, "
            f"{int(self.pairs.sum())} of {self.pairs.size} pairs trained)"
        )

    def __len__(self) -> int:
        """The number of base images that training sees, each in every domain."""
        return len(self.base.labels)

    @property
    def domains(self) -> int:
        """M."""
        return len(self.pairs)

    @property
    def untrained(self) -> np.ndarray:
        """Which pairs are never trained, (M, M)."""
        return ~self.pairs

    @property
    def shown(self) -> np.ndarray | None:
        """The index maps that training needs: those that no choice of gauge removes.

        A permutation of pixels is absorbed by the columns of its encoder and one of labels by the rows of its decoder,
        and the law of independent first weights is the same after either. So a network on permuted images is, in law
        and weight for weight, one on plain images, and is trained there.
        """
        return self.input_maps if self.settings["inputs"] == "rotated" else None

    def inputs_of(self, domain: int, *, test: bool = False) -> np.ndarray:
        """The images of one input domain, (N, pixels), in [0, 1]."""
        self._check(domain)
        rows = self.base.test_images if test else self.base.images
        if rows.ndim == 3:
            rows = rows[domain]
        if self.input_maps is not None:
            rows = transformed(rows, self.input_maps[domain])
        return rows * self.base.scale

    def targets_of(self, domain: int, *, test: bool = False) -> np.ndarray:
        """The labels of one output domain, (N,)."""
        self._check(domain)
        labels = self.base.test_labels if test else self.base.labels
        return np.asarray(labels if self.label_maps is None else self.label_maps[domain][labels])

    def with_pairs(self, pairs: np.ndarray) -> "RoutedImages":
        """The same domains with other trained pairs."""
        return replace(self, pairs=check_pairs(pairs, self.domains), settings={**self.settings, "pairs": "given"})

    def _check(self, domain: int) -> None:
        if not 0 <= domain < self.domains:
            raise RangeError(f"a domain must be from 0 to {self.domains - 1}; it was {domain}")


def check_pairs(pairs: Any, domains: int) -> np.ndarray:
    """Given pairs: booleans (M, M), at least one of them."""
    found = np.asarray(pairs)
    if found.shape != (domains, domains) or found.dtype != bool:
        raise TaskError(f"pairs must be booleans ({domains}, {domains}); they are {found.dtype} {found.shape}")
    if not found.any():
        raise TaskError("at least one pair must be trained; none is")
    return found


def transformed(rows: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Images, one in each row, after an index map; what comes from outside is zero."""
    beyond = np.zeros((*rows.shape[:-1], 1), dtype=rows.dtype)
    return np.concatenate([rows, beyond], axis=-1)[..., where]
