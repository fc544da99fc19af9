"""Which code made a result."""

import functools
import hashlib
from collections.abc import Mapping
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


@functools.cache
def versions() -> Mapping[str, str]:
    """Return the versions of the packages that the numbers of a result depend on."""
    return {name: version(name) for name in ("neuralrace", "jax", "numpy", "optax", "diffrax")}
