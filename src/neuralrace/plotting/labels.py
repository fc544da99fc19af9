"""Words on axes: titles that fit, legends beside the data and never over them, names at the ends of lines."""

import textwrap
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation, Transform

Place = Literal["best", "center right", "below", "ends"]
LINE = 1.35  # height of a line of text, in parts of its font's
BESIDE = 0.55  # inches left of an axis that its title does not stand over
UNDER = 0.46  # inches that ticks and name of an axis take
SIZE = 9  # points of labels and ticks
SHORT = 19  # letters up to which labels stand in two columns


def label_axes(axis: Axes, title: str, horizontal: str, vertical: str, legend: Place = "below") -> None:
    """Title, axes and legend: below the axis, or with "ends" a name at the end of every line, in its color."""
    axis.set_title(_fitting(axis, title), fontsize=10, x=0.0, ha="left")
    axis.set_xlabel(horizontal, fontsize=SIZE)
    axis.set_ylabel(vertical, fontsize=SIZE)
    if not axis.get_legend_handles_labels()[0]:
        return
    if legend == "below":
        below(axis)
    elif legend == "ends":
        end_labels(axis)
    else:
        axis.legend(frameon=False, fontsize=8, loc=legend)


def below(axis: Axes, place: float = 0.0) -> None:
    """The legend under an axis, where it hides nothing; place: the lower end of what is drawn, in parts of the axis."""
    handles, labels = axis.get_legend_handles_labels()
    columns = 2 if len(labels) > 1 and max(map(len, labels)) <= SHORT else 1
    legend = axis.legend(
        handles,
        labels,
        frameon=False,
        fontsize=SIZE,
        loc="upper left",
        bbox_to_anchor=(0.0, place),
        bbox_transform=inches_below(axis, UNDER),
        ncols=columns,
        borderaxespad=0,
        columnspacing=1.2,
        handlelength=1.8,
    )
    for handle in legend.legend_handles:
        if isinstance(handle, Line2D):  # a faint line is named by a clear one
            handle.set(alpha=1.0, linewidth=max(1.2, float(handle.get_linewidth())))


def inches_below(axis: Axes, inches: float) -> Transform:
    """Parts of an axis, moved down."""
    return axis.transAxes + ScaledTranslation(0.0, -inches, axis.figure.dpi_scale_trans)


def end_labels(axis: Axes) -> None:
    """The label of every line beside its end, right of the axis, moved apart where ends are near each other.

    For lines that are told apart by where they end. Call it when the limits are those to be shown.
    """
    named = [(line, str(line.get_label())) for line in axis.lines if not str(line.get_label()).startswith("_")]
    _ = axis.get_xlim(), axis.get_ylim()  # settles limits that are still to be made from the data
    to_axis = axis.transData + axis.transAxes.inverted()
    ends = []
    for line, label in named:
        points = np.column_stack([np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)])
        points = points[np.isfinite(points).all(axis=1)]
        last = points[np.argmax(points[:, 0])]
        ends.append((float(np.clip(to_axis.transform(last)[1], 0, 1)), label, line.get_color()))
    step = LINE * SIZE / 72 / (0.68 * _cell(axis)[1])  # an axis has so much of its cell, before it is laid out
    ends.sort(key=lambda one: one[0])
    for (end, label, color), place in zip(ends, _apart([end for end, *_ in ends], step), strict=True):
        axis.annotate(
            label,
            (1.0, end),
            (1.04, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=color,
            fontsize=SIZE,
            va="center",
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0},
            annotation_clip=False,
        )


def _apart(places: list[float], step: float) -> list[float]:
    """Sorted places, moved as little as is easy so that neighbors are a step apart and all begin above zero."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + step) if found else place)
    excess = max(0.0, found[-1] - 1.0) if found else 0.0
    for index in reversed(range(len(found))):
        roof = 1.0 if index == len(found) - 1 else found[index + 1] - step
        found[index] = min(found[index], roof) if excess else found[index]
    return found


def _cell(axis: Axes) -> tuple[float, float]:
    """Width and height, in inches, of the cell of the figure's grid that an axis stands in."""
    whole = axis.get_figure(root=True)
    width, height = (0.0, 0.0) if whole is None else (float(size) for size in whole.get_size_inches())
    spec = axis.get_subplotspec()
    grid = None if spec is None else spec.get_gridspec()
    return (width, height) if grid is None else (width / grid.ncols, height / grid.nrows)


def _fitting(axis: Axes, title: str) -> str:
    """A title in lines that fit the axis, at about eleven letters an inch, after the letters of the panel."""
    letters = str(axis.get_label())
    lines = textwrap.wrap(title, max(20, int(11 * (_cell(axis)[0] - BESIDE))))
    return (f"{letters}  " if letters else "") + "\n".join(lines)
