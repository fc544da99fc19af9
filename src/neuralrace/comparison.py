"""A prediction and a run in one picture, with their distance."""

import numpy as np
from matplotlib.figure import Figure

from neuralrace.analysis import agreement
from neuralrace.analysis.agreement import LossCurve
from neuralrace.errors import RangeError, require_kind
from neuralrace.plotting import TIME, label_axes, new_figure, theory_line, training_band
from neuralrace.trajectory import Trajectory


def compare(forecast: LossCurve, run: Trajectory) -> Figure:
    """Draw the figure of a forecast and a run at the same times; its title says how far apart they are."""
    apart = agreement(forecast, run)
    require_kind("run", run, Trajectory, RangeError)
    figure, axes = new_figure(width=5.2, height=3.8)
    axis, kind = axes[0, 0], "relu" if run.problem is not None and run.problem.activations else "gated"
    training_band(axis, run.time, run.loss, kind, "training")
    theory_line(axis, forecast.time, np.atleast_2d(forecast.loss).mean(axis=0), "forecast")
    axis.set_ylim(bottom=0)
    label_axes(axis, f"normalized L1 {apart.normalized_l1:.2g}, log10 gap {apart.log10_gap:.2g}", TIME, "loss")
    return figure
