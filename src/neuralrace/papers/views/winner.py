"""Who wins the race of views: P3's initial advantage beside the exact end, over random races."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import panels
from neuralrace.papers.claims import Claims, enumerated
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.settings import setting
from neuralrace.papers.views._measures import coverage, lone_responses, two_layer_end, winner_share

CLASSES = 3
SMALL = 0.01  # initial scales up to this are small


@dataclass(frozen=True)
class Settings:
    """Strengths are log-normal with spread 0.5 about the scale, rates log-normal with each of the spreads."""

    depths: tuple[int, ...] = (2, 3, 4, 6)
    spreads: tuple[float, ...] = (0.0, 0.03, 0.1, 0.3, 1.0)
    scales: tuple[float, ...] = (0.3, 0.1, 0.01, 0.001)
    views: int = setting(3, least=2)
    draws: int = 400
    widths: tuple[int, ...] = (3, 8, 32, 128, 512)
    networks: int = 100
    classes: tuple[int, ...] = (3, 5, 10, 20, 50, 100)
    class_networks: int = 20


def compute(settings: Settings) -> xarray.Dataset:
    """Score the rules, and find what random two-layer pathways leave to the winner by width and by classes."""
    data, random = score_rules(settings), np.random.default_rng(1)

    def ends(networks: int, width: int, classes: int) -> np.ndarray:
        """The exact answers of random two-layer pathways to each view alone, (networks, K, M)."""
        shape = (networks, settings.views, width, classes)
        first, last = random.standard_normal(shape), np.swapaxes(random.standard_normal(shape), -1, -2)
        return lone_responses(two_layer_end(first, last))

    widths = [winner_share(ends(settings.networks, width, CLASSES)).mean(axis=-1) for width in settings.widths]
    # a pathway as wide as there are classes: the least that can learn them all
    classes = [coverage(ends(settings.class_networks, count, count)).mean(axis=-1) for count in settings.classes]
    data["width_share"] = (("width", "network"), np.array(widths))
    data["class_coverage"] = (("classes", "class_network"), np.array(classes))
    data.attrs["views"] = settings.views
    return data.assign_coords(width=list(settings.widths), classes=list(settings.classes))


def score_rules(settings: Settings) -> xarray.Dataset:
    """How often each rule names the exact winner over random races, `right` (rule, depth, spread, scale, draw).

    advantage: P3's A_m = sigma_m s_m(0). head start: the largest strength. blow-up: r_m a_m(0)^(L-2), the inverse of
    the clock reading at which view m alone would blow up, but for a common factor. The same normal draws serve every
    cell.
    """
    axes = {"depth": settings.depths, "spread": settings.spreads, "scale": settings.scales}
    starts, speeds = np.random.default_rng(0).standard_normal((2, settings.draws, settings.views))
    L, spread, scale = (one[..., None] for one in np.meshgrid(*axes.values(), indexing="ij"))
    strengths, rates = scale[..., None] * np.exp(0.5 * starts), np.exp(speeds * spread[..., None])
    race = nr.views.race(strengths, rates, np.broadcast_to(L, strengths.shape[:-1]))
    scores = {
        "advantage": rates * strengths,
        "head start": strengths,
        "blow-up": rates * strengths ** (L[..., None] - 2.0),
    }
    right = [np.broadcast_to(score, strengths.shape).argmax(axis=-1) == race.winner for score in scores.values()]
    coords: dict[str, Any] = {"rule": list(scores), **{name: list(values) for name, values in axes.items()}}
    return xarray.Dataset({"right": (("rule", *axes, "draw"), np.array(right))}, coords)


def claims(data: xarray.Dataset) -> Claims:
    """P3's rule, where it is right, and what decides instead."""
    claim, right, depths = Claims(), data["right"].sel(rule="advantage"), data["depth"].values
    lowest = {f"L = {d:g}": float(right.sel(depth=d).mean("draw").min()) for d in depths}
    whole = {f"L = {d:g}": nr.analysis.proportion(right.sel(depth=d).values) for d in depths}
    deep = data["right"].sel(rule="blow-up").isel(depth=depths > 2, scale=data["scale"].values <= SMALL).values
    named = "P3 winner determination"
    text = "In exact races the initial advantage names the winner in more than 80 % of cases, at any rates and scale."
    claim.finding(f"{named} and prediction 2, in its own equation and at depth L", text, "A")
    claim.at_least("part of races in which the largest sigma_m s_m(0) wins, in the worst cell", lowest, 0.8)
    claim.detail(f"over all cells: {enumerated(whole)}")
    claim.fails("at depth 2 the rate counts more, beyond depth 3 the start counts more than the rate")
    text = "Beyond depth two the largest sigma_m a_m(0)^(L-2) wins from small strengths."
    claim.finding("exact race, small initial strengths; at depth three this is P3's rule", text, "B")
    what = f"races, for scales up to {SMALL:g}, any depth above 2 and any rates,"
    claim.at_least(what, nr.analysis.proportion(deep) if deep.size else np.nan, 0.99)
    text = "For symmetric views the winner is purely determined by initialization: the first at the start wins."
    claim.check(f"{named}; algebra of the equation", text, "A, B")
    claim.at_least("races with equal rates", data["right"].sel(rule="head start", spread=0.0).values.mean(), 1)

    def intervals(axis: str, name: str) -> dict[str, nr.analysis.Interval]:
        return {
            f"{axis} {at}": nr.analysis.interval(row)
            for at, row in zip(data[axis].values, data[name].values, strict=True)
        }

    even, covered, width = (
        1 / data.attrs["views"],
        intervals("classes", "class_coverage"),
        intervals("width", "width_share"),
    )
    excess = np.log([part.mean - even for part in covered.values()])
    source = "P3 coverage prediction: depth two, the exact end of random pathways as wide as there are classes"
    claim.paper(source, "After training C(f) = 1/M + O(1/sqrt(K)): approximately one view per class is learned.", "D")
    claim.at_most("slope of log(C - 1/M) over log K", np.polyfit(np.log(data["classes"].values), excess, 1)[0], -0.5)
    claim.detail(f"coverage {'; '.join(f'{name}: {part}' for name, part in covered.items())}")
    claim.fails(
        "the shares are those of the start, which the more classes there are the more are alike; coverage goes to one"
    )
    text = "Wide pathways of depth two leave no winner: their random starts are alike."
    claim.finding("exact end of random two-layer pathways", text, "C")
    claim.falling("the winner's share", width, "width")
    claim.at_most("at the greatest width, less 1/M,", list(width.values())[-1].high - even, 0.05)
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """How often P3's rule is right at each depth and scale, and what random pathways leave to the winner."""
    figure, (own, better, widths, classes) = panels("A", "B", "C", "D", columns=2, width=4.4)
    _draw_rule(own, data, "advantage", r"P3's rule, largest $\sigma a(0)$, is right at depth 3")
    _draw_rule(better, data, "blow-up", r"the largest $\sigma a(0)^{L-2}$ is right beyond depth 2")
    for axis, name, values, title, vertical in (
        (widths, "width", data["width_share"], "wide pathways leave no winner", "winner's share"),
        (classes, "classes", data["class_coverage"], "more classes, more views learned", "coverage"),
    ):
        nr.plotting.interval_points(
            axis,
            data[name],
            list(map(nr.analysis.interval, values.values)),
            fmt="o-",
            color=nr.plotting.COLORS["gated"],
        )
        axis.axhline(1 / data.attrs["views"], color=nr.plotting.COLORS["reference"], linewidth=0.8)
        axis.set_xscale("log")
        nr.plotting.label_axes(axis, title, f"{name} of a network of depth 2", vertical)
    return figure


