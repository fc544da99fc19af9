"""Who wins the race of views: P3's initial advantage beside the exact end, over random races."""

import itertools
from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.plotting import COLOURS, label_axes, new_figure
from neuralrace.views.measure import interval, proportion, winner_share
from neuralrace.views.winner import score_rules, two_layer_end

CLASSES = 3


@dataclass(frozen=True)
class Settings:
    """Strengths are log-normal with spread 0.5 about the scale, rates log-normal with each of the spreads."""

    depths: tuple[int, ...] = (2, 3, 4, 6)
    spreads: tuple[float, ...] = (0.0, 0.03, 0.1, 0.3, 1.0)
    scales: tuple[float, ...] = (0.3, 0.1, 0.01, 0.001)
    views: int = 3
    draws: int = 400
    widths: tuple[int, ...] = (3, 8, 32, 128, 512)
    networks: int = 100


def compute(settings: Settings) -> xarray.Dataset:
    """Score the rules, and find what random two-layer pathways of growing width leave to the winner."""
    data = score_rules(
        settings.depths, settings.spreads, settings.scales, views=settings.views, draws=settings.draws, seed=0
    )
    random = np.random.default_rng(1)
    largest = []
    for width in settings.widths:
        shape = (settings.networks, settings.views, width, CLASSES)
        ends = two_layer_end(random.standard_normal(shape), np.swapaxes(random.standard_normal(shape), -1, -2))
        right = np.einsum("smkk->skm", ends)
        lone = (CLASSES * right - np.einsum("smjk->skm", ends)) / (CLASSES - 1)
        largest.append(winner_share(lone).mean(axis=-1))
    data["width_share"] = (("width", "network"), np.array(largest))
    return data.assign_coords(width=list(settings.widths))


def claims(data: xarray.Dataset) -> list[Claim]:
    """P3's rule, where it is right, and what decides instead."""
    right = data["right"].sel(rule="advantage")
    cells = right.mean("draw")
    worst = cells.argmin(...)
    at = {name: float(cells[name][int(index)]) for name, index in worst.items()}
    shallow = {float(s): proportion(right.sel(depth=2, spread=s).values) for s in data["spread"].values}
    three = proportion(right.sel(depth=3).values)
    small = data["scale"].values <= 0.01
    deep = data["right"].sel(rule="blow-up").isel(depth=data["depth"].values > 2, scale=small)
    even = data["right"].sel(rule="head start", spread=0.0)
    width = [interval(row) for row in data["width_share"].values]
    return [
        Claim(
            "The largest sigma_m s_m(0) wins, in more than 80 % of races whatever their depth, rates and scale.",
            "P3 winner determination",
            "paper",
            "above 80 % in every cell of depth, spread of the rates and initial scale (exact races, Wilson interval)",
            f"least {float(cells.min()):.3f} at depth {at['depth']:g}, spread {at['spread']:g}, scale {at['scale']:g}; "
            f"depth 2 over all scales: {'; '.join(f'spread {s:g}: {value}' for s, value in shallow.items())}",
            float(cells.min()) > 0.8,
            "refuted: at depth 2 the rate counts exponentially, beyond depth 3 the start counts more than the rate",
        ),
        Claim(
            "At depth three the rule is right.",
            "P3's rule, read at L = 3: the first to blow up has the largest sigma_m a_m(0)",
            "paper",
            "at least 95 % over all spreads and scales",
            str(three),
            three.mean >= 0.95,
        ),
        Claim(
            "Beyond depth two the largest sigma_m a_m(0)^(L-2) wins from small strengths.",
            "exact race, small initial strengths",
            "paper",
            "at least 99 % for scales up to 0.01, any depth above 2 and any spread",
            str(proportion(deep.values)) if deep.size else "no such cell",
            bool(deep.size) and float(deep.mean()) >= 0.99,
        ),
        Claim(
            "With equal rates the first at the start wins.",
            "P3 on symmetric views",
            "paper",
            "every race",
            str(proportion(even.values)),
            bool(even.values.all()),
        ),
        Claim(
            "Wide pathways of depth two leave no winner: their random starts are alike.",
            "exact end of random two-layer pathways",
            "paper",
            f"the winner's share falls with width to within 0.05 of 1/M = {1 / 3:.3f}",
            "; ".join(f"width {int(w)}: {value}" for w, value in zip(data["width"].values, width, strict=True)),
            width[-1].mean - 1 / 3 < 0.05 and all(a.mean > b.mean for a, b in itertools.pairwise(width)),
        ),
    ]


def draw(data: xarray.Dataset) -> Figure:
    """How often P3's rule is right at each depth and scale, and the winner's share against width."""
    figure, axes = new_figure(3, width=4.4, height=3.4)
    for axis, rule in zip(axes[0, :2], ("advantage", "blow-up"), strict=True):
        cells = data["right"].sel(rule=rule).mean("draw")
        for index, depth in enumerate(data["depth"].values):
            shade = 0.3 + 0.7 * (index + 1) / data.sizes["depth"]
            scores = cells.sel(depth=depth)
            places = np.arange(data.sizes["spread"])
            axis.fill_between(places, scores.min("scale"), scores.max("scale"), color=COLOURS["gated"], alpha=0.1)
            axis.plot(places, scores.mean("scale"), "o-", color=COLOURS["gated"], alpha=shade, label=f"depth {depth:g}")
        axis.axhline(0.8, color=COLOURS["reference"], linewidth=0.8)
        axis.set_xticks(range(data.sizes["spread"]), [f"{s:g}" for s in data["spread"].values])
        axis.set_ylim(0, 1.05)
        name = "P3's rule, sigma a(0)" if rule == "advantage" else "sigma a(0)^(L-2)"
        label_axes(axis, f"{name}: mean and range over scales", "spread of the rates (log)", "right about the winner")
    values = [interval(row) for row in data["width_share"].values]
    means = [value.mean for value in values]
    axes[0, 2].errorbar(
        data["width"],
        means,
        [value.mean - value.low for value in values],
        fmt="o-",
        color=COLOURS["gated"],
        label="depth 2",
    )
    axes[0, 2].axhline(1 / 3, color=COLOURS["reference"], linewidth=0.8)
    axes[0, 2].set_xscale("log")
    label_axes(axes[0, 2], "random pathways, exact end", "width of a pathway", "winner's share")
    return figure


EXPERIMENT = Experiment(
    name="views-winner",
    title="Who wins the race of views, and how well the initial advantage tells",
    source="P3",
    full=Settings(),
    tiny=Settings(depths=(2, 3), spreads=(0.0, 0.3), scales=(0.1, 0.01), draws=8, widths=(3, 8), networks=4),
    compute=compute,
    claims=claims,
    draw=draw,
)
