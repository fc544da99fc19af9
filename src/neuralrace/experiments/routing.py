"""What the routing figures share: the units of the paper, errors on trained and untrained routes, and the pictures."""

import numpy as np
import xarray
from matplotlib.axes import Axes

from neuralrace.axes import Weights
from neuralrace.plotting import COLOURS, heat_map, label_axes
from neuralrace.problem import Problem
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


def route_errors(named: NamedTask, run: Trajectory, hidden: int) -> np.ndarray:
    """Half the squared error of a route's 4 x 7 outputs at the end of training, (seeds, 2).

    Averaged over trained and over untrained routes. Output zero gives 122. NaN where no such route is.
    """
    problem, trained = named.evaluation("shared", hidden=hidden), named.complete().groups["trained"].astype(bool)
    found = np.full((len(run.loss), 2), np.nan)
    for seed in range(len(found)):
        outputs = problem.forward(run.weights(seed))
        squared = sum(np.sum((outputs[node] - rows) ** 2, axis=1) for node, rows in problem.task.targets.items())
        for kind, chosen in enumerate((trained, ~trained)):
            if chosen.any():
                found[seed, kind] = 0.5 * ITEMS * float(np.mean(squared[chosen]))
    return found


def representation_order(named: NamedTask) -> np.ndarray:
    """One example for each item and input domain, domain by domain; hidden activity does not depend on the output."""
    source, sink, item = (named.groups[group] for group in ("input domain", "output domain", "item"))
    first = np.flatnonzero(sink == 0)
    return first[np.lexsort((item[first], source[first]))]


def same_item_similarity(similarity: np.ndarray) -> np.ndarray:
    """The mean similarity between the same item in different domains; (..., examples, examples) in that order."""
    index = np.arange(similarity.shape[-1])
    same = (index[:, None] % ITEMS == index % ITEMS) & (index[:, None] // ITEMS != index // ITEMS)
    return similarity[..., same].mean(axis=-1)


def output_picture(problem: Problem, weights: Weights, named: NamedTask) -> np.ndarray:
    """The outputs of all routes: a row for each item and input domain, seven columns for each output domain."""
    outputs = problem.forward(weights)
    source, sink, item = (named.groups[group] for group in ("input domain", "output domain", "item"))
    domains = int(source.max()) + 1
    picture = np.zeros((domains * ITEMS, domains * OUTPUTS))
    for example in range(len(source)):
        columns = slice(OUTPUTS * sink[example], OUTPUTS * (sink[example] + 1))
        picture[ITEMS * source[example] + item[example], columns] = outputs[f"y{sink[example]}"][example]
    return picture


def outputs_by_route(picture: np.ndarray) -> np.ndarray:
    """The outputs of `output_picture` route by route, (..., input domain, output domain, item, output)."""
    rows, columns = picture.shape[-2] // ITEMS, picture.shape[-1] // OUTPUTS
    return np.swapaxes(picture.reshape(*picture.shape[:-2], rows, ITEMS, columns, OUTPUTS), -3, -2)


def draw_errors(axis: Axes, places: np.ndarray, error: xarray.DataArray, title: str, horizontal: str) -> None:
    """The errors of trained and untrained routes over seeds: every network, and their mean; below a line a route works.

    On a log axis down to SMALL, since errors differ by many orders; below that it is linear.
    """
    for index, (kind, name) in enumerate((("gated", "trained routes"), ("untrained", "untrained routes"))):
        values = error.isel(kind=index)
        axis.plot(places, values.mean("seed"), "o-", color=COLOURS[kind], label=f"{name}, mean")
        axis.plot(places, values.transpose(..., "seed").values, ".", color=COLOURS[kind], markersize=3, alpha=0.4)
    axis.axhline(WORKS * ZERO_OUTPUT, color=COLOURS["reference"], linewidth=0.8, label="below it a route works")
    axis.set_yscale("symlog", linthresh=SMALL, linscale=1.0)
    axis.set_ylim(0.0, 3 * float(error.max()))
    label_axes(axis, title, horizontal, "error of a route")


def draw_similarity(axis: Axes, similarity: np.ndarray, title: str) -> None:
    """Similarity between items of all input domains."""
    names = "item, by input domain"
    heat_map(axis, similarity, title, names, names, "cosine", blocks=(ITEMS, ITEMS), largest=1.0)


def draw_outputs(axis: Axes, outputs: np.ndarray, title: str, largest: float | None = None) -> None:
    """Outputs on all routes, as `output_picture` gives them."""
    blocks = (ITEMS, OUTPUTS)
    heat_map(axis, outputs, title, "output domain", "input domain", "output", blocks=blocks, largest=largest)
