"""A training on disk while it runs, so that one killed at any moment goes on and ends with the same bytes."""

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

from neuralrace._engine.devices import padded, spread
from neuralrace.archives import read_archive
from neuralrace.datafiles import write_whole
from neuralrace.errors import FileFormatError
from neuralrace.training.loop import Training

FORMAT = 2
SECONDS = 10.0  # between two writings,
SHARE = 20  # or so many times as long as a writing takes


@dataclass
class Checkpoint:
    """Writes a training's weights, rule state and records beside its own name, and then in place of the old ones.

    identity: what the training is, in plain values; a file that says otherwise is refused.
    """

    path: Path
    identity: Mapping[str, Any]
    _written: float = field(default_factory=time.monotonic)
    _took: float = 0.0

    def due(self) -> bool:
        """Whether the last writing is long ago."""
        return time.monotonic() - self._written > max(SECONDS, SHARE * self._took)

    def look(self, training: Training) -> bool:
        """Write; never ends the training."""
        began = time.monotonic()
        memory = training.memory
        leaves = jax.tree.leaves(training.state)
        arrays = {f"state {i}": np.asarray(leaf)[: memory.seeds] for i, leaf in enumerate(leaves)}
        arrays |= {f"record {name}": array for name, array in memory.arrays.items()}
        arrays["curve"] = np.concatenate(memory.curve)
        arrays["place"] = np.array([training.next, memory.filled, len(training.schedule.looks)])
        arrays["identity"] = np.array(self._stamp())

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
        found = _read(self.path)
        leaves, structure = jax.tree.flatten(training.state)
        needed = {"identity", "curve", "place", *(f"state {i}" for i in range(len(leaves)))}
        if not needed <= set(found) or str(found["identity"]) != self._stamp():
            raise FileFormatError(
                f"{self.path} is the checkpoint of another training (other network, data, weights, settings or "
                f"version): give another name, or remove it to start anew"
            )
        state = jax.tree.unflatten(structure, [found[f"state {i}"] for i in range(len(leaves))])
        training.state = spread(padded(state, len(training.keys)))
        memory = training.memory
        memory.arrays = {n.removeprefix("record "): a for n, a in found.items() if n.startswith("record ")}
        memory.curve = [found["curve"]]
        training.next, memory.filled, looks = (int(number) for number in found["place"])
        if looks < len(training.schedule.looks):  # it had come to rest, and so ends early
            training.schedule = training.schedule.until(looks - 1)

    def _stamp(self) -> str:
        return json.dumps({"format": FORMAT, **self.identity}, sort_keys=True)


def digest(arrays: Mapping[Any, np.ndarray]) -> str:
    """A short name for the exact contents of some arrays."""
    found = hashlib.sha256()
    for name, array in arrays.items():
        found.update(f"{name}{array.shape}{array.dtype}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:32]


def _read(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file; nothing in it is executed, and its checksums are checked as it is read."""
    try:
        found = read_archive(path, path.stat().st_size)  # nothing in it is compressed
    except (OSError, FileFormatError) as error:
        raise FileFormatError(
            f"{path} is not a readable checkpoint ({error}): remove it to start the training anew"
        ) from None
    return {name: array.copy() for name, array in found.items()}  # records are written into
