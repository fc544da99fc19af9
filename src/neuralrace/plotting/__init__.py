"""Drawing on axes that are given; takes records and computes nothing of the science."""

from neuralrace.plotting.curves import (
    TIME,
    interval_points,
    label_axes,
    loss_axis,
    mode_lines,
    reconstruction_line,
    shades,
    theory_line,
    trade_off_lines,
    training_band,
)
from neuralrace.plotting.heat import heat_map
from neuralrace.plotting.style import COLOURS, SERIES, new_figure

__all__ = [
    "COLOURS",
    "SERIES",
    "TIME",
    "heat_map",
    "interval_points",
    "label_axes",
    "loss_axis",
    "mode_lines",
    "new_figure",
    "reconstruction_line",
    "shades",
    "theory_line",
    "trade_off_lines",
    "training_band",
]
