"""What can be recorded of a run, and how each part becomes a named array."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax
import numpy as np

from neuralrace.architecture import PATH_LIMIT, Path, edge_name
from neuralrace.axes import Edge
from neuralrace.errors import UnknownNameError, nearest
from neuralrace.training.descent import Finish
from neuralrace.training.learner import Data, Learner, Parameters, Views, path_product, singular_values

RECORDABLE = (
    "loss",
    "outputs",
    "weights",
    "path_singular_values",
    "weight_singular_values",
    "activity",
    "gate_patterns",
)
THREADS = 2  # LAPACK runs beside the training of the next chunk


@dataclass(frozen=True)
class Recorder:
    """The look of a loop, what happens to its arrays on the host, and the names of their axes."""

    look: Callable[[Parameters, Data], Views]
    finish: dict[str, Finish]
    axes: Mapping[str, tuple[str, ...]]


def make_recorder(learner: Learner, record: Sequence[str]) -> Recorder:
    """Put together what the caller asked for; the loss is always among it."""
    names = (record,) if isinstance(record, str) else tuple(record) if isinstance(record, Iterable) else (record,)
    for name in names:
        if name not in RECORDABLE:
            raise UnknownNameError(
                f"record can hold {', '.join(RECORDABLE)}; it held {name!r}; {nearest(name, RECORDABLE)}"
            )
    of_network = learner.views(names)
    edges = tuple(learner.architecture.edges)
    paths = learner.architecture.paths(PATH_LIMIT) if "path_singular_values" in names else ()

    def look(parameters: Parameters, data: Data) -> Views:
        seen = of_network(parameters, data)
        weights = learner.unpack(parameters)
        for kind in ("weights", "weight_singular_values"):
            if kind in names:
                seen |= {f"{kind}[{edge_name(edge)}]": weights[edge] for edge in edges}
        return seen | _path_products(weights, paths)

    finish: dict[str, Finish] = {f"path_singular_values[{path}]": _threaded_singular_values for path in paths}
    if "weight_singular_values" in names:
        finish |= {f"weight_singular_values[{edge_name(edge)}]": _threaded_singular_values for edge in edges}
    return Recorder(look, finish, _axes(learner, paths))


def _axes(learner: Learner, paths: Sequence[Path]) -> dict[str, tuple[str, ...]]:
    """Variable -> the names of its axes after seed and time: units of a node, modes of a matrix, examples."""
    architecture = learner.architecture
    axes: dict[str, tuple[str, ...]] = {}
    for edge, (source, target) in architecture.edges.items():
        name = edge_name(edge)
        axes[f"weights[{name}]"] = (f"{target}_unit", f"{source}_unit")
        axes[f"weight_singular_values[{name}]"] = (f"mode_of_{min(architecture.shape(edge))}",)
    for path in paths:
        ranks = architecture.nodes[path.source], architecture.nodes[path.target]
        axes[f"path_singular_values[{path}]"] = (f"mode_of_{min(ranks)}",)
    for node in (*architecture.hidden, *architecture.outputs):
        for kind in ("outputs", "activity", "gate_patterns"):
            axes[f"{kind}[{node}]"] = ("example", f"{node}_unit")
    return axes


def _path_products(weights: Mapping[Edge, jax.Array], paths: Sequence[Path]) -> Views:
    return {f"path_singular_values[{path}]": path_product(weights, path.edges) for path in paths}


def _threaded_singular_values(matrices: np.ndarray) -> np.ndarray:
    with ThreadPoolExecutor(THREADS) as pool:
        return np.concatenate(list(pool.map(singular_values, np.array_split(matrices, THREADS))))
