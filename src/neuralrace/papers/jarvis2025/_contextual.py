"""Shared parts of P2's contextual figures: the paper's parameters and protocols, and tolerances."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import xarray
from matplotlib.axes import Axes

import neuralrace as nr
from neuralrace.papers.claims import Claims

THEORY_KEY = 1  # training has key 0
KINDS = ("common", "contextual")  # of pathways
GATING = "common + all-but-one"  # as in the text
EVERY_MODULE = f"{GATING} + single"  # the published network with three contexts has both kinds
L1, LOG10 = 0.05, 0.15  # up to here two losses are the same; of the published gated network: 0.043 and 0.110


@dataclass(frozen=True)
class ContextualSettings:
    """The parameters of P2's contextual tasks. width: neurons of a pathway under the paper's protocol."""

    seeds: int = 3
    hidden: int = 700
    width: int = 100
    paper_rate: float = 0.001
    std: float = 0.005 / 700
    steps: int = 8000
    every: int = 100

    @classmethod
    def tiny(cls, **others: Any) -> Self:
        """Settings that take seconds."""
        small = {"seeds": 1, "hidden": 40, "width": 10, "paper_rate": 0.002, "std": 0.01, "steps": 60, "every": 20}
        return cls(**small | others)

    def train(self, network: Any, initial: Any = None, **options: Any) -> nr.Trajectory:
        """Train by the paper's rule, from its initializer (default) or another."""
        rate = self.paper_rate * len(network.task)  # the paper's loss is a sum, ours a mean
        given = {"learning_rate": rate, "steps": self.steps, "every": self.every} | options
        return nr.train(network, initial or nr.initial.gaussian(self.std), **given)

    def relu(self, task: nr.Task, **options: Any) -> nr.Trajectory:
        """Train ReLU networks with one hidden layer."""
        return self.train(nr.ReLUNetwork(task, hidden=(self.hidden,)), **{"seeds": self.seeds} | options)

    @property
    def appendix_h(self) -> Self:
        """The same with the initial weights of P2 appendix H."""
        return replace(self, std=1e-7)

    def protocol(
        self, named: nr.tasks.NamedTask, gating: str, contextual: float = 1.0, **options: Any
    ) -> tuple[nr.Problem, nr.Trajectory]:
        """A gated network trained as in P2 appendix F: beside the common pathway the others see the items only.

        The common pathway descends its own loss, the others the loss of what it leaves; all have the same width.
        contextual: scale of the other pathways' initial weights, relative to the common pathway's.
        """
        problem = named.problem(f"{gating}, items only", hidden=self.width)
        scales = {edge: self.std * (1 if "common" in edge else contextual) for edge in problem.architecture.edges}
        return problem, self.train(problem, nr.initial.gaussian(scales), coupling="residual", **options)


def text_patterns(context: np.ndarray) -> set[tuple[bool, ...]]:
    """The modules of the text: one that is always open, and one per context that is closed in it."""
    return {tuple(np.ones(len(context), dtype=bool)), *(tuple(context != c) for c in np.unique(context))}


def as_set(patterns: np.ndarray) -> set[tuple[bool, ...]]:
    """Patterns without their order; centroids above one half are on."""
    return {tuple(bool(bit) for bit in row) for row in np.asarray(patterns) > 0.5}


def linear_part(task: nr.Task) -> np.ndarray:
    """The projection (N, N) onto what a linear map of the inputs can say about the examples."""
    return np.asarray(task.inputs["x"] @ np.linalg.pinv(task.inputs["x"]))


def left_over(task: nr.Task) -> np.ndarray:
    """What no linear map learns: the targets less their best linear fit."""
    return np.asarray(task.targets["y"] - linear_part(task) @ task.targets["y"])


def on_what_is_left(named: nr.tasks.NamedTask, width: int) -> nr.Problem:
    """Contextual pathways that see the items, on what the common pathway leaves at its end (P2 appendix F)."""
    context, items = named.groups["context"], named.groups["item"]
    task = nr.Task({"item": np.eye(items.max() + 1)[items]}, {"y": left_over(named.task)})
    return nr.reln.gated_problem(task, np.array([context != c for c in np.unique(context)]), width)


