"""Learning curves: theory as lines, training as a mean with the range of its seeds."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from matplotlib.axes import Axes
from numpy.typing import NDArray

from neuralrace.plotting.style import COLOURS, SERIES

Place = Literal["best", "center right"]
TIME = "time t (learning rate x step)"


def training_band(axis: Axes, time: NDArray, values: NDArray, kind: str, label: str | None) -> None:
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


def mode_lines(axis: Axes, time: NDArray, values: NDArray, theory: NDArray, kind: str, label: str) -> None:
    """Draw every mode of a training, (seeds, T, modes), with its prediction, (T, modes)."""
    for mode in range(values.shape[-1]):
        training_band(axis, time, values[..., mode], kind, f"{label}, training" if mode == 0 else None)
        theory_line(axis, time, theory[:, mode], f"{label}, theory" if mode == 0 else None)


def shades(count: int) -> list[float]:
    """How opaque each line of an ordered series is, from faint to full."""
    return [0.3 + 0.7 * (place + 1) / count for place in range(count)]


def interval_points(axis: Axes, places: Any, intervals: Sequence[tuple[float, float, float]], **style: Any) -> None:
    """Draw means with their intervals; each is (mean, low, high)."""
    means, lows, highs = zip(*intervals, strict=True)
    reach = [[m - low for m, low in zip(means, lows, strict=True)], [h - m for h, m in zip(highs, means, strict=True)]]
    axis.errorbar(places, means, reach, capsize=2, **style)


def label_axes(axis: Axes, title: str, horizontal: str, vertical: str, legend: Place = "best") -> None:
    """Title, axes and legend, the last at a place that hides nothing."""
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(horizontal, fontsize=9)
    axis.set_ylabel(vertical, fontsize=9)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(frameon=False, fontsize=8, loc=legend)


def loss_axis(axis: Axes, title: str) -> None:
    """Label the axes of a learning curve."""
    label_axes(axis, title, TIME, "loss")


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
