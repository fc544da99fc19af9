"""Which code made a result."""

import functools
import hashlib
from importlib.metadata import version
from pathlib import Path


@functools.cache
def code_version() -> str:
    """Return a digest of the package's own source files."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """Return the versions that the numbers of a result depend on."""
    return {"code": code_version()} | {name: version(name) for name in ("neuralrace", "jax", "numpy")}
