"""P2 Lemma 4.1 and Proposition 4.2: the gates that a neuron can have, and which gating wins the race."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, reln, tasks
from neuralrace.analysis import Line, agreement
from neuralrace.experiments.experiment import Claim, Experiment
from neuralrace.plotting import COLOURS, label_axes, loss_axis, new_figure
from neuralrace.tasks import NamedTask


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper, whose loss is a sum over the 24 examples: its rate is multiplied by their number.

    tables: items x contexts for which every gate pattern of one neuron is listed.
    """

    hidden: int = 700
    paper_rate: float = 0.001
    std: float = 0.005 / 700
    steps: int = 8000
    every: int = 50
    tables: tuple[str, ...] = ("2x2", "2x3", "4x2", "4x3")
    every_gating: bool = True


def compute(settings: Settings) -> xarray.Dataset:
    """List the implementable patterns of small tables, and forecast every gating by context; nothing is trained."""
    named = tasks.contextual(3, "mixed")
    times = settings.paper_rate * len(named.task) * np.arange(0, settings.steps + 1, settings.every)
    return xarray.merge([_patterns(settings), _race(settings, named, times), _singular(named)])


def _patterns(settings: Settings) -> xarray.Dataset:
    """How many patterns one neuron can have, how many of them the lemma allows, and how many there are in all."""
    counts = []
    for table in settings.tables:
        items, contexts = (int(part) for part in table.split("x"))
        named = tasks.contextual(contexts, items=items)
        patterns = reln.implementable_patterns(named.task.inputs["x"], strict=True)
        grid = patterns.reshape(-1, contexts, items)
        by_context = (grid == grid[:, :, :1]).all(axis=(1, 2))
        by_item = (grid == grid[:, :1]).all(axis=(1, 2))
        single = patterns.sum(axis=1) == 1
        board = (grid[:, :, None, :, None] & ~grid[:, :, None, None, :]) & (
            ~grid[:, None, :, :, None] & grid[:, None, :, None, :]
        )
        counts.append(
            [
                len(patterns),
                (by_context | single).sum(),
                by_item.sum(),
                board.any(axis=(1, 2, 3, 4)).sum(),
                2.0 ** len(named.task),
            ]
        )
    kinds = ["implementable", "allowed by the lemma", "by item alone", "with a checkerboard", "all"]
    return xarray.Dataset(
        {"patterns": (("table", "kind"), np.array(counts, dtype=float))},
        coords={"table": list(settings.tables), "kind": kinds},
    )


def _race(settings: Settings, named: NamedTask, times: np.ndarray) -> xarray.Dataset:
    """Forecasts of all gatings by contexts, each with as many neurons as the ReLU network."""
    gatings = reln.gatings_of_groups(named.groups["context"])
    last = list(gatings.values())
    gatings["common + both"] = np.vstack([last[-1], last[1][1:]])
    if not settings.every_gating:
        gatings = dict(list(gatings.items())[-2:])
    found = reln.race(
        named.task, gatings, initial=initial.gaussian(settings.std), times=times, neurons=settings.hidden, draws=1
    )
    weights = found["common + both"].forecast.weights()
    size = [float(np.linalg.norm(weights[f"m{p}", "y"] @ weights["x", f"m{p}"])) for p in range(7)]
    return xarray.Dataset(
        {
            "race": (("gating", "time"), np.array([r.forecast.loss for r in found.runners])),
            "race_time": ("gating", np.array([r.time for r in found.runners])),
            "race_size": ("pathway", np.array(size)),
        },
        coords={"gating": [r.name for r in found.runners], "time": times},
    )


def _singular(named: NamedTask) -> xarray.Dataset:
    """The largest singular value of the common pathway, and of it without one feature, property or example."""
    inputs, targets, count = named.task.inputs["x"], named.task.targets["y"], len(named.task)
    return xarray.Dataset(
        {
            "whole": ((), _top(inputs, targets, count)),
            "without_feature": (
                "removed",
                np.array(
                    [_top(np.delete(inputs, i, 1), targets, count) for i in range(inputs.shape[1])]
                    + [_top(inputs, np.delete(targets, i, 1), count) for i in range(targets.shape[1])]
                ),
            ),
            "without_example": (
                "example",
                np.array([_top(np.delete(inputs, i, 0), np.delete(targets, i, 0), count) for i in range(len(inputs))]),
            ),
        }
    )


def _top(inputs: np.ndarray, targets: np.ndarray, count: int) -> float:
    return float(np.linalg.norm(targets.T @ inputs / count, 2))


def claims(data: xarray.Dataset) -> list[Claim]:
    """Lemma 4.1, and Proposition 4.2 step by step."""
    return [*_lemma(data), *_proposition(data)]


