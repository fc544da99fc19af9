"""How figures look: colors (after Okabe and Ito), titles that fit, legends beside the data, matrices, graphs."""

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation, Transform
from numpy.typing import NDArray

from neuralrace.architecture import Architecture

COLORS = {
    "theory": "#000000",
    "gated": "#0072B2",
    "relu": "#D55E00",
    "linear": "#009E73",
    "reconstruction": "#5D3A9B",
    "untrained": "#CC79A7",
    "reference": "#7F7F7F",
}
SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F")  # things of one kind, in turn
SIZE = 9  # points of labels and ticks


def sequence(count: int) -> list[str]:
    """Choose colors for an ordered series, such as depths or scales: of one perceptual map, from dark to light."""
    return [to_hex(colormaps["viridis"](0.82 * place / max(count - 1, 1))) for place in range(count)]


def new_panels(count: int, columns: int = 3, width: float = 4.2, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    """Make a figure with `count` panels, at most `columns` in a row, that belongs to no window."""
    rows, columns = -(-count // columns), min(columns, count)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, place + 1) for place in range(count)]
    for axis in axes:
        axis.set_prop_cycle(color=SERIES)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=SIZE)
        axis.xaxis.set_major_locator(MaxNLocator(5))  # so that long numbers do not touch
    return figure, axes


def lay_out(figure: Figure) -> Figure:
    """Lay a figure out once: however often it is then saved, nothing moves."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        # none at all and not "none", for which every saving draws twice
        with rc_context({"figure.autolayout": False, "figure.constrained_layout.use": False}):
            figure.set_layout_engine(None)
    return figure


def label_axes(axis: Axes, title: str, horizontal: str, vertical: str) -> None:
    """Write title, axes and, below them, the legend."""
    spec, figure = axis.get_subplotspec(), axis.get_figure(root=True)
    assert figure is not None
    inches = figure.get_size_inches()[0] / (1 if spec is None else spec.get_gridspec().ncols)
    # lines that fit the axis, at about eleven letters an inch
    lines = textwrap.wrap(title, max(20, int(11 * (inches - 0.55))))
    axis.set_title("\n".join(lines), fontsize=10, x=0.0, ha="left")
    axis.set_xlabel(horizontal, fontsize=SIZE)
    axis.set_ylabel(vertical, fontsize=SIZE)
    if axis.get_legend_handles_labels()[0]:
        legend_below(axis)


def legend_below(axis: Axes, place: float = 0.0) -> None:
    """Put the legend under an axis; place: the lower end of the drawing, as a fraction of the axis."""
    handles, labels = axis.get_legend_handles_labels()
    columns = 2 if len(labels) > 1 and max(map(len, labels)) <= 19 else 1
    legend = axis.legend(
        handles,
        labels,
        frameon=False,
        fontsize=SIZE,
        loc="upper left",
        bbox_to_anchor=(0.0, place),
        bbox_transform=inches_below(axis, 0.46),  # ticks and the name of the axis
        ncols=columns,
        borderaxespad=0,
        columnspacing=1.2,
        handlelength=1.8,
    )
    for handle in legend.legend_handles:
        if isinstance(handle, Line2D):  # a faint line is named by a clear one
            handle.set(alpha=1.0, linewidth=max(1.2, float(handle.get_linewidth())))


def inches_below(axis: Axes, inches: float) -> Transform:
    """Move the coordinates of an axis down."""
    return axis.transAxes + ScaledTranslation(0.0, -inches, axis.figure.dpi_scale_trans)


def heat_map(
    axis: Axes,
    matrix: NDArray,
    title: str,
    horizontal: str,
    vertical: str,
    value: str,
    *,
    blocks: tuple[int, int] | None = None,
    names: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
    largest: float | None = None,
) -> None:
    """Draw a matrix with a color bar for its value, zero in white: from zero up, or to both sides where it has signs.

    blocks: how many rows and columns belong together; they are numbered from one. names: of single rows and columns.
    largest: the end of the scale, where several pictures share one; they then have both signs.
    """
    signed = largest is not None or bool(matrix.min() < 0)
    top = largest or float(abs(matrix).max()) or 1.0
    top = 1.0 if not signed and top <= 1 else top  # shares and gates on a scale from 0 to 1
    style: dict[str, Any] = {"cmap": "RdBu_r" if signed else "Blues", "vmin": -top if signed else 0.0, "vmax": top}
    picture = axis.imshow(matrix, aspect="auto", interpolation="nearest", **style)
    for place, mark in enumerate((axis.set_yticks, axis.set_xticks)):
        size = blocks[place] if blocks else 1
        starts = range(0, matrix.shape[place], size)
        labels = names[place] or [str(number + 1) for number in range(len(starts))]
        every = -(-len(labels) // 12)  # at most twelve ticks on a side
        middles = [(start + min(start + size, matrix.shape[place]) - 1) / 2 for start in starts]
        mark(middles[::every], list(labels)[::every], fontsize=SIZE)
    if names[1] and max(map(len, names[1])) > 5:
        axis.tick_params(axis="x", rotation=45)
    axis.spines[["top", "right"]].set_visible(True)
    label_axes(axis, title, horizontal, vertical)
    bar = axis.figure.colorbar(picture, cax=axis.inset_axes((1.03, 0.1, 0.05, 0.8)))
    bar.set_label(value, fontsize=SIZE)
    bar.ax.tick_params(labelsize=SIZE)


def draw_network(axis: Axes, architecture: Architecture, title: str) -> None:
    """Draw the graph of a network with the sizes of its nodes, from left to right."""
    label_axes(axis, title, "from inputs to outputs", "")
    architecture.draw(axis)
    axis.margins(0.2)  # so that the outermost nodes are not cut
