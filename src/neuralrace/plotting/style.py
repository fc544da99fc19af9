"""One colour for one thing across all figures, safe for colour-blind readers (after Okabe and Ito)."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {
    "theory": "#000000",
    "gated": "#0072B2",
    "relu": "#D55E00",
    "linear": "#009E73",
    "reconstruction": "#5D3A9B",
    "untrained": "#CC79A7",
    "reference": "#7F7F7F",
}

SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F")  # things of one kind, in turn


def new_figure(columns: int = 1, rows: int = 1, width: float = 4.2, height: float = 3.2) -> tuple[Figure, Any]:
    """A figure with a grid of axes, (rows, columns), that belongs to no window."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        tidy(axis)
    return figure, axes


def tidy(axis: Axes) -> None:
    """Take away what carries no information, and draw unnamed lines in the colours of a series."""
    axis.set_prop_cycle(color=SERIES)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.tick_params(labelsize=9)
