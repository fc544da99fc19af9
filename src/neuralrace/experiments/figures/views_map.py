"""Where the winner takes all: depth, co-occurrence, loss, optimiser and initial scale in one picture."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.plotting import new_figure
from neuralrace.views.measure import coverage, interval, winner_share
from neuralrace.views.sweep import sweep
from neuralrace.views.trial import Trial

AXES = ("depth", "probability", "loss", "rule", "scale")
TAKEN = 0.9  # the winner takes all: its share is above this
EVEN = 0.4  # a share of one in three views that is nearly even


@dataclass(frozen=True)
class Settings:
    """Gated networks, three classes with three views each; probability is the chance of one view given another."""

    depths: tuple[int, ...] = (2, 3, 4)
    probabilities: tuple[float, ...] = (0.5, 0.8, 0.95, 0.99, 1.0)
    losses: tuple[str, ...] = ("squared", "cross-entropy")
    rules: tuple[str, ...] = ("flow", "descent", "mini-batch", "momentum")
    scales: tuple[float, ...] = (0.5, 0.2, 0.1)
    hidden: int = 8
    learning_rate: float = 0.5
    steps: int = 3000
    seeds: int = 6


def compute(settings: Settings) -> xarray.Dataset:
    """Train every cell and keep the winner's share and the coverage, each the mean over classes, at four times."""
    values = (settings.depths, settings.probabilities, settings.losses, settings.rules, settings.scales)
    base = Trial(hidden=settings.hidden, learning_rate=settings.learning_rate)
    trials = [
        replace(base, depth=depth, probability=probability, loss=loss, rule=rule, scale=scale)
        for depth, probability, loss, rule, scale in itertools.product(*values)
    ]
    looks = [settings.steps // 8, settings.steps // 4, settings.steps // 2, settings.steps]
    found = sweep(trials, settings.steps, settings.seeds, looks)
    responses = found["responses"].values
    shape = (*(len(axis) for axis in values), settings.seeds, len(looks))
    names = (*AXES, "seed", "time")
    return xarray.Dataset(
        {
            "share": (names, winner_share(responses).mean(axis=-1).reshape(shape)),
            "coverage": (names, coverage(responses).mean(axis=-1).reshape(shape)),
            "training_loss": (names, found["loss"].values.reshape(shape)),
        },
        coords={**dict(zip(AXES, map(list, values), strict=True)), "time": [settings.learning_rate * k for k in looks]},
    )


def _last(data: xarray.Dataset, name: str = "share") -> xarray.DataArray:
    return data[name].isel(time=-1)


def _apart(data: xarray.Dataset, rule: str) -> xarray.DataArray:
    """How far a rule's shares lie from those of the flow, seed by seed."""
    return _last(data).sel(rule=rule) - _last(data).sel(rule="flow")


def claims(data: xarray.Dataset) -> list[Claim]:
    """What the map says."""
    return [*_taking(data), *_catching_up(data), *_causes(data)]


def _taking(data: xarray.Dataset) -> list[Claim]:
    mean = _last(data).mean("seed")
    taken = int((mean > TAKEN).sum())
    return [
        Claim(
            "The winner takes all.",
            "P3 phase 3, over the map",
            "paper",
            f"the winner's share is above {TAKEN} in most cells",
            f"in {taken} of {mean.size} cells; the most is {float(mean.max()):.2f}",
            taken > mean.size / 2,
            "refuted: it takes depth above 2 and views hardly ever seen apart, and even then others keep a part",
        ),
    ]


def _catching_up(data: xarray.Dataset) -> list[Claim]:
    apart = data["share"].sel(loss="squared", rule="flow").isel(probability=data["probability"].values < 1).mean("seed")
    uneven = apart.isel(time=0) > 0.34
    falling = (apart.isel(time=-1) < apart.isel(time=0)) | ~uneven
    often = apart.isel(time=-1, probability=apart["probability"].values <= 0.8).max(["probability", "scale"])
    by_depth = ", ".join(f"L = {int(d)}: {v:.2f}" for d, v in zip(data["depth"].values, often.values, strict=True))
    return [
        Claim(
            "Views that are often seen apart have all caught up by the end of training.",
            "the law with partial co-occurrence: a positive definite D has one end, whatever the start",
            "paper",
            f"flow of squared error, p at most 0.8: the winner's share at the end is below {EVEN} at every depth",
            by_depth,
            bool((often < EVEN).all()),
            "refuted: at depth four and small weights the last views are still coming when training stops",
        ),
        Claim(
            "Views that are sometimes seen apart are catching up, late in deep networks.",
            "the law with partial co-occurrence: a positive definite D has one end, whatever the start",
            "paper",
            "flow of squared error, p below 1: the winner's share falls from an eighth of training to its end in every "
            "cell where it was not even by then (asked after the claim above had failed)",
            f"in {int((falling & uneven).sum())} of {int(uneven.sum())} cells",
            bool(falling.all()),
        ),
    ]


def _causes(data: xarray.Dataset) -> list[Claim]:
    share = _last(data)
    squared, entropy = (share.sel(probability=1.0, loss=loss) for loss in ("squared", "cross-entropy"))
    deep = data["depth"].values > 2
    gain = interval((entropy - squared).isel(depth=deep).mean(["depth", "rule", "scale"]).values)
    by_depth = [
        interval(always_seed.values) for always_seed in squared.mean(["rule", "scale"]).transpose("depth", "seed")
    ]
    noisy = {
        rule: float(np.abs(_apart(data, rule).mean("seed")).max()) for rule in ("descent", "mini-batch", "momentum")
    }
    smallest, largest = float(data["scale"].min()), float(data["scale"].max())
    small, large = (squared.isel(depth=deep).sel(scale=s).mean(["depth", "rule"]).values for s in (smallest, largest))
    return [
        Claim(
            "The deeper the network, the more the winner takes.",
            "P3 on depth; the race at depth L",
            "paper",
            "all views always present, squared error: the share rises with depth, least and most apart",
            "; ".join(f"L = {int(d)}: {v}" for d, v in zip(data["depth"].values, by_depth, strict=True)),
            all(a.mean < b.mean for a, b in itertools.pairwise(by_depth)) and by_depth[0].high < by_depth[-1].low,
        ),
        Claim(
            "The smaller the initial weights, the more the winner takes beyond depth two.",
            "the race at depth L: a_m^(2-L) keeps its differences",
            "paper",
            f"all views always present, squared error: more at scale {smallest:g} than at {largest:g}, same draws",
            f"{interval(small)} and {interval(large)}; difference {interval(small - large)}",
            interval(small - large).low > 0,
        ),
        Claim(
            "Winner-take-all needs squared error; cross-entropy has none.",
            "P3 on the loss function",
            "paper",
            "all views always present, depth above 2: the share under cross-entropy is below that under squared error",
            f"cross-entropy less squared error: {gain}",
            gain.high < 0,
            "refuted: the error is shared under both losses, and under cross-entropy the race goes on for ever",
        ),
        Claim(
            "Gradient descent, mini-batches and momentum do not preserve the race of the flow.",
            "P3 on the optimiser",
            "paper",
            "each moves the mean share of some cell by more than 0.1 from that of the flow",
            "; ".join(f"{rule}: at most {value:.3f}" for rule, value in noisy.items()),
            min(noisy.values()) > 0.1,
            "refuted: all three stay within 0.1 of the flow in every cell at this step",
        ),
    ]


def draw(data: xarray.Dataset) -> Figure:
    """A panel for each loss and optimiser, depth and scale against co-occurrence; the last column is coverage."""
    losses, rules = data["loss"].values, data["rule"].values
    figure, axes = new_figure(len(rules) + 1, len(losses), width=3.0, height=3.3)
    for row, loss in enumerate(losses):
        for column, rule in enumerate(rules):
            cells = _last(data).sel(loss=loss, rule=rule)
            shares = _panel(axes[row, column], cells, f"{loss}, {rule}", named=column == 0)
        cells = _last(data, "coverage").sel(loss=loss, rule=rules[0])
        covered = _panel(axes[row, -1], cells, f"{loss}, {rules[0]}: coverage", named=False)
    figure.colorbar(shares, ax=axes[:, :-1], shrink=0.7).ax.set_title("share", fontsize=8)
    figure.colorbar(covered, ax=axes[:, -1], shrink=0.7).ax.set_title("coverage", fontsize=8)
    return figure


def _panel(axis: Axes, values: xarray.DataArray, title: str, *, named: bool) -> AxesImage:
    """One picture with its numbers; rows are depth and scale, columns the chance of a view."""
    ordered = values.mean("seed").transpose("depth", "scale", "probability")
    cells = ordered.values.reshape(-1, ordered.sizes["probability"])
    picture = axis.imshow(cells, cmap="viridis", vmin=1 / 3, vmax=1.0, aspect="auto", interpolation="nearest")
    names = [f"L={int(d)}, {s:g}" for d in ordered["depth"].values for s in ordered["scale"].values]
    axis.set_xticks(range(cells.shape[1]), [f"{p:g}" for p in ordered["probability"].values], fontsize=8)
    axis.set_yticks(range(len(names)), names if named else [""] * len(names), fontsize=8)
    for edge in range(1, ordered.sizes["depth"]):
        axis.axhline(edge * ordered.sizes["scale"] - 0.5, color="white", linewidth=1.5)
    for i, j in np.ndindex(*cells.shape):
        colour = "black" if cells[i, j] > 0.75 else "white"
        axis.text(j, i, f"{cells[i, j]:.2f}", ha="center", va="center", fontsize=6, color=colour)
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("chance of a view", fontsize=9)
    axis.set_ylabel("depth, initial scale" if named else "", fontsize=9)
    return picture


EXPERIMENT = Experiment(
    name="views-map",
    title="Where the winner takes all: depth, co-occurrence, loss, optimiser, initial scale",
    source="P3",
    full=Settings(),
    tiny=Settings(depths=(3,), probabilities=(0.5, 1.0), scales=(0.5, 0.2), hidden=2, steps=40, seeds=2),
    compute=compute,
    claims=claims,
    draw=draw,
)
