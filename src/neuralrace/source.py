"""Which code this is, so that a result knows what made it and a sweep is made by one version."""

import functools
import hashlib
from importlib.metadata import version
from pathlib import Path


@functools.cache
def code_version() -> str:
    """A digest of the package's own source."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """What the numbers of a result depend on beside its settings."""
    return {
        "neuralrace": version("neuralrace"),
        "code": code_version(),
        "jax": version("jax"),
        "numpy": version("numpy"),
    }
