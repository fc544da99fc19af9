"""Modules of a ReLU network: clusters of neurons that are open for the same examples (after P2 Algorithm 1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from neuralrace.architecture import Architecture
from neuralrace.arrays import real_array
from neuralrace.errors import GateError, RangeError, TaskError, require_count, require_kind, shortened
from neuralrace.gates import Gates
from neuralrace.initial import ByShape, Initializer
from neuralrace.problem import Problem, side_by_side
from neuralrace.task import Task
from neuralrace.theory import Aligned, Flow

# the flow itself: of pathways side by side, from small weights, in as few directions as grow
EXACT = (Aligned(diagonal=False, small=1e-6), Flow())
RTOL = 1e-4  # of solved curves, whose distance from training is read to two digits
RESTARTS = 4  # of k-means, from seeded starts that are spread out


@dataclass(frozen=True, eq=False)
class Modules:
    """Patterns that many neurons come near to, the strongest first.

    gates: (k, N), how open a neuron of the module is for each example, from 0 to 1. patterns: (k, N) of bool, gates
    above one half; where none is, those above half of the largest. consistency: (k,), the share of (neuron, example)
    pairs that agree with the pattern; 1 is perfect. share: (k,) of all that was not silent. silent: the share of what
    was open for no example, which is no module.
    """

    gates: np.ndarray = field(repr=False)
    patterns: np.ndarray = field(repr=False)
    consistency: np.ndarray
    share: np.ndarray
    silent: float

    def __len__(self) -> int:
        return len(self.patterns)

    def nearest(self, rows: Any) -> np.ndarray:
        """The module whose pattern each row of gates is nearest to, -1 for one that is never open; rows: (..., N)."""
        given, patterns = np.asarray(rows, dtype=float), self.patterns.astype(float)
        distance = patterns.sum(axis=1) - 2 * given @ patterns.T  # and the size of the row, the same for all
        return np.where(given.any(axis=-1), distance.argmin(axis=-1), -1)


def find_modules(samples: Any, count: int, weights: Any = None, key: int = 0, *, restarts: int = RESTARTS) -> Modules:
    """Cluster gates into `count` modules by k-means; equal rows are counted, not repeated.

    samples: (..., N) from 0 to 1, fractional where a neuron is partly open. weights: how much each sample counts, such
    as the strength of its neuron; each counts the same if not given. key, restarts: of k-means, whose best is taken.
    """
    rows = _checked(samples)
    amount = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=float).reshape(-1)
    if len(amount) != len(rows):
        raise GateError(f"weights must have one number per sample, {len(rows)}; it has {len(amount)}")
    counted = amount > 0
    active = rows.any(axis=1) & counted
    if not active.any():
        raise GateError("modules need neurons that are on for some example; every one here is silent")
    distinct, inverse = distinct_rows(rows[active])
    size = require_count("modules", count)
    if len(distinct) < size:
        raise RangeError(f"modules must be at most the number of distinct patterns, {len(distinct)}; it was {size}")
    mass = np.bincount(inverse, weights=amount[active])
    means = KMeans(size, n_init=restarts, random_state=key).fit(distinct, sample_weight=mass)
    share = np.bincount(means.labels_, weights=mass, minlength=size) / mass.sum()
    order = np.argsort(-share, kind="stable")
    gates = np.clip(means.cluster_centers_[order], 0, 1)
    patterns = gates > np.where(gates.max(axis=1, keepdims=True) > 0.5, 0.5, 0.5 * gates.max(axis=1, keepdims=True))
    agree = np.where(patterns, gates, 1 - gates).mean(axis=1)
    silent = float(amount[counted & ~active].sum() / amount[counted].sum())
    return Modules(gates, patterns, agree, share[order], silent)


def _checked(samples: Any) -> np.ndarray:
    rows = np.asarray(samples)
    if rows.dtype.kind not in "fiub" or not rows.ndim or not rows.size:
        raise GateError(f"gates must be numbers, one for each example of each neuron; they were {shortened(samples)}")
    rows = rows.reshape(-1, rows.shape[-1])
    if rows.dtype != bool and rows.size and not (rows.min() >= 0 and rows.max() <= 1):
        raise GateError(f"gates must lie between 0 and 1; they go from {rows.min():g} to {rows.max():g}")
    return rows


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different rows, and which of them each is; bits are packed, for there may be millions."""
    whole = rows.dtype == bool or np.isin(rows, (0, 1)).all()
    if not whole:
        found, inverse = np.unique(rows, axis=0, return_inverse=True)
        return found.astype(float), inverse.reshape(-1)
    packed, inverse = np.unique(np.packbits(rows.astype(bool), axis=1), axis=0, return_inverse=True)
    return np.unpackbits(packed, axis=1, count=rows.shape[1]).astype(float), inverse.reshape(-1)


def gated_problem(task: Task, patterns: Any, widths: Any, biases: bool = False) -> Problem:
    """The gated network with one node for each pattern, m0, m1, ...; the first nodes read all inputs.

    patterns: (k, N), or a list of these, one for each hidden layer: then nodes are named h1_m0, ..., h2_m0, ... and
    every node sends to all nodes of the next layer. widths: neurons of each node, one number or one for each, for each
    layer. Several inputs or outputs of the task are put side by side, as in a ReLUNetwork. biases: as there.
    """
    require_kind("task", task, Task, TaskError)
    several = isinstance(patterns, list) and all(np.ndim(layer) == 2 for layer in patterns)
    layers = list(patterns) if several else [patterns]
    listed = isinstance(widths, (Sequence, np.ndarray))
    sizes = (list(widths) if listed else [widths] * len(layers)) if several else [widths]
    if len(sizes) != len(layers):
        raise RangeError(f"widths must have one entry for each of {len(layers)} hidden layers; it has {len(sizes)}")
    rows, wanted = side_by_side(task.inputs), side_by_side(task.targets)
    nodes, sources = {"x": rows.shape[1]}, ["x"]
    edges: list[tuple[str, str]] = []
    gates: dict[str, np.ndarray] = {}
    for place, (layer, width) in enumerate(zip(layers, sizes, strict=True), start=1):
        open_for = np.atleast_2d(real_array("patterns", layer, GateError))
        prefix = f"h{place}_" if len(layers) > 1 else ""
        names = [f"{prefix}m{module}" for module in range(len(open_for))]
        nodes |= dict(zip(names, map(int, np.broadcast_to(np.asarray(width), (len(open_for),))), strict=True))
        gates |= dict(zip(names, open_for, strict=True))
        edges += [(source, name) for source in sources for name in names]
        sources = names
    edges += [(source, "y") for source in sources]
    architecture = Architecture(nodes | {"y": wanted.shape[1]}, edges)
    examples = Task({"x": rows}, {"y": wanted}, task.weights)
    return Problem(architecture, examples, Gates(nodes=gates), biases=biases)


def law_of_modules(problem: Problem, law: Initializer) -> Initializer:
    """A law of a ReLU network's first weights for a gated network: a module's edges are like those of its layer."""
    if not isinstance(law, ByShape):
        return law
    graph = problem.architecture
    layer = {node: f"h{graph.level[node]}" for node in graph.hidden}
    ends = {
        edge: (layer.get(source, source), layer.get(target, target)) for edge, (source, target) in graph.edges.items()
    }
    return law.like(ends)
