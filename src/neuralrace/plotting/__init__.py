"""Drawing on axes that are given; takes records and computes nothing of the science."""

from neuralrace.plotting.curves import (
    TIME,
    difference_strip,
    interval_points,
    loss_curves,
    mode_lines,
    reconstruction_line,
    theory_line,
    training_band,
)
from neuralrace.plotting.style import (
    COLORS,
    SERIES,
    draw_network,
    heat_map,
    label_axes,
    lay_out,
    new_panels,
    sequence,
)

__all__ = [
    "COLORS",
    "SERIES",
    "TIME",
    "difference_strip",
    "draw_network",
    "heat_map",
    "interval_points",
    "label_axes",
    "lay_out",
    "loss_curves",
    "mode_lines",
    "new_panels",
    "reconstruction_line",
    "sequence",
    "theory_line",
    "training_band",
]
