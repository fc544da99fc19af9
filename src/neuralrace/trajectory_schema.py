"""What the file of a trajectory must hold."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from neuralrace.architecture import edge_name
from neuralrace.errors import FileFormatError

FORMAT = 2  # 1 described laws and rules in words, and had no checksum
STATUS = ("running", "converged", "diverged")
EXAMPLES = ("example_inputs", "example_targets")  # one variable for each data node
WEIGHTS = ("final_weights", "first_weights", "weights")  # one variable for each edge
NEEDED = {"loss": ("seed", "time"), "time": ("time",), "step": ("time",), "status": ("seed",)}
DESCRIBED = (("edges", list), ("problem", dict), ("settings", dict), ("versions", dict))


def check_trajectory(source: Path, data: xarray.Dataset) -> None:
    """Refuse a data set that is not a trajectory, and say what it lacks."""
    found = data.attrs.get("neuralrace_format")
    if not isinstance(found, (int, np.integer)) or found != FORMAT:
        raise FileFormatError(f"{source} must be a trajectory of format {FORMAT}; it says {found!r}")
    for name, dimensions in NEEDED.items():
        if name not in data.variables or data[name].dims != dimensions or data[name].dtype.kind not in "fiu":
            raise FileFormatError(f"{source} must hold numbers {name!r} over {dimensions}; it does not")
    described = {name: _described(source, data, name, kind) for name, kind in DESCRIBED}
    _check_numbers(source, data)
    _check_weights(source, data, described["edges"], described["problem"])
    _check_examples(source, data)


def _described(source: Path, data: xarray.Dataset, name: str, kind: type) -> Any:
    try:
        told = json.loads(data.attrs[name])
    except (KeyError, TypeError, ValueError):
        told = None
    if not isinstance(told, kind):
        raise FileFormatError(f"{source} must describe its {name} in JSON; it does not")
    return told


def _check_numbers(source: Path, data: xarray.Dataset) -> None:
    """Times run forward from zero; a loss is a number, unless its seed diverged."""
    for name in ("time", "step"):
        values = data[name].values
        if not (np.isfinite(values).all() and (values >= 0).all() and (np.diff(values) >= 0).all()):
            raise FileFormatError(f"{source} must hold a {name} that is not negative and increases; it does not")
    status = data["status"].values
    if not np.isin(status, range(len(STATUS))).all():
        raise FileFormatError(f"{source} holds a status other than {', '.join(STATUS)}")
    if not np.isfinite(data["loss"].values[status != STATUS.index("diverged")]).all():
        raise FileFormatError(f"{source} must hold a finite loss for every seed that did not diverge; it does not")


def _check_weights(source: Path, data: xarray.Dataset, edges: list[Any], problem: dict[str, Any]) -> None:
    """Weights belong to edges that there are, and have the sizes of their nodes."""
    if not all(isinstance(edge, str) or _is_pair(edge) for edge in edges):
        raise FileFormatError(f"{source} must name each edge, or give its two nodes; it does not")
    ends = {edge_name(edge): None if isinstance(edge, str) else edge for edge in edges}
    ends |= {name: pair for name, pair in problem.get("edges", {}).items() if name in ends and _is_pair(pair)}
    for name in map(str, data.data_vars):
        kind, _, rest = name.partition("[")
        if kind not in WEIGHTS:
            continue
        edge = rest.removesuffix("]")
        if edge not in ends:
            raise FileFormatError(f"{source} holds {name!r}, of an edge that its network does not have")
        sizes = [problem.get("nodes", {}).get(node) for node in reversed(ends[edge] or ())]
        if None not in sizes and sizes and list(data[name].shape[-2:]) != sizes:
            raise FileFormatError(
                f"{source} must hold {name!r} with the sizes {sizes} of its nodes; it has {list(data[name].shape[-2:])}"
            )


def _check_examples(source: Path, data: xarray.Dataset) -> None:
    """Examples, where a record says that it has them, are all there."""
    if "examples" not in data.attrs:
        return
    try:
        nodes = json.loads(data.attrs["examples"])
        names = ["example_weights", *(f"{kind}[{node}]" for kind in EXAMPLES for node in nodes[kind])]
        fits = all(data[name].dims[0] == "example" and data[name].dtype.kind == "f" for name in names)
    except (KeyError, TypeError, ValueError, IndexError):
        fits = False
    if not fits:
        raise FileFormatError(f"{source} must hold the examples that it names; it does not")


def _is_pair(edge: Any) -> bool:
    return isinstance(edge, list) and len(edge) == 2 and all(isinstance(node, str) for node in edge)
