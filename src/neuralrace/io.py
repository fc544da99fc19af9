"""Files that are complete or absent, datasets with a checksum, archives of arrays, and which code made a result.

A file is written beside its name and then renamed. Only regular files are ever replaced; a symbolic link is followed,
so the file that it points to is written and the link stays. Nothing in a file is executed.
"""

import contextlib
import functools
import hashlib
import os
import stat
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from neuralrace.errors import FileFormatError, ResourceError, shortened
from neuralrace.memory import require_memory

if TYPE_CHECKING:
    import xarray

SEAL = b"\nneuralrace-sha256 "  # then the digest and a newline
PART = ".neuralrace-part-"  # in the name of a temporary file


def as_path(name: str, path: object, kind: str = "a file") -> Path:
    """Return the name of a file or folder as a path."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise FileFormatError(f"{name} must be the name of {kind}; it was {'empty' if text == '' else shortened(path)}")
    try:
        os.lstat(text)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # a name that is too long, a folder that may not be read
        raise FileFormatError(
            f"{name} cannot be {shortened(text)} ({_reason(error)}): choose another name for {kind}"
        ) from None
    return Path(text)


def check_place(name: str, path: object) -> Path:
    """Return the path of a file that can be made or replaced, as far as can be known without writing."""
    wanted = as_path(name, path)
    if not (folder := Path(os.path.realpath(wanted)).parent).is_dir():
        raise FileFormatError(f"cannot write {path}: the folder {folder} does not exist; make it first")
    if wanted.exists() and not wanted.is_file():
        kind = "a folder" if wanted.is_dir() else "a device, a pipe or a socket"
        raise FileFormatError(f"cannot write {path}: it is {kind}, and only regular files are replaced; rename it")
    return wanted


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file next to `path`, then rename it in one step."""
    wanted = check_place("path", path)
    target = Path(os.path.realpath(wanted))
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o644
    for left in target.parent.glob(f".*{PART}*"):  # by a process that was killed
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > 3600:
                left.unlink()
    try:
        handle, name = tempfile.mkstemp(target.suffix[-20:], f".{target.stem[:40]}{PART}", target.parent)
        os.close(handle)
        try:
            write(Path(name))
            os.chmod(name, mode)
            os.replace(name, target)
        finally:
            Path(name).unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:  # HDF5 raises RuntimeError when the disk is full
        raise FileFormatError(
            f"cannot write {path} ({_reason(error)}): free some space, or choose another place for it"
        ) from error
    return wanted


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text file in UTF-8."""
    return write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder for results and try to write in it, before any work starts."""
    folder = as_path("out", path, "a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FileFormatError(f"out must be a folder that can be written; {folder} is not ({_reason(error)})") from None
    return folder


def _reason(error: Exception) -> str:
    return " ".join((getattr(error, "strerror", None) or shortened(error, 300)).split())


def save_dataset(data: "xarray.Dataset", path: str | os.PathLike[str]) -> Path:
    """Write one netCDF file with a checksum of all its bytes after its end, where readers of netCDF do not look."""
    encoding: dict[object, dict[str, object]] = {}
    for name, variable in data.variables.items():
        if variable.dtype == bool and variable.size and variable.dims:
            # gates change slowly: in narrow columns over time zlib sees that they repeat
            longest = {"time": 4096, variable.dims[-1]: 64}
            chunks = tuple(min(variable.sizes[dim], longest.get(dim, 1)) for dim in variable.dims)
            encoding[name] = {"zlib": True, "complevel": 2, "chunksizes": chunks}

    def write(part: Path) -> None:
        data.to_netcdf(part, engine="h5netcdf", encoding=encoding)
        digest = hashlib.sha256(part.read_bytes()).hexdigest()
        with part.open("ab") as file:
            file.write(SEAL + digest.encode() + b"\n")

    return write_whole(path, write)


def load_dataset(path: str | os.PathLike[str]) -> "xarray.Dataset":
    """Read a file of `save_dataset` into memory; nothing in it is executed.

    The checksum comes first. HDF5 has some of its own, but none over the lists of an array's axes, and a flipped byte
    there can make it loop forever.
    """
    import xarray

    source = as_path("path", path)
    if not source.is_file():
        raise FileFormatError(f"a netCDF file is required; there is no file {source}")
    body, seal, digest = source.read_bytes().rpartition(SEAL)
    if not seal:
        raise FileFormatError(
            f"{source} must end with the checksum that neuralrace writes; it has none: it was cut short, or something "
            "else wrote it"
        )
    if digest.decode("latin-1") != hashlib.sha256(body).hexdigest() + "\n":
        raise FileFormatError(f"{source} is damaged: its bytes are not those that were written; make it again")
    try:
        with xarray.open_dataset(source, engine="h5netcdf") as opened:
            return opened.load()
    except Exception as error:
        raise FileFormatError(f"{source} is not a readable netCDF file ({shortened(error, 300)})") from None


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of an .npz archive, after a check of their size and of its checksums."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            require_memory(f"the arrays of {path}", size, "take fewer examples")
            if damaged := archive.testzip():  # a changed header could otherwise hide that the rest is not read
                raise ValueError(f"{damaged} is damaged")
        with np.load(path, allow_pickle=False) as stored:
            found = {name: stored[name] for name in stored.files}
        if others := [name for name, array in found.items() if not isinstance(array, np.ndarray)]:
            raise ValueError(f"{others[0]} is no array")
    except ResourceError:
        raise
    except Exception as error:  # of zipfile, zlib, tokenize and numpy: any error that damaged bytes can cause
        raise FileFormatError(
            f"{path} is not a readable .npz of plain arrays ({shortened(error, 120)}); write it with numpy.savez"
        ) from None
    return found


@functools.cache
def code_version() -> str:
    """Return a digest of the package's own source files."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@functools.cache
def versions() -> Mapping[str, str]:
    """Return the versions of the packages that the numbers of a result depend on."""
    return {name: version(name) for name in ("neuralrace", "jax", "numpy", "optax", "diffrax")}
