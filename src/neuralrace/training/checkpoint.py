"""A training on disk while it runs, so that one killed at any moment resumes and ends with the same bytes."""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from neuralrace._engine.devices import shard
from neuralrace.errors import FileFormatError
from neuralrace.io import read_archive, write_whole
from neuralrace.training.loop import Training

SECONDS = 10.0  # between two writings, or 20 times as long as a writing takes


@dataclass
class Checkpoint:
    """Writes a training's weights, rule state and records beside its file, and then in place of it.

    identity: a hash of all that the training depends on; a file with another one is refused.
    """

    path: Path
    identity: str
    _written: float = field(default_factory=time.monotonic)
    _took: float = 0.0

    def __call__(self, training: Training) -> bool:
        """Write if the last writing is long ago or the training is finished; never ends the training."""
        began = time.monotonic()
        if not training.finished and began - self._written <= max(SECONDS, 20 * self._took):
            return False
        leaves = jax.tree.leaves(training.state)
        arrays = {f"state {i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        arrays |= {f"record {name}": array for name, array in training.arrays.items()}
        arrays["curve"] = np.concatenate(training.curve)
        arrays["place"] = np.array([training.next, training.filled, len(training.schedule.steps)])
        arrays["identity"] = np.array(self.identity)

        def write(part: Path) -> None:
            with part.open("wb") as file:
                np.savez(file, allow_pickle=False, **arrays)

        write_whole(self.path, write)
        self._written = time.monotonic()
        self._took = self._written - began
        return False

    def resume(self, training: Training) -> None:
        """Put a training where its file left it; without a file it stays at its start."""
        if not os.path.lexists(self.path):
            return
        try:
            found = read_archive(self.path)
        except FileFormatError as error:
            raise FileFormatError(
                f"{self.path} is not a readable checkpoint ({error}): remove it to start the training anew"
            ) from None
        leaves, structure = jax.tree.flatten(training.state)
        needed = {"identity", "curve", "place", *(f"state {i}" for i in range(len(leaves)))}
        if not needed <= set(found) or str(found["identity"]) != self.identity:
            raise FileFormatError(
                f"{self.path} is the checkpoint of another training (other network, data, weights, settings or "
                f"version): give another name, or remove it to start anew"
            )
        state = jax.tree.unflatten(structure, [found[f"state {i}"] for i in range(len(leaves))])
        training.state = shard(state)
        records = {name.removeprefix("record "): array for name, array in found.items() if name.startswith("record ")}
        training.arrays = {name: array.copy() for name, array in records.items()}  # they are written into
        training.curve = [found["curve"].copy()]
        training.next, training.filled, evaluations = (int(number) for number in found["place"])
        if evaluations < len(training.schedule.steps):  # it was ended early
            training.schedule = training.schedule.until(evaluations - 1)


def digest(settings: Mapping[str, Any], arrays: Mapping[Any, np.ndarray]) -> str:
    """Hash plain settings and the exact contents of arrays."""
    found = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, array in arrays.items():
        found.update(f"{name}{array.shape}{array.dtype}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
