"""Drawing on axes that are given; takes records and computes nothing of the science."""

from neuralrace.plotting.curves import loss_axis, training_band
from neuralrace.plotting.style import COLOURS, new_figure

__all__ = ["COLOURS", "loss_axis", "new_figure", "training_band"]
