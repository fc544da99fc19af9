"""The figure of an explanation: learning, modules, what they write, the race."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from neuralrace.plotting import COLORS, TIME, heat_map, label_axes, loss_curves, new_panels, reconstruction_line


def draw(explained: Any) -> Figure:
    """Draw all panels of an Explanation side by side."""
    run, chosen, forecast = explained.run, explained.found.chosen, explained.forecast
    modules, groups, race = explained.modules, explained.groups, explained.race
    figure, axes = new_panels(1 + 2 * bool(modules) + (race is not None), width=4.6, height=3.2)
    label = "forecast, before training" if explained.before else "forecast"
    theory = {} if forecast is None else {label: np.interp(run.time, forecast.time, forecast.loss)}
    finite = chosen.loss is not None and np.isfinite(chosen.loss).all()
    replayed = {f"reconstruction, modules: {chosen.modules}": chosen.loss} if finite else {}
    axes[0].set_yscale("log")
    loss_curves(axes[0], "learning", run.time, {"ReLU networks": ("relu", run.loss)}, theory, replayed)
    for name, found in run.evaluated.items():
        axes[0].plot(run.time, found["loss"].mean("seed"), ":", color=COLORS["relu"], label=f"networks on {name!r}")
        if forecast is not None:
            others = np.interp(run.time, forecast.time, forecast.evaluated[name]["loss"].mean("seed"))
            axes[0].plot(run.time, others, ":", color=COLORS["theory"], label=f"forecast on {name!r}")
        label_axes(axes[0], "learning", TIME, "loss")
    if modules:
        patterns, axis = explained.found.patterns.astype(float), axes[1]
        order = np.arange(patterns.shape[1]) if groups is None else np.argsort(groups, kind="stable")
        look: dict[str, Any] = {"cmap": "Greys", "vmin": 0, "vmax": 1.4, "interpolation": "nearest"}
        axis.imshow(patterns[:, order], aspect="auto", **look).set_rasterized(True)
        axis.set_yticks(range(len(patterns)), [module.name for module in modules], fontsize=8)
        if groups is not None:
            names, starts = np.unique(groups[order], return_index=True)
            for start in starts[1:]:
                axis.axvline(start - 0.5, color=COLORS["relu"], linewidth=0.8)
            axis.set_xticks(starts, [str(name) for name in names], fontsize=8)
        label_axes(axis, "modules: on (grey) and off", "example" if groups is None else "example, by group", "")

        written, outputs = {one.name: one.written for one in modules if one.written is not None}, explained.outputs
        added = np.array([np.abs(each).mean(axis=0) for each in written.values()])
        titles = tuple(written), outputs or None
        heat_map(axes[2], added, "what modules add to the outputs", "output", "", "mean size", names=titles)
    if race is not None:
        for name, curve in race.forecasts.items():
            if name == "found":
                reconstruction_line(axes[-1], curve.time, curve.loss, name)
            else:
                axes[-1].plot(curve.time, curve.loss, label=name, linewidth=1.3)
        axes[-1].axhline(race.criterion, color=COLORS["reference"], linewidth=0.8, linestyle=":")
        axes[-1].set_yscale("log")
        label_axes(axes[-1], "race of gatings (theory)", TIME, "loss")
    return figure
