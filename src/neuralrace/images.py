"""Images in many input and output domains, of which some pairs are trained: the task of routed networks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuralrace.errors import TaskError, require_place


@dataclass(frozen=True, eq=False)
class RoutedImages:
    """Base images with M transformations and M labelings, and which pairs of the two are trained.

    Images are stored as bytes or numbers that `scale` brings to [0, 1], one flattened image per row, (N, pixels), or as
    (M, N, features) with the images of each domain. Domains are made on demand, by `inputs_of(i)` and `targets_of(j)`.

    **Permutations are a gauge.** A permutation of pixels is absorbed by the columns of its encoder and one of labels by
    the rows of its decoder, and the distribution of independent initial weights does not change under either. So a
    network on permuted images is, weight for weight, one on plain images, and is trained on those.
    """

    images: np.ndarray
    labels: np.ndarray  # (N,)
    test_images: np.ndarray
    test_labels: np.ndarray
    scale: float
    classes: int
    pairs: np.ndarray  # (M, M) booleans: input domain, output domain
    input_maps: np.ndarray | None  # (M, pixels), where each pixel comes from; `pixels`: from outside. None: as stored
    label_maps: np.ndarray | None  # (M, classes), old label -> new label
    settings: Mapping[str, Any]

    def __repr__(self) -> str:
        how = ", ".join(f"{name} {self.settings[name]}" for name in ("inputs", "outputs"))
        return (
            f"RoutedImages({self.settings['data']}: {len(self)} training and {len(self.test_labels)} test images of "
            f"{self.images.shape[-1]} numbers, {how}, {int(self.pairs.sum())} of {self.pairs.size} pairs trained)"
        )

    def __len__(self) -> int:
        """The number of base images that training sees, each in every domain."""
        return len(self.labels)

    @property
    def domains(self) -> int:
        """M."""
        return len(self.pairs)

    @property
    def trained_maps(self) -> np.ndarray | None:
        """The index maps that training applies: rotations, since permutations are a gauge."""
        return self.input_maps if self.settings["inputs"] == "rotated" else None

    def inputs_of(self, domain: int, *, test: bool = False) -> np.ndarray:
        """Return the images of one input domain, (N, pixels), in [0, 1]."""
        rows = self.test_images if test else self.images
        require_place("domain", domain, self.domains)
        if rows.ndim == 3:
            rows = rows[domain]
        if self.input_maps is not None:
            dark = np.zeros((len(rows), 1), dtype=rows.dtype)
            rows = np.concatenate([rows, dark], axis=1)[:, self.input_maps[domain]]
        return rows * self.scale

    def targets_of(self, domain: int, *, test: bool = False) -> np.ndarray:
        """Return the labels of one output domain, (N,)."""
        labels = self.test_labels if test else self.labels
        require_place("domain", domain, self.domains)
        return np.asarray(labels if self.label_maps is None else self.label_maps[domain][labels])

    def with_pairs(self, pairs: Any) -> "RoutedImages":
        """Return the same domains with other trained pairs: booleans (M, M), at least one of them true."""
        return replace(self, pairs=check_pairs(pairs, self.domains), settings={**self.settings, "pairs": "given"})


def check_pairs(pairs: Any, domains: int) -> np.ndarray:
    """Return given pairs after checking that they are booleans (M, M), at least one of them true."""
    found = np.asarray(pairs)
    if found.shape != (domains, domains) or found.dtype != bool:
        raise TaskError(f"pairs must be booleans ({domains}, {domains}); they are {found.dtype} {found.shape}")
    if not found.any():
        raise TaskError("at least one pair must be trained; none is")
    return found
