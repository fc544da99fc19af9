"""Where the winner takes all: depth, co-occurrence, loss, optimiser and initial scale in one picture."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace.analysis.intervals import interval
from neuralrace.experiments import Claims, Experiment, setting
from neuralrace.experiments.figures._views_measures import winner_share
from neuralrace.experiments.figures._views_training import LOSSES, RULES, Conditions, train_views
from neuralrace.plotting import heat_map, new_panels

AXES = {"depth": "depths", "probability": "probabilities", "loss": "losses", "rule": "rules", "scale": "scales"}
TAKEN = 0.9  # the winner takes all: its share is above this
EVEN = 0.4  # a share of one in three views that counts as even
NEARLY = 0.34  # one that is even but for rounding
OFTEN = 0.8  # a chance below this leaves views apart often


@dataclass(frozen=True)
class Settings:
    """Gated networks, three classes with three views each; probability is the chance of one view given another."""

    depths: tuple[int, ...] = setting((2, 3, 4), least=2)
    probabilities: tuple[float, ...] = setting((0.5, 0.8, 0.95, 0.99, 1.0), above=0, most=1)
    losses: tuple[str, ...] = setting(LOSSES, words=LOSSES)
    rules: tuple[str, ...] = setting(RULES, words=RULES)
    scales: tuple[float, ...] = (0.5, 0.2, 0.1)
    hidden: int = 8
    learning_rate: float = 0.5
    steps: int = 3000
    seeds: int = 6


def compute(settings: Settings) -> xarray.Dataset:
    """Train every cell and keep the winner's share, the mean over classes, at four times."""
    values = [getattr(settings, several) for several in AXES.values()]
    base = Conditions(hidden=settings.hidden, learning_rate=settings.learning_rate)
    conditions = [replace(base, **dict(zip(AXES, cell, strict=True))) for cell in itertools.product(*values)]
    looks = [settings.steps // 8, settings.steps // 4, settings.steps // 2, settings.steps]
    found = train_views(conditions, settings.steps, settings.seeds, looks)
    shape = (*(len(axis) for axis in values), settings.seeds, len(looks))
    shares = winner_share(found["responses"].values).mean(axis=-1).reshape(shape)
    coords = {**dict(zip(AXES, map(list, values), strict=True)), "time": [settings.learning_rate * k for k in looks]}
    return xarray.Dataset({"share": ((*AXES, "seed", "time"), shares)}, coords)


def _last(data: xarray.Dataset) -> xarray.DataArray:
    return data["share"].isel(time=-1)


def claims(data: xarray.Dataset) -> Claims:
    """What the map says."""
    claim = Claims()
    _taking(claim.shown_in("A"), data)
    _catching_up(claim.shown_in("A"), data)
    _causes(claim.shown_in("A"), data)
    return claim


def _taking(claim: Claims, data: xarray.Dataset) -> None:
    everywhere = _last(data).mean("seed")
    spoken = everywhere.sel(loss="squared", rule="flow")
    what = f"part of the cells in which the winner's share is above {TAKEN:g}"
    text = "Learning converges to fixed points where a single pathway dominates and others decay to zero."
    claim.paper("P3 contribution 4 and phase 3: squared error, gradient flow, a pathway for each view (A4)", text)
    claim.at_least(what, float((spoken > TAKEN).mean()), 0.5)
    claim.detail(f"{spoken.size} cells of depth, chance and scale; the most is {float(spoken.max()):.2f}")
    claim.fails(
        "views that are seen apart are all learned in the end, and of views that are always together the "
        "losers keep a part at every depth"
    )
    claim.ours("P3 phase 3, with other losses and rules", "The winner takes all over the whole map.")
    claim.at_least(what, float((everywhere > TAKEN).mean()), 0.5)
    claim.detail(f"of {everywhere.size} cells; the most is {float(everywhere.max()):.2f}")
    claim.fails("it takes depth above 2 and views hardly ever seen apart, and even then others keep a part")


def _catching_up(claim: Claims, data: xarray.Dataset) -> None:
    apart = data["share"].sel(loss="squared", rule="flow").isel(probability=data["probability"].values < 1).mean("seed")
    first, final = apart.isel(time=0), apart.isel(time=-1)
    often = final.isel(probability=apart["probability"].values <= OFTEN).max(["probability", "scale"])
    uneven = (first > NEARLY).values
    text = "Views that are often seen apart have all caught up by the end of training."
    claim.ours("the law with partial co-occurrence: a positive definite D has one end, whatever the start", text)
    claim.at_most(
        f"flow of squared error, chance at most {OFTEN:g}: largest winner's share at the end",
        {f"L = {int(d)}": float(value) for d, value in zip(data["depth"].values, often.values, strict=True)},
        EVEN,
    )
    claim.fails("at depth four and small weights the last views are still coming when training stops")
    text = "Views that are sometimes seen apart are catching up, late in deep networks."
    claim.ours("the law with partial co-occurrence, asked after the claim above had failed", text)
    claim.at_most(
        f"flow of squared error, chance below 1, the winner's share above {NEARLY:g} after an eighth of training: "
        "its change from there to the end",
        (final - first).values[uneven],
        0,
    )


def _causes(claim: Claims, data: xarray.Dataset) -> None:
    share = _last(data)
    squared, entropy = (share.sel(probability=1.0, loss=loss) for loss in ("squared", "cross-entropy"))
    deep = data["depth"].values > 2
    by_depth = squared.mean(["rule", "scale"]).transpose("depth", "seed").values
    smallest, largest = float(data["scale"].min()), float(data["scale"].max())
    small, large = (squared.isel(depth=deep).sel(scale=s).mean(["depth", "rule"]).values for s in (smallest, largest))
    moved = {
        rule: float(np.abs((share.sel(rule=rule) - share.sel(rule="flow")).mean("seed")).max())
        for rule in data["rule"].values
        if rule != "flow"
    }
    claim.paper("P3 question 7", "Deeper networks have stronger winner-take-all.")
    claim.rising(
        "the winner's share, squared error, all views always present,",
        {f"L = {int(d)}": interval(row) for d, row in zip(data["depth"].values, by_depth, strict=True)},
        "depth",
    )
    claim.detail(f"{data.sizes['seed']} seeds")
    text = "The smaller the initial weights, the more the winner takes beyond depth two."
    claim.ours("the race at depth L: a_m^(2-L) keeps its differences", text)
    what = f"the winner's share at scale {smallest:g} less that at {largest:g}, same draws, all views always present,"
    claim.at_least(what, interval(small - large), 0)
    claim.detail(f"{interval(small)} and {interval(large)}")
    text = "Winner-take-all needs squared error: without its saturation the competition term does not emerge."
    claim.paper("P3 on the conditions of winner-take-all", text)
    what = "the winner's share under cross-entropy less that under squared error, chance 1, depth above 2"
    claim.at_most(what, interval((entropy - squared).isel(depth=deep).mean(["depth", "rule", "scale"]).values), 0)
    claim.fails("the error is shared under both losses, and under cross-entropy the race goes on for ever")
    claim.ours("P3 mismatch 4 and idea 3, with a size", "SGD dynamics do not preserve the structure of the race.")
    claim.at_least("by how much a rule moves the mean share of some cell from that of the flow", moved, 0.1)
    claim.fails("all three stay within 0.1 of the flow in every cell at this step")


def draw(data: xarray.Dataset) -> Figure:
    """A panel for each loss and optimiser: the winner's share, depth and scale against co-occurrence."""
    kinds = list(itertools.product(data["loss"].values, data["rule"].values))
    figure, axes = new_panels(len(kinds))
    for axis, (loss, rule) in zip(axes, kinds, strict=True):
        cells = _last(data).sel(loss=loss, rule=rule).mean("seed").transpose("depth", "scale", "probability")
        _draw_cells(axis, cells, f"A  {loss}, {rule}: a winner takes at most {100 * float(cells.max()):.0f} %")
    return figure


def _draw_cells(axis: Axes, cells: xarray.DataArray, title: str) -> None:
    """One picture with its numbers; rows are depth and scale, columns the chance of a view."""
    names = [f"L={int(d)}, {s:g}" for d in cells["depth"].values for s in cells["scale"].values]
    chances = [f"{p:g}" for p in cells["probability"].values]
    shares = cells.values.reshape(-1, len(chances))
    shown = ("chance of a view", "depth, initial scale", "winner's share")
    heat_map(axis, shares, title, *shown, names=(names, chances))
    for i, j in np.ndindex(*shares.shape):
        colour = "white" if shares[i, j] > 0.6 else "black"
        axis.text(j, i, f"{shares[i, j]:.2f}", ha="center", va="center", fontsize=9, color=colour)


EXPERIMENT = Experiment(
    name="views-map",
    title="Where the winner takes all: depth, co-occurrence, loss, optimiser, initial scale",
    source="P3",
    full=Settings(),
    tiny=Settings(depths=(3,), probabilities=(0.5, 1.0), scales=(0.5, 0.2), hidden=2, steps=40, seeds=2),
    compute=compute,
    claims=claims,
    draw=draw,
    differs="P3 gives no network. The cells that it speaks of are those of squared error and the flow; the rest of the "
    "map is ours.",
    finding="The winner takes nearly all only in deep networks, from small weights, on views that are hardly "
    "ever seen apart; nowhere does it take everything.",
    seconds=43,
)
