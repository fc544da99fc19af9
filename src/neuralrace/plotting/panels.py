"""Learning curves under many settings: a panel for each value of one, a color for each of the others."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from neuralrace.plotting.curves import DASHES, TIME
from neuralrace.plotting.style import COLORS, label_axes, new_panels, sequence

MOST_PANELS, MOST_LABELS = 12, 8


def curve_panels(titles: Sequence[str], labels: Sequence[str], curves: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw losses: networks in thin lines, their median in a strong one, and the median forecast in black dashes.

    titles, labels: for each of the curves the panel that it belongs to, and what its color means. curves: `time` (T,),
    and `run` (seeds, T), `forecast` (draws, T) or both. Time is logarithmic where half of the loss is gone early.
    """
    panels, kinds = list(dict.fromkeys(titles)), list(dict.fromkeys(labels))
    panels = panels[:: -(-len(panels) // MOST_PANELS)]
    colors, named = dict(zip(kinds, sequence(len(kinds)), strict=True)), kinds[:: -(-len(kinds) // MOST_LABELS)]
    arrays = [{name: np.asarray(one[name]) for name in ("time", "run", "forecast") if name in one} for one in curves]
    losses = [(one["time"], one[name]) for one in arrays for name in ("run", "forecast") if name in one]
    halved = [(time, loss.mean(axis=0) <= 0.5 * loss[:, 0].mean()) for time, loss in losses]
    early = min((float(time[half][0]) for time, half in halved if half.any()), default=0.0)
    end, start = max(float(time[-1]) for time, _ in losses), max(float(loss[:, 0].max()) for _, loss in losses)
    seen = np.concatenate([loss.ravel() for _, loss in losses])
    seen = seen[(seen > 1e-5 * start) & (seen <= 10 * start)]  # neither what is learned to rounding nor what diverges
    figure, axes = new_panels(len(panels), width=4.2 if len(panels) > 1 else 6.0)
    for title, axis in zip(panels, axes, strict=True):
        mine = [place for place, panel in enumerate(titles) if panel == title]
        named_forecast = next((place for place in mine if {"run", "forecast"} <= arrays[place].keys()), None)
        for place in mine:
            one, label = arrays[place], labels[place]
            look: dict[str, Any] = {"color": colors[label], "label": label if label in named else None}
            if "run" in one:
                axis.plot(one["time"], one["run"].T, color=colors[label], linewidth=0.7, alpha=0.3)
                axis.plot(one["time"], np.median(one["run"], axis=0), linewidth=1.8, **look)
                look = {"color": COLORS["theory"], "label": "forecast" if place == named_forecast else None}
            if "forecast" in one:
                look |= {"linestyle": DASHES["theory"], "linewidth": 1.3}
                axis.plot(one["time"], np.median(one["forecast"], axis=0), **look)
        if len(seen):
            axis.set_yscale("log")
            axis.set_ylim(seen.min() / 1.3, 1.3 * seen.max())
        if 0 < early < 0.05 * end:
            axis.set_xscale("log")
            axis.set_xlim(max(0.1 * early, min(float(time[time > 0].min(initial=early)) for time, _ in losses)), end)
        label_axes(axis, title, TIME, "loss")
    return figure
