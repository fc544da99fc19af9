"""Checkpoints as files: one .npz or .safetensors for each moment, with its step in the name. Nothing is executed."""

import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from neuralrace.archives import read_archive
from neuralrace.errors import FileFormatError
from neuralrace.memory import in_bytes

KINDS = (".npz", ".safetensors")
MOST_BYTES = 2**31  # of the arrays of one file
STEP = re.compile(r"(\d+)\D*$")  # the last number of a name


class Saved(NamedTuple):
    """The checkpoints of one network, in the order of their steps; arrays by name, as the file has them."""

    steps: tuple[int, ...]
    arrays: tuple[dict[str, np.ndarray], ...]


def read_folder(folder: str | os.PathLike[str]) -> tuple[Saved, ...]:
    """Read all checkpoints of a folder: of one network, or of several, each in a folder of its own."""
    place = Path(folder)
    if not place.is_dir():
        raise FileFormatError(f"a folder with checkpoints is required; there is no folder {place}")
    if _files(place):
        return (_read_network(place),)
    inner = sorted(path for path in place.iterdir() if path.is_dir() and _files(path))
    if not inner:
        raise FileFormatError(
            f"{place} must hold checkpoints as .npz or .safetensors files, or folders of them, one for each network; "
            "it holds none"
        )
    return tuple(_read_network(path) for path in inner)


def read_weights(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of one .npz or .safetensors file."""
    source = Path(path)
    if not source.is_file():
        raise FileFormatError(f"a file with weights is required; there is no file {source}")
    if source.suffix.lower() not in KINDS:
        raise FileFormatError(f"weights must be in a .npz or .safetensors file; {source.name} came")
    arrays = read_archive(source, MOST_BYTES) if source.suffix.lower() == ".npz" else _from_safetensors(source)
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise FileFormatError(f"{source}: {name!r} must hold numbers; it holds {array.dtype}")
    return arrays


def _read_network(place: Path) -> Saved:
    found: dict[int, Path] = {}
    for path in _files(place):
        number = STEP.search(path.stem)
        if number is None:
            raise FileFormatError(
                f"a checkpoint must have its step in its name, such as step_100{path.suffix}; {path} has none"
            )
        step = int(number[1])
        if step in found:
            raise FileFormatError(
                f"every step must come once; {found[step].name} and {path.name} are both of step {step}"
            )
        found[step] = path
    steps = tuple(sorted(found))
    return Saved(steps, tuple(read_weights(found[step]) for step in steps))


def _files(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if path.suffix.lower() in KINDS and path.is_file())


def _from_safetensors(path: Path) -> dict[str, np.ndarray]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError:
        raise FileFormatError(f"reading {path} needs the package safetensors: pip install safetensors") from None
    if path.stat().st_size > MOST_BYTES:
        raise FileFormatError(
            f"{path} must hold at most {in_bytes(MOST_BYTES)}; it holds {in_bytes(path.stat().st_size)}"
        )
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileFormatError(
            f"{path} is not a readable .safetensors file of float16, float32 or float64 ({reason})"
        ) from None
