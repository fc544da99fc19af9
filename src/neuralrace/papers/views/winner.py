"""Who wins the race of views: P3's initial advantage beside the exact end, over random races."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, enumerated, panels, setting

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


full, tiny = (
    Settings(),
    Settings((2, 3), (0.0, 0.3), (0.1, 0.01), draws=8, widths=(3, 8), networks=4, classes=(3, 4), class_networks=2),
)


def compute(settings: Settings) -> xarray.Dataset:
    """Score rules over random races, and find what random two-layer pathways leave to the winner.

    right: how often a rule names the exact winner, (rule, depth, spread, scale, draw); the same draws serve every cell.
    advantage: P3's A_m = sigma_m s_m(0). head start: the largest strength. blow-up: r_m a_m(0)^(L-2), the inverse of
    the clock reading at which view m alone would blow up, but for a common factor.
    """
    axes = {"depth": settings.depths, "spread": settings.spreads, "scale": settings.scales}
    starts, speeds = np.random.default_rng(0).standard_normal((2, settings.draws, settings.views))
    L, spread, scale = (one[..., None, None] for one in np.meshgrid(*axes.values(), indexing="ij"))
    strengths, rates = scale * np.exp(0.5 * starts), np.exp(speeds * spread)
    race = nr.views.race(strengths, rates, np.broadcast_to(L[..., 0], strengths.shape[:-1]))
    scores = {"advantage": rates * strengths, "head start": strengths, "blow-up": rates * strengths ** (L - 2.0)}
    right = [np.broadcast_to(score, strengths.shape).argmax(axis=-1) == race.winner for score in scores.values()]
    coords: dict[str, Any] = {"rule": list(scores), **{name: list(values) for name, values in axes.items()}}
    data = xarray.Dataset({"right": (("rule", *axes, "draw"), np.array(right))}, coords)
    random = np.random.default_rng(1)

    def ends(networks: int, width: int, classes: int) -> np.ndarray:
        """The exact answers of random two-layer pathways to each view alone, (networks, K, M)."""
        shape = (networks, settings.views, width, classes)
        first, last = random.standard_normal(shape), np.swapaxes(random.standard_normal(shape), -1, -2)
        return lone_responses(two_layer_end(first, last))

    widths = [winner_share(ends(settings.networks, width, 3)).mean(axis=-1) for width in settings.widths]
    # a pathway as wide as there are classes: the least that can learn them all
    classes = [coverage(ends(settings.class_networks, count, count)).mean(axis=-1) for count in settings.classes]
    data["width_share"] = (("width", "network"), np.array(widths))
    data["class_coverage"] = (("classes", "class_network"), np.array(classes))
    data.attrs["views"] = settings.views
    return data.assign_coords(width=list(settings.widths), classes=list(settings.classes))


def shares(responses: Any) -> np.ndarray:
    """Return the part of each view in what a class knows, summing to one; a response below zero counts as none.

    responses: the answer for the right class to a view that is shown alone, (..., M). A class that answers no view at
    all counts as even.
    """
    known = np.maximum(np.asarray(responses, dtype=np.float64), 0.0)
    total = known.sum(axis=-1, keepdims=True)
    return np.divide(known, total, out=np.full_like(known, 1.0 / known.shape[-1]), where=~(total <= 0))


def winner_share(responses: Any) -> np.ndarray:
    """Return the largest share, from 1/M (even) to 1 (the winner takes all)."""
    return np.asarray(shares(responses).max(axis=-1))


def coverage(responses: Any) -> np.ndarray:
    """Return P3's C(f) without a threshold: the effective number of views, 1 / sum of squared shares, over M."""
    return np.asarray(1.0 / (shares(responses) ** 2).mean(axis=-1) / np.shape(responses)[-1] ** 2)


