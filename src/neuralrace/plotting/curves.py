"""Learning curves: theory as lines, training as a mean with the range of its seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from neuralrace.plotting.style import COLORS, inches_below, label_axes, legend_below

TIME = "time t (learning rate x step)"
DASHES: dict[str, Any] = {"theory": (0, (4, 2)), "reconstruction": (0, (6, 1.5, 1, 1.5))}
DOTS: Any = (0, (1, 1.5))  # of the second of its kind on an axis


def training_band(axis: Axes, time: NDArray, values: NDArray, kind: str, label: str | None) -> None:
    """Draw the mean over seeds and a band from the lowest to the highest; values are (seeds, T).

    kind: what is trained, which has a color everywhere, or a color of its own.
    """
    color = COLORS.get(kind, kind)
    axis.fill_between(time, values.min(axis=0), values.max(axis=0), color=color, alpha=0.25, linewidth=0)
    axis.plot(time, values.mean(axis=0), color=color, linewidth=1.8, label=label)


def theory_line(axis: Axes, time: NDArray, values: NDArray, label: str | None, *, dotted: bool = False) -> None:
    """Draw a prediction; a second one on the same axis is dotted."""
    style = DOTS if dotted else DASHES["theory"]
    axis.plot(time, values, color=COLORS["theory"], linewidth=1.3, linestyle=style, label=label)


def reconstruction_line(axis: Axes, time: NDArray, values: NDArray, label: str | None, *, dotted: bool = False) -> None:
    """Draw a curve computed from a run, which is no prediction; a second one on the same axis is dotted."""
    style = DOTS if dotted else DASHES["reconstruction"]
    axis.plot(time, values, color=COLORS["reconstruction"], linewidth=1.5, linestyle=style, label=label)


def mode_lines(
    axis: Axes, time: NDArray, trained: Mapping[str, tuple[str, NDArray]], theory: Mapping[str, NDArray]
) -> None:
    """Draw every mode: of trainings, (seeds, T, modes) or (T, modes) with what is trained; of forecasts, (T, modes).

    A second forecast is dotted; one whose label is "_" has no name.
    """
    for label, (kind, values) in trained.items():
        runs = values if values.ndim > 2 else values[None]
        for mode in range(runs.shape[-1]):
            training_band(axis, time, runs[..., mode], kind, None if mode else label)
    for number, (label, values) in enumerate(theory.items()):
        for mode in range(values.shape[-1]):
            theory_line(axis, time, values[:, mode], None if mode else label, dotted=number > 0)


def interval_points(
    axis: Axes, places: Any, intervals: Sequence[tuple[float, float, float]], *, across: bool = False, **style: Any
) -> None:
    """Draw means with their intervals, each (mean, low, high), upwards or across."""
    means, lows, highs = np.array(intervals).T
    reach = np.array([means - lows, highs - means])
    if across:
        axis.errorbar(means, places, xerr=reach, capsize=2, **style)
    else:
        axis.errorbar(places, means, yerr=reach, capsize=2, **style)


def loss_curves(
    axis: Axes,
    title: str,
    time: NDArray,
    trained: Mapping[str, tuple[str, NDArray]],
    theory: Mapping[str, NDArray] | None = None,
    rebuilt: Mapping[str, NDArray] | None = None,
    *,
    horizontal: str = TIME,
    tolerance: float | None = None,
) -> None:
    """Draw losses: trainings in color, forecasts in black dashes, reconstructions in violet, each with its label.

    trained: label -> what is trained, and its loss, (seeds, T) or (T,). theory, rebuilt: (T,), or several in one style,
    (n, T); a second label is dotted. tolerance: of log10; all that comes after the first training is then compared with
    its mean in a strip below.
    """
    theory, rebuilt = theory or {}, rebuilt or {}
    for label, (kind, values) in trained.items():
        training_band(axis, time, np.atleast_2d(values), kind, label)
    for draw, lines in ((theory_line, theory), (reconstruction_line, rebuilt)):
        for number, (label, values) in enumerate(lines.items()):
            for place, line in enumerate(np.atleast_2d(values)):
                draw(axis, time, line, None if place else label, dotted=number > 0)
    label_axes(axis, title, horizontal, "loss")
    if tolerance is not None:
        (_, first), *others = trained.values()
        mean = np.atleast_2d(first).mean(axis=0)
        curves = [(kind, np.atleast_2d(values).mean(axis=0)) for kind, values in others]
        curves += [("theory", values) for values in theory.values()]
        curves += [("reconstruction", values) for values in rebuilt.values()]
        difference_strip(axis, time, [(kind, np.log10(curve / mean)) for kind, curve in curves], tolerance)


def difference_strip(axis: Axes, time: NDArray, differences: Sequence[tuple[str, NDArray]], tolerance: float) -> None:
    """Draw, below a loss on a log axis, the distance of log10 of other curves from that of training, and a tolerance.

    differences: of each curve its kind, which has a style, and log10 of it less log10 of the mean run; a second one of
    theory, or of reconstructions, is dotted. A curve beyond ten tolerances leaves the strip.
    """
    axis.set_yscale("log")
    bottom, height = -0.36, 0.26  # as fractions of the axis above
    strip = axis.inset_axes((0.0, bottom, 1.0, height))
    strip.axhspan(-tolerance, tolerance, color=COLORS["reference"], alpha=0.25, linewidth=0)
    strip.axhline(0.0, color=COLORS["reference"], linewidth=0.6)
    drawn: set[str] = set()
    for kind, values in differences:
        style = DOTS if kind in drawn and kind in DASHES else DASHES.get(kind, "-")
        strip.plot(time, values, color=COLORS.get(kind, kind), linestyle=style, linewidth=1.2)
        drawn.add(kind)
    low, high = strip.get_ylim()
    strip.set_ylim(max(low, -10 * tolerance), min(high, 10 * tolerance))
    strip.spines[["top", "right"]].set_visible(False)
    strip.set_xlim(axis.get_xlim())
    strip.tick_params(labelsize=9)
    strip.xaxis.set_major_locator(MaxNLocator(5))
    strip.set_ylabel("log10 gap", fontsize=9)
    axis.tick_params(labelbottom=False)
    axis.xaxis.set_label_coords(0.5, bottom, transform=inches_below(axis, 0.3))
    legend_below(axis, bottom)
