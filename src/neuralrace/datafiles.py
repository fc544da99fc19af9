"""Files that are complete or not there: written beside their name and then renamed, data sets with a checksum.

Nothing but a regular file or a new name is ever replaced. A symbolic link is followed: the file that it points to is
written, and the link stays.
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

SEAL = b"\nneuralrace-sha256 "  # after the data, where readers of netCDF do not look; then the digest and a newline
BITS, BYTES = "neuralrace_bits", "_bytes"  # how many bits an axis has, and the name of the axis that holds them
SEALED = len(SEAL) + 64 + 1
HOST = re.sub(r"\W", "-", socket.gethostname())
PART = re.compile(r"\..+\.(?P<host>[\w-]*)\.(?P<process>\d+)\.part\w*(\.\w+)?")


def check_place(name: str, path: object) -> Path:
    """The path of a file that can be made or replaced there, as far as can be known without writing."""
    wanted = as_path(name, path)
    _mode_to_give(wanted, Path(os.path.realpath(wanted)))
    return wanted


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Let `write` fill a temporary file next to `path`, then give it its name in one step."""
    wanted = as_path("path", path)
    target = Path(os.path.realpath(wanted))
    mode = _mode_to_give(wanted, target)
    _clean(target.parent)
    prefix, suffix = f".{target.stem}.{HOST}.{os.getpid()}.part", target.suffix
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=prefix, suffix=suffix)
        os.close(handle)
        try:
            write(Path(name))
            os.chmod(name, mode)
            os.replace(name, target)
        finally:
            Path(name).unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:  # HDF5 says RuntimeError when the disk is full
        raise FileFormatError(
            f"cannot write {path} ({_reason(error)}): free some space, or choose another place for it"
        ) from error
    return wanted


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write one file of text."""
    return write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder for results and try to write in it, before any work is done for it."""
    folder = as_path("out", path, "a folder")
    if folder.is_symlink() and not folder.exists():
        raise FileFormatError(f"out must be a folder that can be written; {folder} is a link to what is not there")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FileFormatError(f"out must be a folder that can be written; {folder} is not ({_reason(error)})") from None
    _clean(folder)
    return folder


def as_path(name: str, path: object, kind: str = "a file") -> Path:
    """The name of a file or folder as a path, or say that it is none."""
    if not isinstance(path, (str, os.PathLike)):
        raise FileFormatError(f"{name} must be the name of {kind}; it was {shortened(path)}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise FileFormatError(f"{name} must be the name of {kind}; it was {'empty' if not text else shortened(text)}")
    return Path(text)


def save_dataset(data: "xarray.Dataset", path: str | os.PathLike[str]) -> Path:
    """Write one netCDF file, with a checksum of all its bytes after its end; what is true or false takes one bit."""

    def write(part: Path) -> None:
        packed = _packed(data)
        bits = {name: {"zlib": True, "complevel": 2} for name in packed.data_vars if BITS in packed[name].attrs}
        packed.to_netcdf(part, engine="h5netcdf", encoding=bits)
        digest = _digest(part, part.stat().st_size)
        with part.open("ab") as file:
            file.write(SEAL + digest + b"\n")

    return write_whole(path, write)


def is_whole(path: str | os.PathLike[str]) -> bool:
    """Whether a file is there with exactly the bytes that `save_dataset` wrote; quicker than reading it."""
    try:
        _check_seal(Path(path))
    except (OSError, FileFormatError):
        return False
    return True


def load_dataset(path: str | os.PathLike[str]) -> "xarray.Dataset":
    """Read a netCDF file that `save_dataset` wrote into memory; nothing in it is executed, no other is taken."""
    import xarray  # a second of imports that writing text does not need

    source = as_path("path", path)
    if not source.is_file():
        raise FileFormatError(f"a netCDF file is required; there is no file {source}")
    try:
        _check_seal(source)
        with xarray.open_dataset(source, engine="h5netcdf") as opened:
            return _unpacked(opened.load())
    except FileFormatError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise FileFormatError(f"{source} is not a readable netCDF file ({reason})") from None


def _packed(data: "xarray.Dataset") -> "xarray.Dataset":
    """Booleans as bits, eight to a byte along their last axis, which is named and counted beside them."""
    import numpy
    import xarray

    bits = {}
    for name, array in data.data_vars.items():
        if array.dtype == bool and array.ndim and array.shape[-1]:
            *others, last = array.dims
            told = {BITS: array.shape[-1], **array.attrs}
            packed = numpy.packbits(array.values, axis=-1)
            bits[name] = xarray.DataArray(packed, dims=(*others, f"{last}{BYTES}"), attrs=told)
    return data.drop_vars(list(bits)).assign(bits)[list(data.data_vars)] if bits else data


def _unpacked(data: "xarray.Dataset") -> "xarray.Dataset":
    """The booleans that were packed."""
    import numpy
    import xarray

    found = {}
    for name, array in data.data_vars.items():
        if BITS in array.attrs:
            *others, last = array.dims
            told = {key: value for key, value in array.attrs.items() if key != BITS}
            count = int(array.attrs[BITS])
            if array.dtype != numpy.uint8 or not 0 < count <= 8 * array.shape[-1]:
                raise ValueError(f"{name} does not hold the {count} bits that it names")
            whole = numpy.unpackbits(array.values, axis=-1, count=count).astype(bool)
            found[name] = xarray.DataArray(whole, dims=(*others, str(last).removesuffix(BYTES)), attrs=told)
    return data.drop_vars(list(found)).assign(found)[list(data.data_vars)] if found else data


def _check_seal(source: Path) -> None:
    """Refuse a file whose bytes are not those that were written."""
    size = source.stat().st_size - SEALED
    with source.open("rb") as file:
        file.seek(max(size, 0))
        found = file.read(SEALED)
    if size < 0 or not found.startswith(SEAL):
        raise FileFormatError(
            f"{source} must be a whole file that neuralrace wrote, with its checksum at the end; it has none: it was "
            "cut short, or something else wrote it"
        )
    if found != SEAL + _digest(source, size) + b"\n":
        raise FileFormatError(f"{source} is damaged: its bytes are not those that were written; make it again")


def _digest(path: Path, size: int) -> bytes:
    """SHA-256 of the first bytes of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(size, 1 << 20))):
            digest.update(block)
            size -= len(block)
    return digest.hexdigest().encode()


def _mode_to_give(path: Path, target: Path) -> int:
    """The permissions of the file that is replaced, or those of a new one; refuse what is no file."""
    if not target.parent.is_dir():
        raise FileFormatError(f"cannot write {path}: the folder {target.parent} is not there; make it first")
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
    """Remove the temporary files of runs on this machine that were killed."""
    for path in folder.glob(".*.part*"):
        part = PART.fullmatch(path.name)
        if part and part["host"] == HOST and not _alive(int(part["process"])):
            with contextlib.suppress(OSError):
                path.unlink()


def _alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere a signal of 0 is not a mere question
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is another user's, or this is no number of a process
        return True
    return True


def _reason(error: Exception) -> str:
    told = error.strerror if isinstance(error, OSError) else None
    return " ".join((told or str(error) or type(error).__name__).split())