def selectivity(named: nr.tasks.NamedTask, run: nr.Trajectory) -> xarray.Dataset:
    """In how many contexts neurons are on for most items at the end, by number, by strength and by chance."""
    context, last = named.groups["context"], nr.reln.gate_samples(run)[:, -1].astype(bool)
    entering, leaving = run.values("final_weights[x->h1]"), run.values("final_weights[h1->y]")
    strength = np.linalg.norm(entering, axis=-1) * np.linalg.norm(leaving, axis=-2)
    data = xarray.Dataset(coords={"active": np.arange(context.max() + 2)})
    data["share"] = ("active", nr.analysis.share_by_groups(last, context))
    data["share_of_strength"] = ("active", nr.analysis.share_by_groups(last, context, strength))
    data["chance"] = ("active", nr.analysis.chance_by_groups(named.task.inputs["x"], context, key=THEORY_KEY))
    return data


def draw_selectivity(axis: Axes, data: xarray.Dataset, title: str) -> None:
    """In how many contexts neurons are on at the end: by number, by strength and by chance."""
    looks = (("share", "relu", 0.5, "neurons"), ("share_of_strength", "relu", 1.0, "by strength"))
    places, bar = data["active"].values, 0.27  # three bars side by side
    for index, (name, kind, alpha, label) in enumerate((*looks, ("chance", "reference", 1.0, "random neurons"))):
        color = nr.plotting.COLORS[kind]
        axis.bar(places + bar * (index - 1), data[name].values, bar, color=color, alpha=alpha, label=label)
    axis.set_xticks(places)
    nr.plotting.label_axes(axis, title, "contexts in which a neuron is on", "share")


def same_losses(claim: Claims, *found: nr.analysis.Agreement, names: Iterable[Any] = ()) -> None:
    """Losses are the same, one or several with a name each."""
    labels = [str(name) for name in names]
    for what, row, limit in (
        ("normalized L1", [one.normalized_l1 for one in found], L1),
        ("log10 gap", [one.log10_gap for one in found], LOG10),
    ):
        claim.at_most(what, dict(zip(labels, row, strict=True)) if labels else row, limit, form=".3f")


def forecast_values(forecast: nr.theory.Forecast) -> dict[str, np.ndarray]:
    """Pathway -> the forecast singular values of its map, (T, modes)."""
    architecture, weights = forecast.architecture, nr.float64(forecast.weights_at)(forecast.time)
    paths = {architecture.target(path.edges[0]): path for path in architecture.paths()}
    maps = {node: [path.product(w) for w in weights] for node, path in paths.items()}
    return {node: np.linalg.svd(found, compute_uv=False) for node, found in maps.items()}


def trained_values(problem: nr.Problem, run: nr.Trajectory) -> dict[str, np.ndarray]:
    """Pathway -> the singular values of its map in the mean over seeds, (T, modes)."""
    paths = {problem.architecture.target(path.edges[0]): path for path in problem.architecture.paths()}
    return {node: run.values(f"path_singular_values[{path}]").mean(axis=0) for node, path in paths.items()}


def by_pathway(name: str, values: dict[str, np.ndarray], modes: int) -> dict[str, np.ndarray]:
    """The common pathway, and the mean over those open in several contexts, as far as there are; (T, modes)."""
    shown = {node: array for node, array in values.items() if not node.startswith("only")}
    kinds = {kind: [a for node, a in shown.items() if (node == "common") == (kind == "common")] for kind in KINDS}
    return {
        f"{name}_{kind}": np.pad(np.mean(found, axis=0), ((0, 0), (0, modes - found[0].shape[1])))
        for kind, found in kinds.items()
        if found
    }


def value_gap(data: xarray.Dataset, theory: str, training: str, kind: str) -> float:
    """Normalized L1 over all singular values and times."""
    trained = data[f"{training}_{kind}"].values
    return float(np.nansum(np.abs(data[f"{theory}_{kind}"].values - trained)) / np.nansum(trained))
