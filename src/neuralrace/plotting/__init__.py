"""Drawing on axes that are given; takes records and computes nothing of the science."""

from neuralrace.plotting.curves import (
    label_axes,
    loss_axis,
    reconstruction_line,
    theory_line,
    trade_off_lines,
    training_band,
)
from neuralrace.plotting.heat import heat_map
from neuralrace.plotting.style import COLOURS, SERIES, new_figure

__all__ = [
    "COLOURS",
    "SERIES",
    "heat_map",
    "label_axes",
    "loss_axis",
    "new_figure",
    "reconstruction_line",
    "theory_line",
    "trade_off_lines",
    "training_band",
]
