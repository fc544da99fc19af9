"""Files that are complete or absent, and datasets with a checksum.

A file is written beside its name and then renamed. Only regular files are ever replaced; a symbolic link is followed,
so the file that it points to is written and the link stays.
"""

import contextlib
import hashlib
import os
import re
import socket
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from neuralrace.errors import FileFormatError, shortened

if TYPE_CHECKING:
    import xarray

HOST = re.sub(r"\W", "-", socket.gethostname())
SEAL = b"\nneuralrace-sha256 "  # then the digest and a newline


def check_place(name: str, path: object) -> Path:
    """Return the path of a file that can be made or replaced, as far as can be known without writing."""
    wanted = as_path(name, path)
    _mode(wanted, Path(os.path.realpath(wanted)))
    return wanted


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file next to `path`, then rename it in one step."""
    wanted = as_path("path", path)
    target = Path(os.path.realpath(wanted))
    mode = _mode(wanted, target)
    _clean(target.parent)
    try:
        prefix = f".{target.stem}.{HOST}-{os.getpid()}.part"
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=prefix, suffix=target.suffix)
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
    if folder.is_symlink() and not folder.exists():
        raise FileFormatError(f"out must be a folder that can be written; {folder} is a dangling symlink")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FileFormatError(f"out must be a folder that can be written; {folder} is not ({_reason(error)})") from None
    _clean(folder)
    return folder


def as_path(name: str, path: object, kind: str = "a file") -> Path:
    """Return the name of a file or folder as a path."""
    if not isinstance(path, (str, os.PathLike)):
        raise FileFormatError(f"{name} must be the name of {kind}; it was {shortened(path)}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise FileFormatError(f"{name} must be the name of {kind}; it was {'empty' if not text else shortened(text)}")
    return Path(text)


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
    there can keep it busy for ever.
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
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise FileFormatError(f"{source} is not a readable netCDF file ({reason})") from None


def _mode(path: Path, target: Path) -> int:
    """Return the permissions of the file that is replaced, or those of a new one; refuse anything but a file."""
    if not target.parent.is_dir():
        raise FileFormatError(f"cannot write {path}: the folder {target.parent} does not exist; make it first")
    if not target.exists():
        return 0o644
    found = target.stat().st_mode
    if stat.S_ISDIR(found):
        raise FileFormatError(f"cannot write {path}: it is a folder; give the name of a file in it")
    if not stat.S_ISREG(found):
        raise FileFormatError(
            f"cannot write {path}: it is a device, a pipe or a socket, and only regular files are replaced; give "
            "another name"
        )
    return stat.S_IMODE(found)


def _clean(folder: Path) -> None:
    """Remove the temporary files of processes on this machine that were killed."""
    for path in folder.glob(f".*.{HOST}-*.part*"):
        process = path.name.rpartition(f".{HOST}-")[2].partition(".")[0]
        try:
            if os.name == "posix" and process.isascii() and process.isdecimal():
                os.kill(int(process), 0)
        except ProcessLookupError:
            with contextlib.suppress(OSError):
                path.unlink()
        except (OSError, OverflowError):  # another user's process, or no number of a process
            pass


def _reason(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) else None
    return " ".join((said or str(error) or type(error).__name__).split())
