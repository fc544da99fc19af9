"""P1 Fig 6: from the race to the lazy regime as the initial weights grow."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure
from scipy.signal import find_peaks

import neuralrace as nr
from neuralrace.papers._common import Claims, panels
from neuralrace.papers.saxe2022 import _routing as routing


@dataclass(frozen=True)
class Settings:
    """Scales in equal steps, and rates that fall with them."""

    domains: int = 7
    trained: int = 4
    hidden: int = 64
    smallest: float = 0.2
    largest: float = 2.5
    scales: int = 6
    paper_rate: float = 0.006  # divided by the cube root of the scale
    steps: int = 700
    seeds: int = 10


full, tiny = Settings(), Settings(domains=3, trained=2, hidden=8, scales=3, steps=40, seeds=2)
check = routing.check


def compute(settings: Settings) -> xarray.Dataset:
    """Train from random orthogonal weights of every scale."""
    named = nr.tasks.routing(settings.domains, settings.trained)
    problem = named.problem("shared", hidden=settings.hidden)
    scales, parts = np.linspace(settings.smallest, settings.largest, settings.scales), []
    for scale in scales.tolist():
        rate = routing.paper_rate(settings.domains, settings.trained, settings.paper_rate / np.cbrt(scale))
        initial = nr.initial.orthogonal(scale)
        run = nr.train(problem, initial, rate, settings.steps, seeds=settings.seeds)
        ends = (nr.train(problem, initial, rate, 0).weights(0), run.weights(0))
        data = routing.final_state(named, run, settings.hidden)
        data["loss"], data["time"] = (("seed", "step"), run.loss), ("step", run.time)
        kernels = (nr.analysis.tangent_kernel(problem, weights) for weights in ends)
        data["change"] = nr.analysis.kernel_change(*kernels)
        parts.append(data)
    return xarray.concat(parts, "scale").assign_coords(scale=scales)


def stages(time: np.ndarray, loss: np.ndarray) -> int:
    """Count how often the fall of a loss speeds up and slows down again: peaks of its rate at least twice as high."""
    rate = np.maximum(-np.gradient(loss, time), np.finfo(float).tiny)
    peaks, _ = find_peaks(np.log(rate), prominence=np.log(2))
    return int((rate[peaks] > 1e-3 * rate.max()).sum())


def straightness(time: np.ndarray, loss: np.ndarray) -> float:
    """Compute R^2 of a straight line through the logarithm of a loss until 1 % of it is left."""
    until = int(np.argmax(loss <= 0.01 * loss[0])) or len(loss)
    return float(np.corrcoef(time[:until], np.log(loss[:until]))[0, 1] ** 2)


def outputs_right(data: xarray.Dataset) -> np.ndarray:
    """Average the cosine between outputs and targets over the untrained routes of one network, for each scale."""
    outputs = data["outputs"].values[:, 0, ~data["trained"].values[0].astype(bool)]
    sizes = np.linalg.norm(outputs, axis=(-2, -1)) * np.linalg.norm(routing.BASE)
    return np.asarray((np.sum(outputs * routing.BASE, axis=(-2, -1)) / sizes).mean(axis=-1))


def claims(data: xarray.Dataset) -> Claims:
    claim, time, loss = Claims(), data["time"].values, data["loss"].values
    counts = [[stages(time[k], curve) for curve in loss[k]] for k in (0, -1)]
    straight = [nr.analysis.interval([straightness(time[k], curve) for curve in loss[k]]) for k in (0, -1)]
    source = "P1 section 4.3 and Fig 6a"
    claim.paper(source, "Small sigma_0 yields pathway race dynamics with stage-like drops through training.", "a")
    claim.at_least("separate drops of the loss in each network, smallest scale", counts[0], 2, form="g")
    claim.paper(source, "Large sigma_0 yields NTK-like dynamics with rapid, exponential learning curves.", "a")
    claim.at_most("separate drops after the first moment, largest scale", counts[1], 0, form="g")
    claim.at_least("R^2 of a line through log loss until 1% is left", straight[1], 0.95)
    claim.detail(f"smallest scale {straight[0]}")
    trained, untrained = data["error"].mean("seed").values.T / routing.ZERO_OUTPUT
    unit = f" of {routing.ZERO_OUTPUT:g}"
    claim.paper("P1 Fig 6b", "Performance on trained domains is excellent for all scales.", "b")
    claim.at_most("mean trained error at the end", trained, routing.WORKS, unit=unit)
    text = "Zero-shot generalization only emerges in the neural race regime."
    claim.paper("P1 section 4.3 and Fig 6b", text, "b")
    claim.at_most("mean untrained error at the smallest scale", untrained[0], routing.WORKS, unit=unit)
    claim.at_least("at the largest", untrained[-1], 10 * routing.WORKS, unit=unit)
    shares, right = routing.same_item_similarity(data["similarity"].values[:, 0]), outputs_right(data)
    claim.paper(
        "P1 Fig 6c",
        "At small scales representations are similar even across domains; large ones yield distinct random "
        "representations for each domain.",
        "c",
    )
    claim.at_least("mean cosine between the same item in different domains at the smallest scale", shares[0], 0.9)
    claim.at_most("at the largest", shares[-1], 0.2)
    claim.paper(
        "P1 section 4.3 and Fig 6d",
        "Networks in the NTK regime do not generalize to untrained pathways: their outputs there are not the targets.",
        "d",
    )
    claim.at_least("mean cosine between outputs and targets on untrained routes, smallest scale", right[0], 0.99)
    claim.at_most("largest scale", right[-1], 0.9)
    text = "Large initial weights are lazy: the tangent kernel turns the less the larger they are."
    claim.finding("P1 section 4.3: a fixed kernel", text, "A")
    claim.falling("one minus the cosine between the kernel at start and end", data["change"].values, "scale")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """Loss, errors and laziness against scale; similarity and outputs for a small, a middle and a large scale."""
    figure, (loss, errors, lazy, *pictures) = panels("a", "b", "A", "c", "c", "c", "d", "d", "d", height=3.5)
    scales, across = data["scale"].values, r"initial scale $\sigma_0$"
    for index, color in enumerate(nr.plotting.sequence(len(scales))):
        curve = (data["time"].values[index], data["loss"].values[index])
        nr.plotting.training_band(loss, *curve, color, rf"$\sigma_0$ = {scales[index]:.2f}")
    loss.set_xscale("function", functions=(np.sqrt, np.square))  # early and late times at once, without a kink
    loss.set_xlim(left=0.0)
    title = "small weights learn in stages, large ones at once"
    nr.plotting.label_axes(loss, title, nr.plotting.TIME, "loss")
    routing.draw_errors(errors, scales, data["error"], "untrained routes fail as initial weights grow", across)
    lazy.plot(scales, data["change"], "o-", color=nr.plotting.COLORS["gated"])
    nr.plotting.label_axes(lazy, "and the tangent kernel turns less", across, "1 - cosine, start to end")
    first = data.isel(seed=0)
    same, right = routing.same_item_similarity(first["similarity"].values), outputs_right(data)
    largest = float(abs(first["outputs"]).max())
    for *axes, index in zip(pictures[:3], pictures[3:], (0, len(scales) // 2, len(scales) - 1), strict=True):
        at = rf"$\sigma_0$ = {scales[index]:.2f}"
        items = f"{at}: an item in two domains, cosine {same[index]:.2f}"
        routes = f"{at}: untrained outputs and targets, cosine {right[index]:.2f}"
        routing.draw_state(axes, first.isel(scale=index), (items, routes), largest)
    return figure
