"""The panels of an explanation: losses, what fidelity costs, modules, what they write, the race, selectivity."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from neuralrace.explanation.measures import Module, Selectivity
from neuralrace.explanation.verdicts import so_many
from neuralrace.plotting import COLORS, SERIES, heat_map, label_axes, loss_axis, loss_curves, reconstruction_line
from neuralrace.reln import Ranking
from neuralrace.reln.pricing import NEAR_L1, Priced
from neuralrace.theory import Forecast
from neuralrace.trajectory import Trajectory

Draw = Callable[[Axes], None]


def draw_losses(axis: Axes, run: Trajectory, forecast: Forecast | None, before: bool, chosen: Priced) -> None:
    """What was foreseen, training, and what was rebuilt of it from modules; before: whether it was foreseen first."""
    label, mean = "forecast, before training" if before else "forecast", chosen.loss
    theory = {} if forecast is None else {label: forecast.loss}
    rebuilt = {f"reconstruction, {so_many(chosen.modules, 'module')}": mean} if np.isfinite(mean).all() else {}
    axis.set_yscale("log")
    loss_curves(axis, "learning", run.time, {"ReLU networks": ("relu", run.loss)}, theory, rebuilt)


def draw_prices(axis: Axes, rows: Sequence[Priced], chosen: Priced) -> None:
    """How the distance falls with the number of modules, a line for each number of stretches."""
    axis.set_yscale("log")
    if not any(np.isfinite(row.agreement.normalized_l1) for row in rows):
        axis.set_ylim(NEAR_L1 / 10, NEAR_L1 * 10)  # the limit alone has no range
    for place, stretches in enumerate(sorted({row.stretches for row in rows})):
        mine = [row for row in rows if row.stretches == stretches and np.isfinite(row.agreement.normalized_l1)]
        counts, far = [row.modules for row in mine], [row.agreement.normalized_l1 for row in mine]
        color, label = SERIES[place % len(SERIES)], so_many(stretches, "stretch")
        axis.plot(counts, far, "o-", color=color, label=label, markersize=4)
    axis.axhline(NEAR_L1, color=COLORS["reference"], linewidth=0.8, linestyle=":")
    if np.isfinite(chosen.agreement.normalized_l1):
        look: dict[str, Any] = {"color": COLORS["reconstruction"], "markersize": 10, "fillstyle": "none"}
        axis.plot(chosen.modules, chosen.agreement.normalized_l1, "s", label="chosen", **look)
    axis.set_xticks(sorted({row.modules for row in rows}))
    label_axes(axis, "what fidelity costs (reconstructions)", "modules", "normalized L1")


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
            axis.axvline(start - 0.5, color=COLORS["relu"], linewidth=0.8)
        axis.set_xticks(starts, [str(name) for name in names], fontsize=8)
    label_axes(axis, "modules: on (grey) and off", "example" if groups is None else "example, by group", "")


def draw_written(axis: Axes, modules: Sequence[Module], names: Sequence[str]) -> None:
    """What the modules of the last layer add to each output."""
    shown = [module for module in modules if module.layer == modules[-1].layer]
    added = np.array([module.written for module in shown])
    heat_map(axis, added, "what modules add to the outputs", horizontal="output", vertical="", value="mean size")
    axis.set_yticks(range(len(shown)), [module.name for module in shown], fontsize=8)
    columns = range(0, added.shape[1], max(1, added.shape[1] // 10 if names else added.shape[1] // 6))
    titles = [names[column] if names else str(column + 1) for column in columns]
    axis.set_xticks(columns, titles, fontsize=8, rotation=30 if max(map(len, titles)) > 3 else 0)


def draw_race(axis: Axes, race: Ranking, entered: Sequence[str]) -> None:
    """The forecast of every candidate; the one that was found in the networks in the color of what uses a run."""
    for runner in race.runners:
        curve = runner.forecast
        if runner.name in entered:
            name = runner.name if runner.name == "found" else f"{runner.name}, found"
            reconstruction_line(axis, curve.time, curve.loss, name)
        else:
            axis.plot(curve.time, curve.loss, label=runner.name, linewidth=1.3)
    axis.axhline(race.criterion, color=COLORS["reference"], linewidth=0.8, linestyle=":")
    axis.set_yscale("log")
    loss_axis(axis, "race of gatings (theory)")


def draw_selectivity(axis: Axes, selectivity: Sequence[Selectivity]) -> None:
    """In how many groups neurons of the last layer are active."""
    one = selectivity[-1]
    places = np.arange(len(one.share))
    axis.bar(places - 0.2, one.share, 0.4, color=COLORS["relu"], label="after training")
    axis.bar(places + 0.2, one.before, 0.4, color=COLORS["reference"], label="before")
    axis.set_xticks(places)
    label_axes(axis, f"selectivity of {one.layer}", "groups in which a neuron is active", "share of neurons")
