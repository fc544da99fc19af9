"""Shared parts of the routing figures: the paper's units, errors on trained and untrained routes, drawing."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes

import neuralrace as nr

BASE = nr.tasks.routing(1, 1).task.targets["y0"]  # the data set of every route, one item per row; inputs are one-hot
ITEMS, OUTPUTS = BASE.shape
ZERO_OUTPUT = 0.5 * float(np.sum(BASE**2))  # the error of a route whose output is zero, 122
WORKS = 0.01  # a route works when its error is below this part of ZERO_OUTPUT
FINER = 4  # how many times smaller the step is at which conservation is checked


def check(settings: Any) -> None:
    """Refuse a number of trained routes that is larger than the number of domains."""
    nr.tasks.routing(settings.domains, settings.trained)


def paper_rate(domains: int, trained: int, rate: float) -> float:
    """Convert the paper's learning rate to units of ours.

    The paper descends the sum over K M routes of a mean squared error over 4 x 7 entries, without the half: 2 K M / 7
    times our loss. This is the one place where its units are converted.
    """
    return 2 * trained * domains / OUTPUTS * rate


def final_state(named: nr.tasks.NamedTask, run: nr.Trajectory, hidden: int) -> xarray.Dataset:
    """Evaluate networks on all routes at the end of training.

    outputs: (seed, source, sink, item, output). error: half the squared error of a route, the mean over trained and
    over untrained routes; NaN where there is no such route. similarity: cosines between the hidden activities of all
    items, domain by domain, which do not depend on the output.
    """
    complete = nr.tasks.get(named.name, **{**named.settings, "routes": "all"})
    problem, trained = complete.problem("shared", hidden=hidden), complete.groups["trained"].astype(bool)
    domains = round(np.sqrt(len(trained) / ITEMS))
    shape = (domains, domains, ITEMS, -1)
    outputs, similarity = [], []
    for seed in range(len(run.loss)):
        activity = problem.activity(run.weights(seed))
        outputs.append(np.sum([activity[node] for node in problem.task.targets], axis=0).reshape(shape))
        one_output = activity["h1"].reshape(shape)[:, 0]
        similarity.append(nr.analysis.cosine_similarity(one_output.reshape(domains * ITEMS, -1)))
    trained = trained.reshape(shape)[..., 0, 0]
    errors = 0.5 * np.sum((np.array(outputs) - BASE) ** 2, axis=(-2, -1))
    kinds = [errors[:, one].mean(axis=1) if one.any() else np.full(len(errors), np.nan) for one in (trained, ~trained)]
    data = xarray.Dataset({"trained": (("source", "sink"), trained)})
    data["outputs"] = (("seed", "source", "sink", "item", "output"), np.array(outputs))
    data["error"] = (("seed", "kind"), np.stack(kinds, axis=1))
    data["similarity"] = (("seed", "example", "other"), np.array(similarity))
    return data


def same_item_similarity(similarity: np.ndarray) -> np.ndarray:
    """Average the similarity of the same item in different domains; (..., examples, examples) in that order."""
    index = np.arange(similarity.shape[-1])
    same = (index[:, None] % ITEMS == index % ITEMS) & (index[:, None] // ITEMS != index // ITEMS)
    return similarity[..., same].mean(axis=-1)


def draw_errors(axis: Axes, places: np.ndarray, error: xarray.DataArray, title: str, horizontal: str) -> None:
    """Draw the errors of trained and untrained routes, of every network and in the mean; below a line a route works.

    On a log axis, since errors differ by many orders; below 1e-6 it is linear.
    """
    for index, (kind, name) in enumerate((("gated", "trained routes"), ("untrained", "untrained routes"))):
        values, color = error.isel(kind=index), nr.plotting.COLORS[kind]
        axis.plot(places, values.mean("seed"), "o-", color=color, label=f"{name}, mean")
        axis.plot(places, values.transpose(..., "seed").values, ".", color=color, markersize=3, alpha=0.4)
    color = nr.plotting.COLORS["reference"]
    axis.axhline(WORKS * ZERO_OUTPUT, color=color, linewidth=0.8, label="below it a route works")
    axis.set_yscale("symlog", linthresh=1e-6, linscale=1.0)
    axis.set_ylim(0.0, 3 * float(error.max()))
    nr.plotting.label_axes(axis, title, horizontal, "error of a route")


def draw_state(
    axes: Sequence[Axes], state: xarray.Dataset, titles: tuple[str, str], largest: float | None = None
) -> None:
    """Draw the similarity of items over all input domains, and the outputs on all routes, of one network."""
    words = ("item, by input domain", "item, by input domain", "cosine")
    similarity, blocks = state["similarity"].values, (ITEMS, ITEMS)
    nr.plotting.heat_map(axes[0], similarity, titles[0], *words, blocks=blocks, largest=1.0)
    words, blocks = ("output domain", "input domain", "output"), (ITEMS, OUTPUTS)
    outputs = state["outputs"].transpose("source", "item", "sink", "output").values
    outputs = outputs.reshape(len(outputs) * ITEMS, -1)
    nr.plotting.heat_map(axes[1], outputs, titles[1], *words, blocks=blocks, largest=largest)
