"""Learning curves: theory as lines, training as a mean with the range of its seeds."""

from collections.abc import Iterable
from typing import Literal

from matplotlib.axes import Axes
from numpy.typing import NDArray

from neuralrace.plotting.style import COLOURS, SERIES

Place = Literal["best", "center right"]


def training_band(axis: Axes, time: NDArray, values: NDArray, kind: str, label: str) -> None:
    """Draw the mean over seeds and a band from the lowest to the highest; values are (seeds, T)."""
    colour = COLOURS[kind]
    axis.fill_between(time, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.25, linewidth=0)
    axis.plot(time, values.mean(axis=0), color=colour, linewidth=1.8, label=label)


def theory_line(axis: Axes, time: NDArray, values: NDArray, label: str | None, *, dotted: bool = False) -> None:
    """Draw a prediction; a second one on the same axis is dotted."""
    style = (0, (1, 1.5)) if dotted else (0, (4, 2))
    axis.plot(time, values, color=COLOURS["theory"], linewidth=1.3, linestyle=style, label=label)


def reconstruction_line(axis: Axes, time: NDArray, values: NDArray, label: str | None, *, dotted: bool = False) -> None:
    """Draw what was made with the help of a run, which is no prediction; a second one on the same axis is dotted."""
    style = (0, (1, 1.5)) if dotted else (0, (6, 1.5, 1, 1.5))
    axis.plot(time, values, color=COLOURS["reconstruction"], linewidth=1.5, linestyle=style, label=label)


def label_axes(axis: Axes, title: str, horizontal: str, vertical: str, legend: Place = "best") -> None:
    """Title, axes and legend, the last at a place that hides nothing."""
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(horizontal, fontsize=9)
    axis.set_ylabel(vertical, fontsize=9)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False, fontsize=8, loc=legend)


def loss_axis(axis: Axes, title: str) -> None:
    """Label the axes of a learning curve."""
    label_axes(axis, title, "time t (learning rate x step)", "loss")


def trade_off_lines(axis: Axes, rows: Iterable[tuple[int | None, int, float]], distance: str) -> None:
    """Draw a distance over the number of stretches, a line for each number of modules; None is every neuron.

    rows: modules, stretches and the distance, such as those of `reln.trade_off`.
    """
    lines: dict[int | None, list[tuple[int, float]]] = {}
    for modules, stretches, value in rows:
        lines.setdefault(modules, []).append((stretches, value))
    for place, (modules, points) in enumerate(lines.items()):
        own = modules is None
        colour = COLOURS["theory"] if own else SERIES[place % len(SERIES)]
        label = "every neuron" if own else f"{modules} modules"
        axis.loglog(*zip(*points, strict=True), "s-" if own else "o-", color=colour, markersize=4, label=label)
    label_axes(axis, "distance from the ReLU networks", "stretches of constant gates", distance)
