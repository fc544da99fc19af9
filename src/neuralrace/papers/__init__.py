"""The figures of the papers, each with its measured claims.

`figures()` lists them. A figure is a module with two settings, `full` and `tiny`, and three functions: `compute`,
`claims` and `draw`. It is imported when the figure is run, so that a listing is quick.
"""

import importlib
import typing as _typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuralrace.errors import require_known
from neuralrace.papers.registry import figures

if _typing.TYPE_CHECKING:
    from neuralrace.papers.experiment import Experiment, Result

__all__ = ["figures", "get", "names", "run"]


def names() -> tuple[str, ...]:
    """List the names of all figures, in the order of their papers."""
    return tuple(figures())


def get(name: str) -> "Experiment":
    """Look a figure up by its name; no other is imported for it."""
    from neuralrace.papers.experiment import Experiment

    require_known(name, figures(), f"there is no experiment {name!r}")
    listed = figures()[name]
    module, _, attribute = (listed.module or name.replace("-", ".")).partition(":")
    found: Any = importlib.import_module(f"neuralrace.papers.{module}")
    found = getattr(found, attribute) if attribute else found
    parts = ("full", "tiny", "compute", "claims", "draw", "check")
    return Experiment(**vars(listed), **{part: getattr(found, part) for part in parts if hasattr(found, part)})


def run(
    name: str,
    size: str = "full",
    *,
    changes: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    reuse: bool = False,
) -> "Result":
    """Compute a figure; its `claims` are measured and its `figure()` drawn from the result.

    size: "full", the paper's parameters, or "tiny", seconds, at which no claim is judged. changes: other values of
    settings. out: a folder in which the data are kept; with `reuse` they are taken from there while settings and code
    are the same.
    """
    return get(name).run(size, changes or {}, out, reuse)
