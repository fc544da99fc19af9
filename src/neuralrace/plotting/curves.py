"""Learning curves: theory as lines, training as a mean with the range of its seeds."""

from matplotlib.axes import Axes
from numpy.typing import NDArray

from neuralrace.plotting.style import COLOURS


def training_band(axis: Axes, time: NDArray, values: NDArray, kind: str, label: str) -> None:
    """Draw the mean over seeds and a band from the lowest to the highest; values are (seeds, T)."""
    colour = COLOURS[kind]
    axis.fill_between(time, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.25, linewidth=0)
    axis.plot(time, values.mean(axis=0), color=colour, linewidth=1.6, label=label)


def theory_line(axis: Axes, time: NDArray, values: NDArray, label: str) -> None:
    """Draw a prediction."""
    axis.plot(time, values, color=COLOURS["theory"], linewidth=1.4, linestyle=(0, (4, 2)), label=label)


def loss_axis(axis: Axes, title: str) -> None:
    """Label the axes of a learning curve."""
    axis.set_title(title, fontsize=10)
    axis.set_xlabel("time t (learning rate x step)", fontsize=9)
    axis.set_ylabel("loss", fontsize=9)
    axis.legend(frameon=False, fontsize=8)
