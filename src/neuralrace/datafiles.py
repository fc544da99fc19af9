"""Files that are complete or not there: data sets, text and pictures, written beside their name and then renamed."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import xarray

from neuralrace.errors import FileFormatError


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file next to `path`, then give it its name in one step."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FileFormatError(f"cannot write {target}: the folder {target.parent} is not there; make it first")
    if target.is_dir():
        raise FileFormatError(f"cannot write {target}: it is a folder; give the name of a file in it")
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}.", suffix=target.suffix)
    os.close(handle)
    try:
        write(Path(name))
        os.chmod(name, 0o644)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)
    return target


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write one file of text."""
    return write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder for results, before any work is done for it."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FileFormatError(f"out must be a folder that can be written; {folder} cannot be made ({reason})") from None
    return folder


def save_dataset(data: xarray.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write one netCDF file."""
    return write_whole(path, lambda part: data.to_netcdf(part, engine="h5netcdf"))


def load_dataset(path: str | os.PathLike[str]) -> xarray.Dataset:
    """Read a netCDF file into memory; nothing in it is executed."""
    source = Path(path)
    if not source.is_file():
        raise FileFormatError(f"a netCDF file is required; there is no file {source}")
    try:
        with xarray.open_dataset(source, engine="h5netcdf") as opened:
            return opened.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise FileFormatError(f"{source} is not a readable netCDF file ({reason})") from None
