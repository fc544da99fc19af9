"""The panels of an explanation: losses, replays, modules, what they write, the race, selectivity."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from neuralrace.explanation.tables import so_many
from neuralrace.plotting import COLORS, SERIES, TIME, heat_map, label_axes, loss_curves, reconstruction_line
from neuralrace.reln.replay import NEAR_L1


def drawn(told: Any) -> dict[str, Callable[[Axes], None]]:
    """What draws each panel, by its title."""
    draw = {"learning": _losses, "what fidelity costs": _replays}
    if told.modules:
        draw |= {"modules": _modules, "what modules add": _written}
    if told.race is not None:
        draw["race of gatings"] = _race
    if told.selectivity:
        draw["selectivity"] = _selectivity
    return {title: partial(one, told=told) for title, one in draw.items()}


def _losses(axis: Axes, told: Any) -> None:
    """The forecast, training, and the chosen replay."""
    chosen, run = told.chosen, told.run
    label = "forecast, before training" if told.before else "forecast"
    theory = {} if told.forecast is None else {label: np.interp(run.time, told.forecast.time, told.forecast.loss)}
    finite = np.isfinite(chosen.loss).all()
    replayed = {f"reconstruction, {so_many(chosen.modules, 'module')}": chosen.loss} if finite else {}
    axis.set_yscale("log")
    loss_curves(axis, "learning", run.time, {"ReLU networks": ("relu", run.loss)}, theory, replayed)


def _replays(axis: Axes, told: Any) -> None:
    """How the distance falls with the number of modules, a line for each number of stretches."""
    rows, chosen = told.found.tried, told.chosen
    axis.set_yscale("log")
    shown = [row for row in rows if np.isfinite(row.agreement.normalized_l1)]
    if not shown:
        axis.set_ylim(NEAR_L1 / 10, NEAR_L1 * 10)  # the limit alone has no range
    for place, stretches in enumerate(sorted({row.stretches for row in shown})):
        mine = [row for row in shown if row.stretches == stretches]
        counts, far = [row.modules for row in mine], [row.agreement.normalized_l1 for row in mine]
        look: dict[str, Any] = {"color": SERIES[place % len(SERIES)], "label": so_many(stretches, "stretch")}
        axis.plot(counts, far, "o-", markersize=4, **look)
    axis.axhline(NEAR_L1, color=COLORS["reference"], linewidth=0.8, linestyle=":")
    if chosen in shown:
        look = {"color": COLORS["reconstruction"], "markersize": 10, "fillstyle": "none"}
        axis.plot(chosen.modules, chosen.agreement.normalized_l1, "s", label="chosen", **look)
    axis.set_xticks(sorted({row.modules for row in rows}))
    label_axes(axis, "what fidelity costs (reconstructions)", "modules", "normalized L1")


def _modules(axis: Axes, told: Any) -> None:
    """Which examples each module is on for, group by group."""
    patterns, groups = told.found.patterns.astype(float), told.groups
    order = np.arange(patterns.shape[1]) if groups is None else np.argsort(groups, kind="stable")
    picture = axis.imshow(patterns[:, order], cmap="Greys", vmin=0, vmax=1.4, aspect="auto", interpolation="nearest")
    picture.set_rasterized(True)
    axis.set_yticks(range(len(patterns)), [module.name for module in told.modules], fontsize=8)
    if groups is not None:
        names, starts = np.unique(groups[order], return_index=True)
        for start in starts[1:]:
            axis.axvline(start - 0.5, color=COLORS["relu"], linewidth=0.8)
        axis.set_xticks(starts, [str(name) for name in names], fontsize=8)
    label_axes(axis, "modules: on (grey) and off", "example" if groups is None else "example, by group", "")


def _written(axis: Axes, told: Any) -> None:
    """What the modules of the last layer add to each output."""
    written, names = {one.name: one.written for one in told.modules if one.written is not None}, told.outputs
    added = np.array([np.abs(each).mean(axis=0) for each in written.values()])
    heat_map(axis, added, "what modules add to the outputs", horizontal="output", vertical="", value="mean size")
    axis.set_yticks(range(len(written)), list(written), fontsize=8)
    columns = range(0, added.shape[1], max(1, added.shape[1] // 10 if names else added.shape[1] // 6))
    titles = [names[column] if names else str(column + 1) for column in columns]
    axis.set_xticks(columns, titles, fontsize=8, rotation=30 if max(map(len, titles)) > 3 else 0)


def _race(axis: Axes, told: Any) -> None:
    """The forecast of every candidate; the one that was found in the networks in the color of what uses a run."""
    race = told.race
    assert race is not None
    for runner in race.runners:
        curve = runner.forecast
        if runner.name in told.entered:
            name = runner.name if runner.name == "found" else f"{runner.name}, found"
            reconstruction_line(axis, curve.time, curve.loss, name)
        else:
            axis.plot(curve.time, curve.loss, label=runner.name, linewidth=1.3)
    axis.axhline(race.criterion, color=COLORS["reference"], linewidth=0.8, linestyle=":")
    axis.set_yscale("log")
    label_axes(axis, "race of gatings (theory)", TIME, "loss")


def _selectivity(axis: Axes, told: Any) -> None:
    """In how many groups neurons of the last layer are active."""
    layer, kinds = list(told.selectivity.items())[-1]
    places = np.arange(len(kinds["neurons"]))
    axis.bar(places - 0.2, kinds["neurons"], 0.4, color=COLORS["relu"], label="after training")
    axis.bar(places + 0.2, kinds["before training"], 0.4, color=COLORS["reference"], label="before")
    axis.set_xticks(places)
    label_axes(axis, f"selectivity of {layer}", "groups in which a neuron is active", "share of neurons")
