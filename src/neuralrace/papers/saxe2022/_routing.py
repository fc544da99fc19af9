"""What the routing figures share: the units of the paper, errors on trained and untrained routes, and the pictures."""

from collections.abc import Iterable

import numpy as np
import xarray
from matplotlib.axes import Axes

from neuralrace.analysis import cosine_similarity
from neuralrace.plotting import COLORS, heat_map, label_axes
from neuralrace.tasks import NamedTask
from neuralrace.tasks.named.routing import TARGETS
from neuralrace.trajectory import Trajectory

BASE = np.array(TARGETS, dtype=np.float64)  # the data set of every route, one item per row; inputs are one-hot
ITEMS, OUTPUTS = BASE.shape
MODES = np.linalg.svd(BASE, compute_uv=False) / ITEMS  # S of the base data set, strongest first
VARIANCE = 1 / ITEMS  # D of every mode
ZERO_OUTPUT = 0.5 * float(np.sum(BASE**2))  # the error of a route on which the network says nothing, 122
SMALL = 1e-6  # errors below this are drawn as none
WORKS = 0.01  # a route works when its error is below this part of ZERO_OUTPUT


def paper_rate(domains: int, trained: int, rate: float) -> float:
    """The paper's learning rate in units of ours.

    The paper descends the sum over K M routes of a mean squared error over 4 x 7 entries, without the half: 2 K M / 7
    times our loss. This is the one place where its units are converted.
    """
    return 2 * trained * domains / OUTPUTS * rate


def final_state(named: NamedTask, run: Trajectory, hidden: int) -> xarray.Dataset:
    """What networks do on all routes at the end of training.

    trained: which routes are. outputs: as `outputs_by_route` has them. error: half the squared error of a route's 4 x 7
    outputs, the mean over trained and over untrained routes; output zero gives 122, and NaN stands where no such route
    is. similarity: cosines between the hidden activities of all items, domain by domain, which do not depend on the
    output.
    """
    complete = named.complete()
    problem, seeds = complete.problem("shared", hidden=hidden), range(len(run.loss))
    seen = [problem.activity(run.weights(seed)) for seed in seeds]
    trained = _by_route(complete.groups["trained"].astype(bool))[..., 0, 0]
    outputs = np.stack([outputs_by_route([one[node] for node in problem.task.targets]) for one in seen])
    layers = [_by_route(one["h1"])[:, 0] for one in seen]
    errors, none = 0.5 * np.sum((outputs - BASE) ** 2, axis=(-2, -1)), [np.nan for _ in seeds]
    kinds = [errors[:, chosen].mean(axis=1) if chosen.any() else none for chosen in (trained, ~trained)]
    data = xarray.Dataset({"trained": (("source", "sink"), trained)})
    data["outputs"] = (("seed", "source", "sink", "item", "output"), outputs)
    data["error"] = (("seed", "kind"), np.stack(kinds, axis=1))
    similarity = [cosine_similarity(layer.reshape(-1, layer.shape[-1])) for layer in layers]
    data["similarity"] = (("seed", "example", "other"), np.stack(similarity))
    return data


def outputs_by_route(outputs: Iterable[np.ndarray]) -> np.ndarray:
    """(Input domain, output domain, item, output), of all output nodes on the complete task; unused ones are zero."""
    return _by_route(np.sum(list(outputs), axis=0))


def _by_route(rows: np.ndarray) -> np.ndarray:
    """What there is of each example of the complete task, (input domain, output domain, item, ...)."""
    domains = round(np.sqrt(len(rows) / ITEMS))
    return rows.reshape(domains, domains, ITEMS, -1)


def same_item_similarity(similarity: np.ndarray) -> np.ndarray:
    """The mean similarity between the same item in different domains; (..., examples, examples) in that order."""
    index = np.arange(similarity.shape[-1])
    same = (index[:, None] % ITEMS == index % ITEMS) & (index[:, None] // ITEMS != index // ITEMS)
    return similarity[..., same].mean(axis=-1)


def draw_errors(axis: Axes, places: np.ndarray, error: xarray.DataArray, title: str, horizontal: str) -> None:
    """The errors of trained and untrained routes over seeds: every network, and their mean; below a line a route works.

    On a log axis down to SMALL, since errors differ by many orders; below that it is linear.
    """
    for index, (kind, name) in enumerate((("gated", "trained routes"), ("untrained", "untrained routes"))):
        values = error.isel(kind=index)
        axis.plot(places, values.mean("seed"), "o-", color=COLORS[kind], label=f"{name}, mean")
        axis.plot(places, values.transpose(..., "seed").values, ".", color=COLORS[kind], markersize=3, alpha=0.4)
    axis.axhline(WORKS * ZERO_OUTPUT, color=COLORS["reference"], linewidth=0.8, label="below it a route works")
    axis.set_yscale("symlog", linthresh=SMALL, linscale=1.0)
    axis.set_ylim(0.0, 3 * float(error.max()))
    label_axes(axis, title, horizontal, "error of a route")


def draw_similarity(axis: Axes, similarity: np.ndarray, title: str) -> None:
    """Similarity between items of all input domains."""
    names = "item, by input domain"
    heat_map(axis, similarity, title, names, names, "cosine", blocks=(ITEMS, ITEMS), largest=1.0)


def draw_outputs(axis: Axes, outputs: np.ndarray, title: str, largest: float | None = None) -> None:
    """Outputs on all routes, as `outputs_by_route` gives them."""
    blocks, domains = (ITEMS, OUTPUTS), len(outputs)
    picture = outputs.swapaxes(1, 2).reshape(domains * ITEMS, domains * OUTPUTS)
    heat_map(axis, picture, title, "output domain", "input domain", "output", blocks=blocks, largest=largest)
