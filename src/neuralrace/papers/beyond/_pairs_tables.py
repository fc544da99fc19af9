"""Routing networks on a small table, trained on pairs of every kind, and what theory says of them before."""

from dataclasses import dataclass, replace

import numpy as np
import xarray

from neuralrace import initial
from neuralrace.activations import LeakyReLU
from neuralrace.axes import Weights
from neuralrace.problem import Problem
from neuralrace.tasks import routed_images, routing
from neuralrace.tasks.pairs import spectrum, trained_pairs
from neuralrace.tasks.pathways import with_depth
from neuralrace.theory.exact import PairRace
from neuralrace.theory.routed import RoutedFlow, wide_weights
from neuralrace.training import Condition, RoutedNetwork, train_together
from neuralrace.training.rules import make_rule

ITEMS = 2  # one-hot in and out: two modes with s = d = 1/2, so that a path has to reach one
LONG = 3.0  # times the time that the uniform mode takes
SLOPE = 0.01  # of leaky ReLU
SLOWER = 3.0  # leaky ReLU learns so many times more slowly, about: half of its neurons are silent
KEY = 11  # of the pairs


@dataclass(frozen=True)
class PairTable:
    """Pairs by name with K, and how they are learned; series: what it is compared in."""

    pairs: str
    trained: int
    gain: float
    width: int
    depth: int = 3
    leaky: bool = False
    series: str = "kinds"
    key: int = KEY

    def pattern(self, domains: int) -> np.ndarray:
        """Which pairs are trained."""
        return trained_pairs(self.pairs, domains, self.trained, self.key)

    def time(self, domains: int) -> float:
        """When training ends, from the time in which the uniform mode alone is learned."""
        race = np.log(2 * domains / self.gain**2) / 2 if self.depth == 2 else 1.25 * self.gain ** (2 - self.depth)
        return LONG * domains * ITEMS * race * (SLOWER if self.leaky else 1.0)


def measure(tables: list[PairTable], domains: int, steps: int, seeds: int) -> xarray.Dataset:
    """Errors of trained and untrained pairs after training, beside those that are forecast, table by table."""
    errors = np.full((len(tables), seeds, 2), np.nan)
    for routed in (True, False):
        places = [place for place, table in enumerate(tables) if (table.depth == 3) == routed]
        errors[places] = _trained([tables[place] for place in places], domains, steps, seeds, routed)
    patterns = [table.pattern(domains) for table in tables]
    both = list(zip(tables, patterns, strict=True))
    outside = [t.leaky or t.pairs == "hubs" for t in tables]  # the closed form is for linear networks and equal degrees
    closed = [
        np.nan if out else float(PairRace(p, t.gain, 1.0, t.depth).untrained)
        for out, (t, p) in zip(outside, both, strict=True)
    ]
    named = {name: ("table", [getattr(table, name) for table in tables]) for name in PairTable.__dataclass_fields__}
    data = xarray.Dataset(named, coords={"kind": ["trained", "untrained"], "seed": np.arange(seeds)})
    data["error"] = (("table", "seed", "kind"), errors)
    data["closed"] = ("table", closed)  # of untrained pairs by the closed form
    data["wide"] = (("table", "kind"), _wide(tables, patterns))
    data["ratio"] = ("table", [ratio(pattern) for pattern in patterns])
    data["levelled"] = ("table", [ratio(pattern, leveled=True) for pattern in patterns])
    return data


def _trained(tables: list[PairTable], domains: int, steps: int, seeds: int, routed: bool) -> np.ndarray:
    """(table, seed, kind)."""
    conditions = []
    for table in tables:
        rule, time = make_rule(table.time(domains) / steps, None, steps)
        network = _routed(table, domains) if routed else _chain(table, domains)
        conditions.append(Condition(network, initial.orthogonal(table.gain), rule, time))
    runs = train_together(conditions, steps, seeds=seeds, at=[0, steps]) if conditions else []
    found = [
        [pair_errors(stacked(run.weights(seed), domains), table, domains) for seed in range(seeds)]
        for run, table in zip(runs, tables, strict=True)
    ]
    return np.array(found).reshape(len(tables), seeds, 2)


def _routed(table: PairTable, domains: int) -> RoutedNetwork:
    rows, labels = np.eye(ITEMS), np.arange(ITEMS)
    arrays = {"images": rows, "labels": labels, "test_images": rows, "test_labels": labels}
    task = routed_images(arrays, domains, inputs="plain", outputs="plain", pairs=table.pattern(domains))
    return RoutedNetwork(task, table.width, LeakyReLU(SLOPE) if table.leaky else None, biases=False)


def _chain(table: PairTable, domains: int) -> Problem:
    """The same network at another depth."""
    named = routing(domains, table.trained, np.eye(ITEMS), np.eye(ITEMS), table.pairs, table.key)
    return with_depth(named.problem("shared", hidden=table.width), table.depth)


def stacked(weights: Weights, domains: int) -> dict[str, np.ndarray]:
    """The matrices of a routing network, which come in their order from inputs to outputs."""
    matrices = list(weights.values())
    parts = {
        "encoders": matrices[:domains],
        "hidden": matrices[domains:-domains],
        "decoders": matrices[-domains:],
    }
    return {name: np.stack(part) for name, part in parts.items() if part}


def ratio(pairs: np.ndarray, leveled: bool = False) -> float:
    """The ratio of the second to the first singular value."""
    values = spectrum(pairs, leveled=leveled)
    return float(values[1] / values[0])


def pair_errors(weights: dict[str, np.ndarray], table: PairTable, domains: int) -> tuple[float, float]:
    """Squared errors of trained and untrained pairs over that of output zero."""
    activity, decoders = weights["encoders"], weights["decoders"]  # (domain, width, item), ...
    for matrix in weights.get("hidden", ()):
        activity = matrix @ _active(activity, table.leaky)
    outputs = np.einsum("jch,ihn->ijcn", decoders, _active(activity, table.leaky))
    off = np.sum((outputs - np.eye(ITEMS)) ** 2, axis=(2, 3)) / ITEMS
    return pair_means(off, table.pattern(domains))


def pair_means(errors: np.ndarray, pattern: np.ndarray) -> tuple[float, float]:
    """The means over trained and over untrained pairs."""
    return float(errors[pattern].mean()), float(errors[~pattern].mean())


def _active(received: np.ndarray, leaky: bool) -> np.ndarray:
    return np.where(received > 0, received, SLOPE * received) if leaky else received


def _wide(tables: list[PairTable], patterns: list[np.ndarray]) -> np.ndarray:
    """The errors of linear networks by the exact flow at infinite width, (table, kind)."""
    known: dict[PairTable, tuple[float, float]] = {}
    found = np.full((len(tables), 2), np.nan)
    for place, (table, pattern) in enumerate(zip(tables, patterns, strict=True)):
        if table.leaky:
            continue
        alike = replace(table, width=0, series="")
        if alike not in known:
            flow = RoutedFlow(pattern, [[1 / ITEMS]], [[1 / ITEMS]], 1 / ITEMS)
            first = wide_weights(len(pattern), table.gain, table.depth)
            last = flow.follow(first, table.time(len(pattern))).last
            known[alike] = pair_means(2 * ITEMS * flow.errors(last), pattern)
        found[place] = known[alike]
    return found
