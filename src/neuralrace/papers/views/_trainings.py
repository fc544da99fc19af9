"""The trainings that P3's predictions are measured on, gated and ReLU networks alike, and their figure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace.analysis.intervals import interval
from neuralrace.papers.settings import setting
from neuralrace.papers.views._measures import coverage, gates_added, gates_apart, winner_share
from neuralrace.papers.views._paths import lone_responses, two_layer_end
from neuralrace.papers.views._training import CLASSES, LONE, VIEWS, Conditions, draw_weights, train_views
from neuralrace.plotting import COLORS, SERIES, TIME, interval_points, label_axes, new_panels, sequence

RATE = 1 / CLASSES  # sigma of a view of length one that is always present
EARLY = 200  # steps that are looked at one by two
SMALL_SCALE = 0.01  # for early growth and unequal rates, at depth two
UNEQUAL = (1.0, 0.8, 0.6)  # |phi_m|, and at depth two K times the rates
TEMPERATURE = 2.0  # of the teacher's soft targets
PENALTY = 0.1  # lambda of the competition loss
CHANCE = 0.9  # of a view where views are sometimes missing
FINER = 5  # how many times smaller the fine step is
RESTS = 0.02  # of the largest strength: what is nearer to its end has come to rest
DRAWN = {  # the trainings that are drawn -> in words
    "flow": "flow",
    "momentum": "momentum",
    "entropy": "cross-entropy",
    "standard": "views missing",
    "compete": "with a penalty",
    "student": "student",
    "student, all views": "student, all views",
}
WINS = {"gated": "B  the deeper, the stronger the winner", "relu": "B  no view wins but by a penalty"}
COVERS = {"gated": "C  depth leaves fewer views learned", "relu": "C  only a penalty leaves views out"}


@dataclass(frozen=True)
class Settings:
    """Three classes with three views each, all of length one; sigma = 1/3 where every view is always present."""

    depths: tuple[int, ...] = setting((2, 3, 4), least=2)
    hidden: int = 8
    scale: float = 0.25
    learning_rate: float = 0.5
    steps: int = 1500
    seeds: int = 30


def named(kind: str, depth: int) -> str:
    """The name of a training, its kind and its depth."""
    return f"{kind} L{depth}"


def trainings(network: str, settings: Settings) -> dict[str, Conditions]:
    """Name -> conditions of everything that is trained on hard targets."""
    base = Conditions(network, hidden=settings.hidden, scale=settings.scale, learning_rate=settings.learning_rate)
    small = replace(base, depth=2, scale=SMALL_SCALE, rule="flow")
    found = {named("growth", 2): small, named("unequal", 2): replace(small, sizes=UNEQUAL)}
    for depth in settings.depths:
        plain = replace(base, depth=depth)
        entropy = replace(plain, loss="cross-entropy")
        modern = replace(entropy, rule="momentum")
        kinds = {
            "flow": replace(plain, rule="flow"),
            "descent": plain,
            "momentum": replace(plain, rule="momentum"),
            "entropy": entropy,
            "standard": replace(modern, probability=CHANCE),
            "compete": replace(modern, probability=CHANCE, competition=PENALTY),
            "standard, all views": modern,
        }
        found |= {named(kind, depth): conditions for kind, conditions in kinds.items()}
    fine = replace(base, depth=settings.depths[-1], learning_rate=settings.learning_rate / FINER)
    found[named("fine descent", fine.depth)] = fine
    found[named("fine momentum", fine.depth)] = replace(fine, rule="momentum")
    return found


def students(settings: Settings, taught: Mapping[str, Conditions], data: xarray.Dataset) -> dict[str, Conditions]:
    """The same training with soft targets: the mean of the softmax at TEMPERATURE over all seeds of the teacher."""
    found = {}
    for depth in settings.depths:
        for teacher, student in (("standard", "student"), ("standard, all views", "student, all views")):
            logits = data["outputs"].sel(training=named(teacher, depth)).values / TEMPERATURE
            raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
            soft = (raised / raised.sum(axis=-1, keepdims=True)).mean(axis=0)
            found[named(student, depth)] = replace(taught[named(teacher, depth)], targets=soft)
    return found


def measure(network: str, settings: Settings) -> xarray.Dataset:
    """Train everything and keep responses over time, answers to lone views at the end, and what P3 assumes of gates.

    exact_end: responses at the end of gated networks of depth two, known from their initial weights.
    """
    conditions = trainings(network, settings)
    taught = _trained(conditions, settings)
    data = xarray.concat([taught, _trained(students(settings, conditions, taught), settings)], "training")
    data["lone_outputs"] = (("training", "seed", "class", "view", "output"), data["outputs"].values[:, :, LONE])
    data = data.assign_coords(depth=list(settings.depths)).assign_attrs(network=network)
    flows = [named("flow", depth) for depth in settings.depths]
    if network == "relu":
        ends = np.stack([data[name].sel(training=flows).values for name in ("first_activity", "activity")])
        alone, together = ends[..., LONE, :], ends[..., :CLASSES, :]  # all views are in the first rows
        names = ("moment", "depth", "seed", "class")
        data["gates_apart"], data["gates_added"] = (
            (names, measured(alone, together)) for measured in (gates_apart, gates_added)
        )
        data = data.drop_vars(["first_activity", "activity"])
    elif 2 in settings.depths:
        layers = [draw_weights(conditions[named("flow", 2)], seed) for seed in range(settings.seeds)]
        ends = lone_responses(two_layer_end(*(np.stack(layer) for layer in zip(*layers, strict=True))))
        data["exact_end"] = (("seed", "class", "view"), ends)
    return data.drop_vars("outputs")


def _trained(conditions: Mapping[str, Conditions], settings: Settings) -> xarray.Dataset:
    early = min(EARLY, settings.steps)
    looks = [*range(0, early, 2), *np.linspace(early, settings.steps, 27).astype(int)]
    found = train_views(list(conditions.values()), settings.steps, settings.seeds, looks)
    return found.assign_coords(training=list(conditions))


def draw(data: xarray.Dataset) -> Figure:
    """Strengths over time at two depths, winner's share and coverage of every training, and gates where there are any.

    What is said of a panel is what is found in the networks of this kind.
    """
    network, depths = data.attrs["network"], data["depth"].values.tolist()
    figure, (first, last, shares, covered, *opened) = new_panels(4 + ("gates_apart" in data), columns=2, width=4.4)
    for axis, depth in ((first, depths[0]), (last, depths[-1])):
        _draw_strengths(axis, data, depth)
    for axis in opened:
        _draw_gates(axis, data, depths)
    for axis, measured, words, title in (
        (shares, winner_share, "winner's share", WINS[network]),
        (covered, coverage, "coverage", COVERS[network]),
    ):
        for index, (depth, color) in enumerate(zip(depths, sequence(len(depths)), strict=True)):
            final = [data["responses"].sel(training=named(kind, depth)).values[:, -1] for kind in DRAWN]
            values = [measured(part[np.isfinite(part).all(axis=(1, 2))]).mean(axis=-1) for part in final]
            spans = [interval(part if part.size else [np.nan]) for part in values]
            places = np.arange(len(DRAWN)) + 0.15 * (index - (len(depths) - 1) / 2)
            interval_points(axis, places, spans, across=True, fmt="o", color=color, label=f"depth {depth}")
        axis.axvline(1 / VIEWS, color=COLORS["reference"], linewidth=0.8)
        _down(axis, DRAWN.values())
        label_axes(axis, title, f"{words}, mean and 95 % interval", "")
    return figure


def _draw_strengths(axis: Axes, data: xarray.Dataset, depth: int) -> None:
    """Every view of every class of one seed, until all have come to rest."""
    one = data.sel(training=named("flow", depth))
    time, curve, color = one["time"].values, one["strengths"].values[0], COLORS[data.attrs["network"]]
    for k, m in np.ndindex(*curve.shape[1:]):
        axis.plot(time, curve[:, k, m], color=color, alpha=1.0 if curve[-1, k].argmax() == m else 0.35, linewidth=1.2)
    moving = np.flatnonzero((np.abs(curve - curve[-1]) > RESTS * curve[-1].max()).any(axis=(1, 2)))
    axis.set_xlim(0, 1.3 * time[moving[-1] + 1] if len(moving) else time[-1])
    share = winner_share(one["responses"].values[:, -1]).mean()
    title = f"A  depth {depth}: winners (dark) end with {100 * share:.0f} %"
    label_axes(axis, title, TIME, "strength of a view")


def _draw_gates(axis: Axes, data: xarray.Dataset, depths: Sequence[int]) -> None:
    """How far different views open different units (A4), and all together their union (A5), at start and end."""
    moments = [f"{moment}, depth {depth}" for moment in ("start", "end") for depth in depths]
    for name, color, label in (
        ("gates_apart", SERIES[0], "A4: only one of two views opens it"),
        ("gates_added", SERIES[1], "A5: open for all if for some view"),
    ):
        spans = [interval(part.mean(axis=-1)) for part in data[name].values.reshape(-1, *data[name].shape[2:])]
        interval_points(axis, range(len(moments)), spans, across=True, fmt="o", color=color, label=label)
    _down(axis, moments)
    label_axes(
        axis, "D  the views of a class come to open the same units", "share of units, mean and 95 % interval", ""
    )


def _down(axis: Axes, names: Iterable[str]) -> None:
    """Rows with names, the first on top, over a share."""
    listed = list(names)
    axis.set_yticks(range(len(listed)), listed)
    axis.invert_yaxis()
    axis.set_xlim(0, 1.05)
