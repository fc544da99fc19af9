"""The figure of a report: losses, modules, what they write, the race, the elbow, selectivity."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace.explanation.findings import Findings
from neuralrace.plotting import COLOURS, heat_map, label_axes, loss_axis, new_figure, theory_line, training_band


def draw(report: Findings) -> Figure:
    """Six panels."""
    figure, axes = new_figure(3, rows=2, width=4.6)
    _losses(axes[0, 0], report)
    _modules(axes[0, 1], report)
    _written(axes[0, 2], report)
    for runner in report.race.runners:
        axes[1, 0].plot(runner.forecast.time, runner.forecast.loss, label=runner.name, linewidth=1.3)
    axes[1, 0].axhline(report.race.criterion, color=COLOURS["reference"], linewidth=0.8, linestyle=":")
    axes[1, 0].set_yscale("log")
    loss_axis(axes[1, 0], "race of gatings (theory)")
    _elbow(axes[1, 1], report)
    _selectivity(axes[1, 2], report)
    return figure


def _losses(axis: Axes, report: Findings) -> None:
    training_band(axis, report.run.time, report.run.loss, "relu", "ReLU networks")
    if report.found.forecast is not None:
        theory_line(axis, report.run.time, report.found.forecast.loss, "one gating", dotted=report.staged is not None)
    if report.staged is not None:
        theory_line(axis, report.staged.time, report.staged.loss.mean(axis=0), "two stretches")
    axis.set_yscale("log")
    loss_axis(axis, "learning")


def _modules(axis: Axes, report: Findings) -> None:
    patterns = np.array([module.on for module in report.modules], dtype=float)
    order = np.arange(patterns.shape[1]) if report.groups is None else np.argsort(report.groups, kind="stable")
    picture = axis.imshow(patterns[:, order], cmap="Greys", vmin=0, vmax=1.4, aspect="auto", interpolation="nearest")
    picture.set_rasterized(True)
    axis.set_yticks(range(len(patterns)), [module.name for module in report.modules], fontsize=8)
    if report.groups is not None:
        names, starts = np.unique(report.groups[order], return_index=True)
        for start in starts[1:]:
            axis.axvline(start - 0.5, color=COLOURS["relu"], linewidth=0.8)
        axis.set_xticks(starts, [str(name) for name in names], fontsize=8)
    kind = "example" if report.groups is None else "example, by group"
    label_axes(axis, "modules: on (grey) and off", kind, "")


def _written(axis: Axes, report: Findings) -> None:
    last = report.modules[-1].layer
    shown = [module for module in report.modules if module.layer == last]
    added = np.array([module.written for module in shown])
    heat_map(axis, added, "what modules add to the outputs", horizontal="output", vertical="", value="mean size")
    axis.set_yticks(range(len(shown)), [module.name for module in shown], fontsize=8)
    columns = range(0, added.shape[1], max(1, added.shape[1] // 6))
    axis.set_xticks(columns, [str(column + 1) for column in columns], fontsize=8)


def _elbow(axis: Axes, report: Findings) -> None:
    table = report.found.table
    axis.plot([row.modules for row in table], [row.normalised_l1 for row in table], "o-", color=COLOURS["theory"])
    axis.set_xticks([row.modules for row in table])
    axis.set_ylim(bottom=0)
    label_axes(axis, "forecast by number of modules", "modules in a layer", "normalised L1")


def _selectivity(axis: Axes, report: Findings) -> None:
    if not report.selectivity:
        axis.set_axis_off()
        return
    one = report.selectivity[-1]
    places = np.arange(len(one.share))
    axis.bar(places - 0.2, one.share, 0.4, color=COLOURS["relu"], label="after training")
    axis.bar(places + 0.2, one.before, 0.4, color=COLOURS["reference"], label="before")
    axis.set_xticks(places)
    label_axes(axis, f"selectivity of {one.layer}", "groups in which a neuron is active", "share of neurons")
