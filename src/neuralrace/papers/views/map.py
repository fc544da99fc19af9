"""Where the winner takes all: depth, co-occurrence, loss, optimizer and initial scale in one picture."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace.analysis.intervals import Interval, interval
from neuralrace.papers.claims import Claims, enumerated
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.settings import setting
from neuralrace.papers.views._measures import winner_share
from neuralrace.papers.views._training import CLASSES, LOSSES, RULES, VIEWS, Conditions, train_views
from neuralrace.plotting import COLORS, heat_map, interval_points, label_axes, new_panels, sequence

AXES = {"depth": "depths", "probability": "probabilities", "loss": "losses", "rule": "rules", "scale": "scales"}
TAKEN = 0.9  # the winner takes all: its share is above this
EVEN = 0.4  # a share of one in three views that counts as even
NEARLY = 0.34  # one that is even but for rounding
OFTEN = 0.8  # a chance below this leaves views apart often
BELOW = (1 / 3, 2 / 3, 0.95)  # step sizes over 2K/L, at which the minimum that a winner reaches turns unstable
ABOVE = (0.25, 0.5, 0.75, 0.95)  # on from there, in logarithms, of the way to where the even minimum does
SCALE = 0.25  # of the initial weights of the scan over step sizes, as in views-gated
COUNTS = 0.05  # of the winner's share: a change that counts


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
    data = xarray.Dataset({"share": ((*AXES, "seed", "time"), shares)}, coords)
    return xarray.merge([data, _scan(settings)])


def _scan(settings: Settings) -> xarray.Dataset:
    """The winner's share after descent at step sizes up to where nothing is stable, and after the flow, by depth.

    At a minimum of the squared error where one of M views that are always together has all, the largest eigenvalue of
    the Hessian is L/K; where all are even it is (L/K) M^-(1 - 2/L). Descent leaves a minimum where it exceeds 2/step.
    """
    base = Conditions(hidden=settings.hidden, learning_rate=settings.learning_rate, scale=SCALE)
    scanned = []
    for depth in settings.depths:
        edge = 2 * CLASSES / depth
        steps = [edge * part for part in BELOW]
        steps += [edge * VIEWS ** ((1 - 2 / depth) * part) for part in ABOVE if depth > 2]
        scanned += [replace(base, depth=depth, rule="flow")]
        scanned += [replace(base, depth=depth, learning_rate=step) for step in steps]
    found = train_views(scanned, settings.steps, settings.seeds, [settings.steps])
    data = xarray.Dataset()
    data["scan_share"] = (("scan", "seed"), winner_share(found["responses"].values[:, :, -1]).mean(axis=-1))
    data["scan_depth"] = ("scan", [given.depth for given in scanned])
    data["scan_step"] = ("scan", [0.0 if given.rule == "flow" else given.learning_rate for given in scanned])
    return data


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
    kinds = {"squared error, flow": everywhere.sel(loss="squared", rule="flow"), "all losses and rules": everywhere}
    claim.finding("P3 phase 3, over depth, chance and scale", "The winner takes all over the whole map.")
    what = f"part of the cells in which the winner's share is above {TAKEN:g}"
    claim.at_least(what, {name: float((cells > TAKEN).mean()) for name, cells in kinds.items()}, 0.5)
    most = "; ".join(f"{name}: {cells.size} cells, at most {float(cells.max()):.2f}" for name, cells in kinds.items())
    claim.detail(most)
    claim.fails(
        "views that are seen apart are all learned in the end, and of views that are always together the losers keep a "
        "part; it takes depth above 2 and cross-entropy to come near"
    )


def _catching_up(claim: Claims, data: xarray.Dataset) -> None:
    apart = data["share"].sel(loss="squared", rule="flow").isel(probability=data["probability"].values < 1).mean("seed")
    first, final = apart.isel(time=0), apart.isel(time=-1)
    often = final.isel(probability=apart["probability"].values <= OFTEN).max(["probability", "scale"])
    uneven = (first > NEARLY).values
    text = "Views that are often seen apart have all caught up by the end of training."
    claim.finding("the law with partial co-occurrence: a positive definite D has one end, whatever the start", text)
    claim.at_most(
        f"flow of squared error, chance at most {OFTEN:g}: largest winner's share at the end",
        {f"L = {int(d)}": float(value) for d, value in zip(data["depth"].values, often.values, strict=True)},
        EVEN,
    )
    claim.fails("at depth four and small weights the last views are still coming when training stops")
    text = "Views that are sometimes seen apart are catching up, late in deep networks."
    claim.finding("the law with partial co-occurrence, asked after the claim above had failed", text)
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
    text = "Deeper networks have stronger winner-take-all, over all rules and scales."
    claim.finding("P3 question 7, over the map", text)
    claim.rising(
        "the winner's share, squared error, all views always present,",
        {f"L = {int(d)}": interval(row) for d, row in zip(data["depth"].values, by_depth, strict=True)},
        "depth",
    )
    claim.detail(f"{data.sizes['seed']} seeds")
    text = "The smaller the initial weights, the more the winner takes beyond depth two."
    claim.finding("the race at depth L: a_m^(2-L) keeps its differences", text)
    what = f"the winner's share at scale {smallest:g} less that at {largest:g}, same draws, all views always present,"
    claim.at_least(what, interval(small - large), 0)
    claim.detail(f"{interval(small)} and {interval(large)}")
    text = "Beyond depth two winner-take-all needs squared error."
    claim.finding("P3 on the conditions of winner-take-all, at depth", text)
    what = "the winner's share under cross-entropy less that under squared error, chance 1, depth above 2"
    claim.at_most(what, interval((entropy - squared).isel(depth=deep).mean(["depth", "rule", "scale"]).values), 0)
    claim.fails("the error is shared under both losses, and under cross-entropy the race goes on for ever")
    _step_sizes(claim.shown_in("B"), data, f"at the step of the map a cell moves by at most {enumerated(moved)}")


def _scan_of(data: xarray.Dataset, depth: int) -> tuple[np.ndarray, list[Interval]]:
    """Step sizes over 2K/L and the winner's share over the seeds that do not diverge, where there are any."""
    chosen = (data["scan_depth"].values == depth) & np.isfinite(data["scan_share"].values).any(axis=1)
    shares = data["scan_share"].values[chosen]
    return data["scan_step"].values[chosen] * depth / (2 * CLASSES), [interval(row[~np.isnan(row)]) for row in shares]


