"""A finished sweep: its dataset, what became of the claims, and a figure of what was measured."""

import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace.plotting import label_axes, new_figure, new_panels, sequence
from neuralrace.sweeps.points import Sweep

PANELS = 12  # quantities that are drawn; all are in the dataset
LINES = 6  # of other settings in one panel
WORDS = 140  # letters of what was measured
LINE = 36  # letters of a line of it


@dataclass(frozen=True, eq=False)
class Swept:
    """A finished sweep. data: one labelled dataset. path: where it is kept. failed: settings as JSON -> why."""

    sweep: Sweep
    data: xarray.Dataset
    path: Path
    failed: dict[str, str]

    @property
    def claims(self) -> list[dict[str, Any]]:
        """Each claim with the number of points at which it was measured and at which it holds."""
        if "claim_holds" not in self.data:
            return []
        found = self.data["claim_holds"].values.reshape(self.data.sizes["claim"], -1)
        return [
            {"claim": str(text), "points": int(np.isfinite(row).sum()), "holds": int(np.nansum(row))}
            for text, row in zip(self.data["claim"].values, found, strict=True)
        ]

    def summary(self) -> dict[str, Any]:
        """The sweep in plain values."""
        return {
            "experiment": self.sweep.experiment.name,
            "axes": self.sweep.identity["axes"],
            "points": len(self.sweep.points),
            "failed": [{"settings": json.loads(point), "why": why} for point, why in self.failed.items()],
            "claims": self.claims,
            "data": str(self.path),
        }

    def figure(self) -> Figure:
        """What the claims measured against the swept settings: lowest to highest, a panel for each quantity."""
        if "measured" not in self.data:
            figure, axes = new_figure()
            label_axes(axes[0, 0], "nothing was measured", next(iter(self.sweep.axes)), "")
            return figure
        shown = self.data["measured"].isel(quantity=slice(0, PANELS))
        figure, axes = new_panels(shown.sizes["quantity"])
        for axis, values in zip(axes, shown.transpose("quantity", ...), strict=True):
            self._panel(axis, values)
        return figure

    def _panel(self, axis: Any, values: xarray.DataArray) -> None:
        """One line for each combination of the other settings, over the one with the most values."""
        along = max(self.sweep.axes, key=lambda name: len(self.sweep.axes[name]))
        others = [name for name in self.sweep.axes if name != along]
        lines = values.stack(line=others) if others else values.expand_dims(line=[""], axis=-1)
        labels = self.data[along].values
        numeric = labels.dtype.kind in "fiu"
        places = labels if numeric else np.arange(len(labels))
        count = min(lines.sizes["line"], LINES)
        for place, color in zip(range(count), sequence(count), strict=True):
            line = lines.isel(line=place)
            low, high = (line.sel(end=end).transpose(along).values for end in ("lowest", "highest"))
            named = ", ".join(f"{name} {line[name].item()}" for name in others)
            axis.plot(places, high, "o-", color=color, markersize=3, label=named or None)
            axis.fill_between(places, low, high, color=color, alpha=0.2, linewidth=0)
        if not numeric:
            axis.set_xticks(places, [str(label) for label in labels])
        elif (labels > 0).all() and labels.max() > 20 * labels.min():
            axis.set_xscale("log")
        claim, what = (str(values[name].values) for name in ("quantity_claim", "quantity_name"))
        label_axes(axis, claim, along, textwrap.fill(textwrap.shorten(what, WORDS, placeholder=" ..."), LINE))
