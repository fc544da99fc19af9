"""The panels of an explanation's figure: losses, modules, what they write, the race, the elbow, selectivity."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from neuralrace.explanation.measures import Module, Selectivity
from neuralrace.plotting import COLOURS, heat_map, label_axes, loss_axis, reconstruction_line, training_band
from neuralrace.reln import Race, Staged, Tried
from neuralrace.theory import Forecast
from neuralrace.trajectory import Trajectory


def draw_losses(axis: Axes, run: Trajectory, reconstruction: Forecast | None, staged: Staged | None) -> None:
    """Training, and what was rebuilt of it from modules."""
    training_band(axis, run.time, run.loss, "relu", "ReLU networks")
    if reconstruction is not None:
        label = "reconstruction, one gating"
        reconstruction_line(axis, run.time, reconstruction.loss, label, dotted=staged is not None)
    if staged is not None:
        reconstruction_line(axis, staged.time, staged.loss.mean(axis=0), "reconstruction, two stretches")
    axis.set_yscale("log")
    loss_axis(axis, "learning")


def draw_modules(axis: Axes, modules: Sequence[Module], groups: np.ndarray | None) -> None:
    """Which examples each module is on for, group by group."""
    patterns = np.array([module.on for module in modules], dtype=float)
    order = np.arange(patterns.shape[1]) if groups is None else np.argsort(groups, kind="stable")
    picture = axis.imshow(patterns[:, order], cmap="Greys", vmin=0, vmax=1.4, aspect="auto", interpolation="nearest")
    picture.set_rasterized(True)
    axis.set_yticks(range(len(patterns)), [module.name for module in modules], fontsize=8)
    if groups is not None:
        names, starts = np.unique(groups[order], return_index=True)
        for start in starts[1:]:
            axis.axvline(start - 0.5, color=COLOURS["relu"], linewidth=0.8)
        axis.set_xticks(starts, [str(name) for name in names], fontsize=8)
    label_axes(axis, "modules: on (grey) and off", "example" if groups is None else "example, by group", "")


def draw_written(axis: Axes, modules: Sequence[Module]) -> None:
    """What the modules of the last layer add to each output."""
    shown = [module for module in modules if module.layer == modules[-1].layer]
    added = np.array([module.written for module in shown])
    heat_map(axis, added, "what modules add to the outputs", horizontal="output", vertical="", value="mean size")
    axis.set_yticks(range(len(shown)), [module.name for module in shown], fontsize=8)
    columns = range(0, added.shape[1], max(1, added.shape[1] // 6))
    axis.set_xticks(columns, [str(column + 1) for column in columns], fontsize=8)


def draw_race(axis: Axes, race: Race, entered: Sequence[str]) -> None:
    """The forecast of every candidate; the one that was found in the networks in the colour of what uses a run."""
    for runner in race.runners:
        curve = runner.forecast
        if runner.name in entered:
            reconstruction_line(axis, curve.time, curve.loss, f"{runner.name}, found")
        else:
            axis.plot(curve.time, curve.loss, label=runner.name, linewidth=1.3)
    axis.axhline(race.criterion, color=COLOURS["reference"], linewidth=0.8, linestyle=":")
    axis.set_yscale("log")
    loss_axis(axis, "race of gatings (theory)")


def draw_elbow(axis: Axes, tried: Sequence[Tried]) -> None:
    """How the distance falls with the number of modules."""
    counts = [row.modules for row in tried]
    axis.plot(counts, [row.normalised_l1 for row in tried], "o-", color=COLOURS["reconstruction"])
    axis.set_xticks(counts)
    axis.set_ylim(bottom=0)
    label_axes(axis, "reconstruction by number of modules", "modules in a layer", "normalised L1")


def draw_selectivity(axis: Axes, selectivity: Sequence[Selectivity]) -> None:
    """In how many groups neurons of the last layer are active."""
    if not selectivity:
        axis.set_axis_off()
        return
    one = selectivity[-1]
    places = np.arange(len(one.share))
    axis.bar(places - 0.2, one.share, 0.4, color=COLOURS["relu"], label="after training")
    axis.bar(places + 0.2, one.before, 0.4, color=COLOURS["reference"], label="before")
    axis.set_xticks(places)
    label_axes(axis, f"selectivity of {one.layer}", "groups in which a neuron is active", "share of neurons")