def _draw_rule(axis: Axes, data: xarray.Dataset, rule: str, title: str) -> None:
    """How often a rule is right: the mean and the range over scales, for each depth."""
    cells, places = data["right"].sel(rule=rule).mean("draw"), np.arange(data.sizes["spread"])
    for depth, color in zip(data["depth"].values, nr.plotting.sequence(data.sizes["depth"]), strict=True):
        scores = cells.sel(depth=depth)
        axis.fill_between(places, scores.min("scale"), scores.max("scale"), color=color, alpha=0.15, linewidth=0)
        axis.plot(places, scores.mean("scale"), "o-", color=color, label=f"depth {depth:g}")
    axis.axhline(0.8, color=nr.plotting.COLORS["reference"], linewidth=0.8)
    axis.set_xticks(places, [f"{spread:g}" for spread in data["spread"].values])
    axis.set_ylim(0, 1.05)
    nr.plotting.label_axes(axis, title, "spread of the rates (log)", "right about the winner")


EXPERIMENT = Experiment(
    name="views-winner",
    full=Settings(),
    tiny=Settings(
        depths=(2, 3),
        spreads=(0.0, 0.3),
        scales=(0.1, 0.01),
        draws=8,
        widths=(3, 8),
        networks=4,
        classes=(3, 4),
        class_networks=2,
    ),
    compute=compute,
    claims=claims,
    draw=draw,
    differs="P3 gives no spread of strengths and rates, no scale and no width; all are ours.",
    finding="The initial advantage names the winner in 98 % of races at depth three; at depth two the rate "
    "counts more, beyond three the start does.",
)
