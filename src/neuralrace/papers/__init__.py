"""The figures of the papers, each with its claims measured.

`registry.FIGURES` lists them. A figure's module is imported when the figure is run, so that a listing is quick.
"""

import importlib
import typing as _typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neuralrace.errors import require_known
from neuralrace.papers.registry import FIGURES

if _typing.TYPE_CHECKING:
    from neuralrace.papers.experiment import Experiment, Result

__all__ = ["FIGURES", "get", "names", "run"]


def names() -> tuple[str, ...]:
    """List the names of all figures, in the order of their papers."""
    return tuple(FIGURES)


def get(name: str) -> "Experiment":
    """Look a figure up by its name; no other is imported for it."""
    require_known(name, FIGURES, f"there is no experiment {name!r}")
    module, _, attribute = (FIGURES[name].module or name.replace("-", ".")).partition(":")
    found: Experiment = getattr(importlib.import_module(f"neuralrace.papers.{module}"), attribute or "EXPERIMENT")
    return found


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
    from neuralrace.papers import experiment

    return experiment.run(get(name), size, changes or {}, out, reuse)