def lone_responses(maps: Any) -> np.ndarray:
    """Return the output for the class less the mean of the others, for each view alone: (..., M, K, K) to (..., K, M).

    Column k of the map P_m of a pathway answers view m of class k.
    """
    P = np.asarray(maps)
    right, total = np.einsum("...mkk->...km", P), np.einsum("...mjk->...km", P)
    return np.asarray((P.shape[-1] * right - total) / (P.shape[-1] - 1))


def two_layer_end(first: Any, last: Any) -> np.ndarray:
    """Return the maps P_m that parallel two-layer pathways end with, in the limit of small initial weights; (M, K, K).

    For views of length one that are always together, one-hot targets. first: (M, h, K). last: (M, K, h). Early on only
    A_m = (W1_m + W2_m^T)/2 grows, and then dA_m/dt = A_m (1 - C)/K with C = sum_n A_n^T A_n common to all views, so P_m
    ends as C^(-1/2) A_m^T A_m C^(-1/2).
    """
    A = (np.asarray(first) + np.swapaxes(np.asarray(last), -1, -2)) / 2
    each = np.swapaxes(A, -1, -2) @ A
    values, vectors = np.linalg.eigh(each.sum(axis=-3))
    root = (vectors / np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return np.asarray(root[..., None, :, :] @ each @ root[..., None, :, :])


def claims(data: xarray.Dataset) -> Claims:
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

    def over(axis: str, name: str) -> dict[str, nr.analysis.Interval]:
        return {f"{axis} {at}": nr.analysis.interval(data[name].sel({axis: at})) for at in data[axis].values}

    even, covered, width = 1 / data.attrs["views"], over("classes", "class_coverage"), over("width", "width_share")
    excess = np.log([part.mean - even for part in covered.values()])
    source = "P3 coverage prediction: depth two, the exact end of random pathways as wide as there are classes"
    claim.paper(source, "After training C(f) = 1/M + O(1/sqrt(K)): approximately one view per class is learned.", "D")
    claim.at_most("slope of log(C - 1/M) over log K", np.polyfit(np.log(data["classes"].values), excess, 1)[0], -0.5)
    claim.detail("coverage " + "; ".join(f"{name}: {part}" for name, part in covered.items()))
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
    places = np.arange(data.sizes["spread"])
    for axis, rule, title in (
        (own, "advantage", r"P3's rule, largest $\sigma a(0)$, is right at depth 3"),
        (better, "blow-up", r"the largest $\sigma a(0)^{L-2}$ is right beyond depth 2"),
    ):
        cells = data["right"].sel(rule=rule).mean("draw")
        for depth, color in zip(data["depth"].values, nr.plotting.sequence(data.sizes["depth"]), strict=True):
            scores = cells.sel(depth=depth)
            axis.fill_between(places, scores.min("scale"), scores.max("scale"), color=color, alpha=0.15, linewidth=0)
            axis.plot(places, scores.mean("scale"), "o-", color=color, label=f"depth {depth:g}")
        axis.axhline(0.8, color=nr.plotting.COLORS["reference"], linewidth=0.8)
        axis.set_xticks(places, [f"{spread:g}" for spread in data["spread"].values])
        axis.set_ylim(0, 1.05)
        nr.plotting.label_axes(axis, title, "spread of the rates (log)", "right about the winner")
    for axis, name, values, title, vertical in (
        (widths, "width", data["width_share"], "wide pathways leave no winner", "winner's share"),
        (classes, "classes", data["class_coverage"], "more classes, more views learned", "coverage"),
    ):
        intervals, color = list(map(nr.analysis.interval, values.values)), nr.plotting.COLORS["gated"]
        nr.plotting.interval_points(axis, data[name], intervals, fmt="o-", color=color)
        axis.axhline(1 / data.attrs["views"], color=nr.plotting.COLORS["reference"], linewidth=0.8)
        axis.set_xscale("log")
        nr.plotting.label_axes(axis, title, f"{name} of a network of depth 2", vertical)
    return figure
