"""Modules of a ReLU network: clusters of neurons that are on for the same examples (P2 Algorithm 1)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from neuralrace.architecture import Architecture
from neuralrace.errors import GateError, RangeError, require_count
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task

RTOL = 1e-4  # of solved curves, whose distance from training is read to two digits
RESTARTS = 4  # of k-means, from seeded starts that are spread out


@dataclass(frozen=True, eq=False)
class Modules:
    """Gate patterns that many neurons come near to, the most common first.

    patterns: (k, N) of bool, the centroids above one half. centroids: (k, N), how often a neuron of the cluster is on.
    consistency: (k,), the share of (neuron, example) pairs that agree with the pattern; 1 is perfect. share: (k,) of
    all samples that were not silent. silent: the share of samples that were on for no example, which are no module.
    """

    patterns: np.ndarray
    centroids: np.ndarray
    consistency: np.ndarray
    share: np.ndarray
    silent: float

    def __len__(self) -> int:
        return len(self.patterns)

    def nearest(self, patterns: np.ndarray) -> np.ndarray:
        """The module that each pattern is nearest to, -1 for one that is never on; patterns are (..., N)."""
        rows = np.asarray(patterns, dtype=float)
        distance = np.abs(rows[..., None, :] - self.patterns).sum(axis=-1)
        return np.where(rows.any(axis=-1), distance.argmin(axis=-1), -1)


def find_modules(samples: Any, count: int, weights: Any = None, key: int = 0) -> Modules:
    """Cluster gate patterns into `count` modules by k-means; equal patterns are counted, not repeated.

    samples: (..., N) of 0 and 1. weights: how much each sample counts, such as the strength of its neuron; each counts
    the same if not given. key: the seed of k-means.
    """
    rows = np.asarray(samples)
    rows = rows.reshape(-1, rows.shape[-1]).astype(bool)
    amount = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=float).reshape(-1)
    if len(amount) != len(rows):
        raise GateError(f"weights must have one number per sample, {len(rows)}; it has {len(amount)}")
    active = rows.any(axis=1) & (amount > 0)
    if not active.any():
        raise GateError("modules need neurons that are on for some example; every one here is silent")
    packed, inverse = np.unique(np.packbits(rows[active], axis=1), axis=0, return_inverse=True)
    distinct = np.unpackbits(packed, axis=1, count=rows.shape[1]).astype(float)
    size = require_count("modules", count)
    if len(distinct) < size:
        raise RangeError(f"modules must be at most the number of distinct patterns, {len(distinct)}; it was {size}")
    mass = np.bincount(inverse.reshape(-1), weights=amount[active])
    means = KMeans(size, n_init=RESTARTS, random_state=key).fit(distinct, sample_weight=mass)
    share = np.bincount(means.labels_, weights=mass, minlength=size) / mass.sum()
    order = np.argsort(-share, kind="stable")
    centroids = means.cluster_centers_[order]
    agree = np.where(centroids > 0.5, centroids, 1 - centroids).mean(axis=1)
    silent = float(amount[~rows.any(axis=1)].sum() / amount.sum())
    return Modules(centroids > 0.5, centroids, agree, share[order], silent)


def gated_problem(task: Task, patterns: Any, widths: Any, biases: bool = False) -> Problem:
    """The gated network with one node for each pattern, m0, m1, ...; the first nodes read all inputs.

    patterns: (k, N), or a list of these, one for each hidden layer: then nodes are named h1_m0, ..., h2_m0, ... and
    every node sends to all nodes of the next layer. widths: neurons of each node, one number or one for each, for each
    layer. Several inputs or outputs of the task are put side by side, as in a ReLUNetwork. biases: as there.
    """
    layers = list(patterns) if isinstance(patterns, list) else [patterns]
    sizes = list(widths) if isinstance(patterns, list) else [widths]
    rows, wanted = np.hstack(list(task.inputs.values())), np.hstack(list(task.targets.values()))
    nodes, sources = {"x": rows.shape[1]}, ["x"]
    edges: list[tuple[str, str]] = []
    gates: dict[str, np.ndarray] = {}
    for place, (layer, width) in enumerate(zip(layers, sizes, strict=True), start=1):
        open_for = np.atleast_2d(np.asarray(layer, dtype=float))
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
