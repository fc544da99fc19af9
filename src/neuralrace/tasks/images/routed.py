"""Images in M input and M output domains, of which some pairs are trained (P1 section 5)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from neuralrace.errors import (
    RangeError,
    TaskError,
    require_count,
    require_name,
    require_number,
)
from neuralrace.tasks.images.base import Folder, Images, base_images
from neuralrace.tasks.images.domains import label_permutations, pixel_permutations, rotations, transformed
from neuralrace.tasks.pairs import trained_pairs

INPUTS, OUTPUTS = ("permuted", "rotated", "plain", "given"), ("permuted", "plain")
DEGREES = 270.0  # of P1's code; its text says 180


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


def routed_images(
    data: Any = "digits",
    domains: int = 10,
    trained: int = 4,
    inputs: str = "permuted",
    outputs: str = "permuted",
    folder: Folder = None,
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


def check_pairs(pairs: Any, domains: int) -> np.ndarray:
    """Given pairs: booleans (M, M), at least one of them."""
    found = np.asarray(pairs)
    if found.shape != (domains, domains) or found.dtype != bool:
        raise TaskError(f"pairs must be booleans ({domains}, {domains}); they are {found.dtype} {found.shape}")
    if not found.any():
        raise TaskError("at least one pair must be trained; none is")
    return found


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
