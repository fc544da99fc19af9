"""P3's predictions measured on gated networks with a pathway of its own for every view."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace.experiments.claim import HOLDS, Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.plotting import COLOURS, label_axes, new_figure
from neuralrace.views.campaign import Plan, run_campaign
from neuralrace.views.findings import findings
from neuralrace.views.measure import coverage, interval, winner_share

SAYS = {
    "early growth": ("Before views compete, each grows exponentially at its own rate sigma.", "P3 phase 1"),
    "growth at depth": ("Deeper networks grow exponentially at the same rate.", "P3 phase 1, at depth"),
    "prediction": ("The initial advantage names the winner in more than 80 % of cases.", "P3 winner determination"),
    "losers": ("The views that lose decay to zero.", "P3 phase 3"),
    "coverage": ("About one view per class is learned: coverage is near 1/M.", "P3 coverage prediction"),
    "winners": ("Another seed makes another view win.", "P3 prediction 4"),
    "ratio": ("The ratio of losing to winning strength decays exponentially.", "P3 prediction 5"),
    "deeper": ("Deeper networks leave more to the winner.", "P3 on depth"),
    "cross-entropy": ("Cross-entropy does not saturate.", "P3 on the loss function"),
    "cross-entropy race": ("Without saturation there is less of a winner.", "P3 on the missing saturation"),
    "momentum": ("Momentum evens the shares of the views.", "P3 on the optimiser"),
    "distillation": ("A teacher's soft targets keep all views.", "P3 on distillation"),
    "distillation, views apart": (
        "A teacher's soft targets keep more views where views are sometimes missing.",
        "P3 on distillation",
    ),
    "competition loss": ("An explicit competition loss brings the winner back in standard training.", "P3 idea 1"),
}
RECORD = {
    "growth at depth": "refuted: at depth L the rate is sigma a^(L-2), which is no constant",
    "prediction": "refuted: the length of a path's product says little about its part along the class, which the exact "
    "forecast uses",
    "losers": "refuted: they keep nearly all that they gained; once the target is explained nothing moves",
    "coverage": "refuted: at depth 2 the shares are those of the start, and at depth 3 and 4 the losers keep a part",
    "ratio": "refuted: it is constant at depth 2 with equal rates, and otherwise falls only until the target is "
    "explained",
    "cross-entropy race": "refuted: views that are always together share the error of cross-entropy too, so they run "
    "on one clock, which never stops; beyond depth 2 the winner gains more",
    "momentum": "refuted: nothing at depth 2 and about 0.03 beyond at this step, which shrinks with the step",
    "distillation": "refuted: where all views are always together any target drives all of them by one error",
}


@dataclass(frozen=True)
class Settings:
    """Three classes with three views each, all of length one; sigma = 1/3 where every view is always present."""

    depths: tuple[int, ...] = (2, 3, 4)
    hidden: int = 8
    scale: float = 0.25
    learning_rate: float = 0.5
    steps: int = 1500
    seeds: int = 30


def compute(settings: Settings) -> xarray.Dataset:
    """Train the gated networks of the campaign."""
    return run_campaign(plan("gated", settings))


def plan(network: str, settings: Settings) -> Plan:
    """The campaign that the settings ask for."""
    return Plan(
        network,
        settings.depths,
        settings.hidden,
        settings.scale,
        learning_rate=settings.learning_rate,
        steps=settings.steps,
        seeds=settings.seeds,
    )


def recorded_claims(data: xarray.Dataset, record: Mapping[str, str]) -> list[Claim]:
    """The findings of a campaign with the verdicts on record."""
    seeds = data.sizes["seed"]
    return [
        Claim(
            SAYS[found.name][0],
            SAYS[found.name][1],
            "paper",
            found.expected,
            f"{found.measured} ({data.attrs['network']}, {seeds} seeds, mean and 95 % interval)",
            found.holds,
            record.get(found.name, HOLDS),
        )
        for found in findings(data)
    ]


def claims(data: xarray.Dataset) -> list[Claim]:
    """P3's claims for gated networks."""
    return recorded_claims(data, RECORD)


def draw(data: xarray.Dataset) -> Figure:
    """Strengths over time at two depths, and the winner's share and coverage of every training."""
    figure, axes = new_figure(4, width=4.2, height=3.6)
    depths = [int(depth) for depth in np.atleast_1d(data.attrs["depths"])]
    for axis, depth in zip(axes[0, :2], (depths[0], depths[-1]), strict=True):
        _strengths(axis, data, depth)
    kinds = ("flow", "momentum", "entropy", "standard", "compete", "student", "student, all views")
    for axis, measure, title in ((axes[0, 2], winner_share, "winner's share"), (axes[0, 3], coverage, "coverage")):
        for index, depth in enumerate(depths):
            values = [interval(_final(data, f"{kind} L{depth}", measure)) for kind in kinds]
            heights = np.array([value.mean for value in values])
            reach = np.array([[value.mean - value.low, value.high - value.mean] for value in values]).T
            places = np.arange(len(kinds)) + 0.15 * (index - (len(depths) - 1) / 2)
            shade = 0.4 + 0.6 * (index + 1) / len(depths)
            axis.errorbar(
                places,
                heights,
                reach,
                fmt="o",
                alpha=shade,
                color=COLOURS[data.attrs["network"]],
                label=f"depth {depth}",
            )
        axis.axhline(1 / data.attrs["views"], color=COLOURS["reference"], linewidth=0.8)
        axis.set_xticks(range(len(kinds)), kinds, rotation=40, ha="right")
        label_axes(axis, f"{title} (mean and 95 % interval)", "training", title)
    return figure


def _final(data: xarray.Dataset, name: str, measure: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    values = measure(data["responses"].sel(trial=name).values[:, -1]).mean(axis=-1)
    there = values[np.isfinite(values)]
    return np.asarray(there if there.size else [0.0])


def _strengths(axis: Axes, data: xarray.Dataset, depth: int) -> None:
    """Every view of every class of one seed."""
    curve = data["strengths"].sel(trial=f"flow L{depth}").values[0]
    time = data["time"].sel(trial=f"flow L{depth}").values
    for cls, view in np.ndindex(*curve.shape[1:]):
        best = curve[-1, cls].argmax() == view
        axis.plot(
            time[1:],
            curve[1:, cls, view],
            color=COLOURS[data.attrs["network"]],
            alpha=1.0 if best else 0.35,
            linewidth=1.2,
        )
    axis.set_xscale("log")
    label_axes(axis, f"depth {depth}, one seed: winners dark", "time t (learning rate x step)", "strength of a view")


EXPERIMENT = Experiment(
    name="views-gated",
    title="The race of views: every prediction measured on gated networks",
    source="P3",
    full=Settings(),
    tiny=Settings(depths=(3,), hidden=2, scale=0.5, steps=60, seeds=2),
    compute=compute,
    claims=claims,
    draw=draw,
)
