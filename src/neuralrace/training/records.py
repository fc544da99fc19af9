"""What can be recorded of a run: for each kind, the edges, nodes or paths that have it, its value and its axes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from neuralrace._engine.network import Stacks
from neuralrace.architecture import PATH_LIMIT, Path, edge_name
from neuralrace.axes import Edge
from neuralrace.errors import ProblemError, require_known
from neuralrace.problem import Problem
from neuralrace.training.learner import Learner, NetworkLearner
from neuralrace.training.routed import RoutedNetwork

# kind -> the things that have it
THINGS: Mapping[str, Callable[[Any], Iterable[Any]]] = {
    "outputs": lambda problem: problem.architecture.outputs,
    "weights": lambda problem: problem.architecture.parameters,
    "path_singular_values": lambda problem: problem.architecture.paths(PATH_LIMIT),
    "weight_singular_values": lambda problem: problem.architecture.edges,
    "activity": lambda problem: problem.architecture.hidden,
    "gate_patterns": lambda problem: [node for node in problem.architecture.hidden if node in problem.activations],
}
OF_EXAMPLES = ("outputs", "activity", "gate_patterns")


class Recorder(eqx.Module):
    """The chosen kinds of record, and the nodes, edges or paths of each; all of it static."""

    chosen: tuple[tuple[str, tuple[Any, ...]], ...] = eqx.field(static=True, default=())

    def __call__(self, learner: Learner, parameters: Stacks) -> dict[str, jax.Array]:
        """Compute variable -> array, for one seed at one step."""
        found: dict[str, jax.Array] = {}
        for kind, things in self.chosen:
            if kind in OF_EXAMPLES:
                assert isinstance(learner, NetworkLearner)
                gating = kind == "gate_patterns"
                rows = learner.per_example(parameters, things, received=gating)
                found |= {variable(kind, node): rows[node] > 0 if gating else rows[node] for node in things}
            else:
                weights = learner.unpack(parameters)
                matrices = weights if kind == "weights" else learner.architecture.matrices(weights)
                for thing in things:
                    matrix = thing.product(matrices) if isinstance(thing, Path) else matrices[thing]
                    found[variable(kind, thing)] = matrix
        return found

    def finish(self, name: str, array: np.ndarray) -> np.ndarray:
        """Reduce recorded arrays, (records, seeds, ...), on the host: matrices to their singular values."""
        return singular_values(array) if "singular_values" in name.partition("[")[0] else array

    def axes(self, problem: Problem | RoutedNetwork) -> dict[str, tuple[str, ...]]:
        """Variable -> the names of its axes after seed and time."""
        nodes, found = problem.architecture.nodes, dict[str, tuple[str, ...]]()
        for kind, things in self.chosen:
            for thing in things:
                axes: tuple[str, ...] = ()
                if kind in OF_EXAMPLES:
                    axes = "example", f"{thing}_unit"
                elif kind == "weights":
                    axes = problem.architecture.axes(thing)
                else:
                    path = isinstance(thing, Path)
                    source, target = (thing.source, thing.target) if path else problem.architecture.edges[thing]
                    axes = (f"mode_of_{min(nodes[source], nodes[target])}",)
                found[variable(kind, thing)] = axes
        return found


def make_recorder(problem: Problem | RoutedNetwork, record: str | Sequence[str]) -> Recorder:
    """Choose records by kind ("weights") or single variables ("weights[x->h1]")."""
    names = (record,) if isinstance(record, str) or not isinstance(record, Iterable) else tuple(record)
    kinds = [name.partition("[")[0] if isinstance(name, str) else name for name in names]
    for name, kind in zip(names, kinds, strict=True):
        require_known(kind, ("loss", *THINGS), f"record can hold {', '.join(('loss', *THINGS))}; it held {name!r}")
    missing = set() if problem.activations else {"gate_patterns"}
    if isinstance(problem, RoutedNetwork):
        missing = {"outputs", "path_singular_values", "activity", "gate_patterns"}
    for kind in missing.intersection(kinds):
        fitting = ", ".join(["loss", *(other for other in THINGS if other not in missing)])
        raise ProblemError(f"this {type(problem).__name__} has no {kind} to record; record can hold {fitting}")
    chosen = []
    for kind in (kind for kind in THINGS if kind in kinds):
        known = {variable(kind, thing): thing for thing in THINGS[kind](problem)}
        single = [name for name in dict.fromkeys(names) if name.startswith(f"{kind}[")]
        for name in single:
            require_known(name, known, f"this network has no {name!r} to record")
        chosen.append((kind, tuple(known.values() if kind in names else (known[name] for name in single))))
    return Recorder(tuple(chosen))


def variable(kind: str, thing: str | Edge | Path) -> str:
    """Name a recorded variable: its kind and, in brackets, the node, edge or path."""
    return f"{kind}[{thing if isinstance(thing, Path) else edge_name(thing)}]"


def singular_values(matrices: np.ndarray) -> np.ndarray:
    """Compute the singular values of many matrices, largest first, by LAPACK; NaN where a matrix is not finite."""
    finite = np.isfinite(matrices).all(axis=(-2, -1))
    values = np.linalg.svd(np.where(finite[..., None, None], matrices, 0.0), compute_uv=False)
    return np.where(finite[..., None], values, np.nan)