def _lemma(data: xarray.Dataset) -> list[Claim]:
    possible, allowed, _, boards, _ = data["patterns"].values.T
    names = [str(name) for name in data["table"].values]
    shown = "; ".join(f"{n}: {p:.0f} against {a:.0f}" for n, p, a in zip(names, possible, allowed, strict=True))
    return [
        Claim(
            "No neuron is on for item 1 in context 1 and item 2 in context 2 but off for the other two pairs.",
            "P2 Lemma 4.1, first step of the proof",
            "no implementable pattern of any table holds such a checkerboard",
            f"{boards.sum():.0f} of {possible.sum():.0f} patterns",
            bool(boards.sum() == 0),
        ),
        Claim(
            "Every gate pattern of a neuron depends on the context alone or is on for a single example.",
            "P2 Lemma 4.1",
            "items x contexts: as many implementable patterns as the lemma allows",
            shown,
            bool((possible == allowed).all()),
            "refuted: every pattern without a checkerboard is implementable, such as on for all examples but one, or "
            "on for an item in every context; the proof excludes only the checkerboard",
        ),
    ]


def _proposition(data: xarray.Dataset) -> list[Claim]:
    names, times = [str(name) for name in data["gating"].values], data["race_time"].values
    size, whole = data["race_size"].values, float(data["whole"])
    features, examples = data["without_feature"].values, data["without_example"].values
    two = "common + open in 2 of 3"
    rivals = [name for name in names if name not in (two, "common + both")]
    line = Line(data["time"].values, data["race"].sel(gating=two).values)
    gaps = [agreement(Line(line.time, data["race"].sel(gating=r).values), line).normalised_l1 for r in rivals]
    order = ", ".join(f"{name}: {time:.1f}" for name, time in zip(names, times, strict=True))
    return [
        Claim(
            "Leaving out an input feature or a property can only slow the common pathway.",
            "P2 Proposition 4.2, interlacing",
            "no removal raises the largest singular value",
            f"ratios from {features.min() / whole:.3f} to {features.max() / whole:.6f}",
            bool(features.max() <= whole * (1 + 1e-12)),
        ),
        Claim(
            "Leaving out an example can only slow the common pathway.",
            "P2 Proposition 4.2, positivity",
            "no removal raises the largest singular value",
            f"ratios from {examples.min() / whole:.3f} to {examples.max() / whole:.6f}",
            bool(examples.max() <= whole * (1 + 1e-12)),
        ),
        Claim(
            "Of the gatings by context, the one with modules open in two contexts learns fastest.",
            "P2 Proposition 4.2, exhaustion",
            "it is the first of common, one context and two contexts to half of the first loss, and has the least area",
            f"{order}; areas "
            + ", ".join(f"{np.trapezoid(data['race'].sel(gating=n).values, line.time):.1f}" for n in [two, *rivals]),
            all(
                np.trapezoid(line.loss, line.time) < np.trapezoid(data["race"].sel(gating=r).values, line.time)
                for r in rivals
            ),
        ),
        Claim(
            "Its loss curve is like that of no other gating by context.",
            "P2 Proposition 4.2, uniqueness",
            "every other curve is at least 0.05 away in normalised L1",
            ", ".join(f"{name}: {gap:.3f}" for name, gap in zip(rivals, gaps, strict=True)) or "no other was tried",
            min(gaps, default=0.0) >= 0.05,
        ),
        Claim(
            "Where pathways for one and for two contexts are trained together, those for one context stay inactive.",
            "P2 appendix E",
            "the largest single-context map is below a tenth of the smallest two-context map at the end",
            f"two contexts {', '.join(f'{v:.2f}' for v in size[1:4])}; one {', '.join(f'{v:.2f}' for v in size[4:])}",
            bool(size[4:].max() < 0.1 * size[1:4].min()),
            "refuted: they grow to about half the size of the others",
        ),
    ]


def draw(data: xarray.Dataset) -> Figure:
    """How many patterns there are, and the loss of every gating by context."""
    figure, axes = new_figure(2, width=5.0)
    places = np.arange(data.sizes["table"])
    for index, kind in enumerate(("gated", "relu")):
        bars = data["patterns"].values[:, index]
        axes[0, 0].bar(places + 0.4 * index, bars, 0.4, color=COLOURS[kind], label=str(data["kind"].values[index]))
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_xticks(places + 0.2, [str(name) for name in data["table"].values])
    label_axes(axes[0, 0], "gate patterns of one neuron", "items x contexts", "patterns")
    for name, curve in zip(data["gating"].values, data["race"].values, strict=True):
        axes[0, 1].semilogy(data["time"].values, curve, label=str(name))
    loss_axis(axes[0, 1], "the race of gatings by context (theory)")
    return figure


EXPERIMENT = Experiment(
    name="jarvis2025-race",
    title="Which gates a neuron can have, and which gating wins the race",
    source="P2 Lemma 4.1 and Proposition 4.2",
    full=Settings(),
    tiny=Settings(hidden=28, paper_rate=0.002, std=0.01, steps=60, every=20, tables=("2x2",), every_gating=False),
    compute=compute,
    claims=claims,
    draw=draw,
)
