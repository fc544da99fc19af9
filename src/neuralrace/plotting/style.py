"""One color for one thing across all figures, safe for color-blind readers (after Okabe and Ito)."""

from typing import Any

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

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


def sequence(count: int) -> list[str]:
    """Colors for an ordered series, such as depths or scales: of one perceptual map, from dark to light."""
    return [to_hex(colormaps["viridis"](0.82 * place / max(count - 1, 1))) for place in range(count)]


def new_figure(columns: int = 1, rows: int = 1, width: float = 4.2, height: float = 3.2) -> tuple[Figure, Any]:
    """A figure with a grid of axes, (rows, columns), that belongs to no window."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        tidy(axis)
    return figure, axes


def new_panels(count: int, columns: int = 3, width: float = 4.2, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels, one after the other, at most so many in a row."""
    figure, axes = new_figure(min(columns, count), -(-count // columns), width, height)
    for axis in axes.flat[count:]:
        axis.remove()
    return figure, list(axes.flat[:count])


def lay_out(figure: Figure) -> Figure:
    """Find a place for everything once: however often the figure is then saved, nothing moves."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        # none at all and not "none", for which every saving draws twice
        with rc_context({"figure.autolayout": False, "figure.constrained_layout.use": False}):
            figure.set_layout_engine(None)
    return figure


def tidy(axis: Axes) -> None:
    """Take away what carries no information, and draw unnamed lines in the colors of a series."""
    axis.set_prop_cycle(color=SERIES)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.tick_params(labelsize=9)
    axis.xaxis.set_major_locator(MaxNLocator(5))  # so that long numbers do not touch