def _step_sizes(claim: Claims, data: xarray.Dataset, other_rules: str) -> None:
    """P3 asks when SGD preserves the race; its mismatch 4 says that it does not."""
    changed, undone = {}, {}
    for depth in data["depth"].values:
        step, spans = _scan_of(data, depth)
        share = np.array([span.mean for span in spans])
        changed[f"L = {depth}"] = float(np.abs(share[(step > 0) & (step < 1)] - share[0]).max())
        if depth > 2:
            undone[f"L = {depth}"] = share[step > 1]
    text = "Up to a step of 2K/L descent preserves the race, at depth two always: there no larger step is stable."
    claim.finding("P3 mismatch 4 and idea 3: the winner's minimum has sharpness L/K", text)
    claim.at_most("largest change of the winner's share from the flow", changed, COUNTS)
    claim.detail(other_rules)
    text = "From a step of 2K/L to (2K/L) M^(1 - 2/L) descent undoes the race: only shares near even are stable."
    claim.finding("P3 mismatch 4 and idea 3: the even minimum has sharpness (L/K) M^-(1 - 2/L)", text)
    for name, shares in undone.items():
        claim.falling(f"the winner's share, {name},", shares, "the step")
    last = {name: float(shares[-1]) - 1 / VIEWS for name, shares in undone.items()}
    claim.at_most("the last of them less 1/M", last, 0.1)
    diverged = int(np.isnan(data["scan_share"].values).sum())
    claim.detail(f"{diverged} of {data['scan_share'].size} runs diverged and are left out" if diverged else "")


def draw(data: xarray.Dataset) -> Figure:
    """A panel for each loss and optimizer, depth and scale against co-occurrence, and one over step sizes."""
    kinds = list(itertools.product(data["loss"].values, data["rule"].values))
    figure, axes = new_panels(len(kinds) + 1)
    _draw_steps(axes[-1], data)
    for axis, (loss, rule) in zip(axes, kinds, strict=False):
        cells = _last(data).sel(loss=loss, rule=rule).mean("seed").transpose("depth", "scale", "probability")
        _draw_cells(axis, cells, f"A  {loss}, {rule}: a winner takes at most {100 * float(cells.max()):.0f} %")
    return figure


def _draw_steps(axis: Axes, data: xarray.Dataset) -> None:
    """The winner's share over the step size in units of the one from which the winner's minimum is unstable."""
    for depth, color in zip(data["depth"].values, sequence(data.sizes["depth"]), strict=True):
        interval_points(axis, *_scan_of(data, depth), fmt="o-", color=color, label=f"depth {depth}")
        axis.axvline(VIEWS ** (1 - 2 / depth), color=color, linestyle=":", linewidth=1)
    axis.axhline(1 / VIEWS, color=COLORS["reference"], linewidth=0.8)
    title = "B  steps above 2K/L undo the race"
    label_axes(axis, title, "step over 2K/L (0: flow; dotted: all diverges)", "winner's share")


def _draw_cells(axis: Axes, cells: xarray.DataArray, title: str) -> None:
    """One picture with its numbers; rows are depth and scale, columns the chance of a view."""
    names = [f"L={int(d)}, {s:g}" for d in cells["depth"].values for s in cells["scale"].values]
    chances = [f"{p:g}" for p in cells["probability"].values]
    shares = cells.values.reshape(-1, len(chances))
    shown = ("chance of a view", "depth, initial scale", "winner's share")
    heat_map(axis, shares, title, *shown, names=(names, chances))
    for i, j in np.ndindex(*shares.shape):
        color = "white" if shares[i, j] > 0.6 else "black"
        axis.text(j, i, f"{shares[i, j]:.2f}", ha="center", va="center", fontsize=9, color=color)


EXPERIMENT = Experiment(
    name="views-map",
    full=Settings(),
    tiny=Settings(depths=(3,), probabilities=(0.5, 1.0), scales=(0.5, 0.2), hidden=2, steps=40, seeds=2),
    compute=compute,
    claims=claims,
    draw=draw,
    differs="P3 gives no network. The cells that it speaks of are those of squared error and the flow; the rest of the "
    "map is ours.",
    finding="The winner takes nearly all only in deep networks, from small weights, on views that are hardly "
    "ever seen apart; nowhere does it take everything, and steps above 2K/L undo the race.",
)
