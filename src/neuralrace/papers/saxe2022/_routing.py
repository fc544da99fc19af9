"""What the routing figures share: the paper's units, errors on trained and untrained routes, and their pictures."""

import numpy as np
import xarray
from matplotlib.axes import Axes

import neuralrace as nr

BASE = nr.tasks.routing(1, 1).task.targets["y0"]  # the data set of every route, one item per row; inputs are one-hot
ITEMS, OUTPUTS = BASE.shape
MODES = np.linalg.svd(BASE, compute_uv=False) / ITEMS  # S of the data set, strongest first; D of every mode is 1/4
ZERO_OUTPUT = 0.5 * float(np.sum(BASE**2))  # the error of a route whose output is zero, 122
WORKS = 0.01  # a route works when its error is below this part of ZERO_OUTPUT


def paper_rate(domains: int, trained: int, rate: float) -> float:
    """The paper's learning rate in units of ours.

    The paper descends the sum over K M routes of a mean squared error over 4 x 7 entries, without the half: 2 K M / 7
    times our loss. This is the one place where its units are converted.
    """
    return 2 * trained * domains / OUTPUTS * rate


def final_state(named: nr.tasks.NamedTask, run: nr.Trajectory, hidden: int) -> xarray.Dataset:
    """What networks do on all routes at the end of training.

    outputs: (seed, source, sink, item, output). error: half the squared error of a route, the mean over trained and
    over untrained routes; NaN where there is no such route. similarity: cosines between the hidden activities of all
    items, domain by domain, which do not depend on the output.
    """
    complete = named.complete()
    problem, domains = complete.problem("shared", hidden=hidden), len(complete.groups["trained"])
    domains = round(np.sqrt(domains / ITEMS))
    outputs, similarity = [], []
    for seed in range(len(run.loss)):
        activity = problem.activity(run.weights(seed))
        found = np.sum([activity[node] for node in problem.task.targets], axis=0)
        outputs.append(found.reshape(domains, domains, ITEMS, -1))
        hidden_rows = activity["h1"].reshape(domains, domains, ITEMS, -1)[:, 0]
        similarity.append(nr.analysis.cosine_similarity(hidden_rows.reshape(domains * ITEMS, -1)))
    trained = complete.groups["trained"].astype(bool).reshape(domains, domains, ITEMS)[..., 0]
    errors = 0.5 * np.sum((np.array(outputs) - BASE) ** 2, axis=(-2, -1))
    kinds = [errors[:, one].mean(axis=1) if one.any() else np.full(len(errors), np.nan) for one in (trained, ~trained)]
    data = xarray.Dataset({"trained": (("source", "sink"), trained)})
    data["outputs"] = (("seed", "source", "sink", "item", "output"), np.array(outputs))
    data["error"] = (("seed", "kind"), np.stack(kinds, axis=1))
    data["similarity"] = (("seed", "example", "other"), np.array(similarity))
    return data


def same_item_similarity(similarity: np.ndarray) -> np.ndarray:
    """The mean similarity between the same item in different domains; (..., examples, examples) in that order."""
    index = np.arange(similarity.shape[-1])
    same = (index[:, None] % ITEMS == index % ITEMS) & (index[:, None] // ITEMS != index // ITEMS)
    return similarity[..., same].mean(axis=-1)


def draw_errors(axis: Axes, places: np.ndarray, error: xarray.DataArray, title: str, horizontal: str) -> None:
    """The errors of trained and untrained routes: every network, and the mean; below a line a route works.

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


def draw_similarity(axis: Axes, similarity: np.ndarray, title: str) -> None:
    """Similarity between items of all input domains."""
    names = "item, by input domain"
    nr.plotting.heat_map(axis, similarity, title, names, names, "cosine", blocks=(ITEMS, ITEMS), largest=1.0)


def draw_outputs(axis: Axes, outputs: np.ndarray, title: str, largest: float | None = None) -> None:
    """Outputs on all routes, (source, sink, item, output)."""
    picture = outputs.swapaxes(1, 2).reshape(len(outputs) * ITEMS, -1)
    words, blocks = ("output domain", "input domain", "output"), (ITEMS, OUTPUTS)
    nr.plotting.heat_map(axis, picture, title, *words, blocks=blocks, largest=largest)
